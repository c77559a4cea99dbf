"""What decides which phases a model retrieves: knockouts, gate statistics, gate cycling, and how they line up."""
