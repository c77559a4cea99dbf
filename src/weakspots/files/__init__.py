"""What is on disk: whole-or-nothing writing, hashes, the schemas of all tables."""
