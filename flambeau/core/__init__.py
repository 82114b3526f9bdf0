"""The Tensor, the declarations of operators, the modes and the gradient engine."""
