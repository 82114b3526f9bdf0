"""Methods of Tensor that belong to no family of operators."""
