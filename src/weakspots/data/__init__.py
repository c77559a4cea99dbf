"""Corpora, their tokenizers, and packed token shards."""
