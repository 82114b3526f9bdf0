"""Loop nests of the scalar language (ir.loops) to kernels, and laid over concrete tensors."""
