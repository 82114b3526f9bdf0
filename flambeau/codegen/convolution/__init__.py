"""Convolutions and their gradients, on the register tiles of matrix products."""
