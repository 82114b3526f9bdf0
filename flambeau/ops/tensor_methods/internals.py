"""Methods of Tensor that PyTorch's own code and its tests call by their inner names.

Each says what a public one says, in another form. Stands on the public methods; attached to Tensor.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator import unsupported
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor


def _autocast_to_reduced_precision(self: Any, cuda_enabled: bool, cpu_enabled: bool, cuda_dtype: Any, cpu_dtype: Any) -> Tensor:
    """The tensor in the dtype of autocast on its device if that is enabled there and it is float32; else itself."""
    return self.to(cpu_dtype) if cpu_enabled and str(self.dtype) == "torch.float32" else self  # type: ignore[no-any-return]


def _autocast_to_full_precision(self: Any, cuda_enabled: bool, cpu_enabled: bool) -> Tensor:
    """The tensor in float32 if autocast is enabled on its device and it is of a half type; else itself."""
    half = str(self.dtype) in ("torch.float16", "torch.bfloat16")
    return self.float() if cpu_enabled and half else self  # type: ignore[no-any-return]


def _is_zerotensor(self: Tensor) -> bool:
    """False: no tensor here is zero without having memory."""
    return False


for _method in (_autocast_to_reduced_precision, _autocast_to_full_precision, _is_zerotensor):
    setattr(Tensor, _method.__name__, _method)
NAMESPACE.setdefault("_is_zerotensor", _is_zerotensor)


def _alias(name: str, of: str) -> None:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, of)(*args, **kwargs)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"`{of}` by its inner name."
    setattr(Tensor, name, method)


for _name, _of in (
    ("_dimI", "sparse_dim"),
    ("_dimV", "dense_dim"),
    *((f"_{own}", own) for own in ("to_dense", "to_sparse", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc")),
):
    _alias(_name, _of)
for _name, _advice in (
    ("_philox_normal_", "use normal_"),
    ("_philox_uniform_", "use uniform_"),
    ("_sparse_mask_projection", "use sparse_mask"),
):
    setattr(Tensor, _name, unsupported.function(f"Tensor.{_name}", _advice))
