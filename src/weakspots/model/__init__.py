"""The network: a Qwen3-style decoder with full or compressed attention, its cache, and how it is loaded."""
