"""Making tensors, and copying and converting them."""
