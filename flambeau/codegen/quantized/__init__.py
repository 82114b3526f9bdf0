"""Kernels of quantized weights and activations: products of floats with weights that are widened in registers."""
