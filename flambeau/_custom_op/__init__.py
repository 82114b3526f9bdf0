"""torch._custom_op: the oldest form of custom operators."""
