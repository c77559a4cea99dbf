"""The next-token distribution after given token ids, from a transformers model or from a completions server."""
