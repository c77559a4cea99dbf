"""What the result tables say, before any claim or figure: pandas on tables, no model."""
