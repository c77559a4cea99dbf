"""The animal-to-name task: its words, and positions matched over residues."""
