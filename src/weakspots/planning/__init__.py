"""What a scale costs, as arithmetic on its configuration: nothing here builds a model."""
