"""torch.utils._cxx_pytree: pytrees by the package optree, as in PyTorch without it: importing this raises ImportError."""

raise ImportError(
    "torch.utils._cxx_pytree depends on `optree>=0.13.0`, which is an optional dependency of PyTorch. To use it, please "
    "upgrade your optree package via `python3 -m pip install --upgrade optree`"
)
