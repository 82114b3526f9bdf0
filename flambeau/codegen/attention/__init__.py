"""Attention whose scores never leave the cache, and its gradient."""
