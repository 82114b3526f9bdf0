"""Kernels of recurrent layers: all time steps of a sequence in one launch."""
