"""Sorting, distinct values, combinations."""
