"""Chunk-compressed attention: what a query may see, and the backends of pooling and of the joint attention."""
