"""Chunk-compressed attention: the compressor, what a query may see, and the backends of the joint attention."""
