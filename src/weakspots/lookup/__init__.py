"""The animal-to-name lookup: prompts that differ only in the target's position, and their scores."""
