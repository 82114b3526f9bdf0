"""Losses that are no loop nests."""
