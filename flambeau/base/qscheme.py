"""The markers of how integers stand for numbers in a quantized tensor: torch.per_tensor_affine and its kin.

Stands on base.naming. Used by ops.quantized and the namespace.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.naming import PACKAGE

__all__ = ["SCHEMES", "qscheme"]


class qscheme:
    """A quantization scheme; the instances are singletons, compared with `is`."""

    __slots__ = ("name",)
    name: str
    __module__ = PACKAGE

    def __new__(cls, *args: object) -> qscheme:
        raise TypeError("cannot create 'torch.qscheme' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __copy__(self) -> qscheme:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> qscheme:
        return self


def _marker(name: str) -> qscheme:
    made = object.__new__(qscheme)
    made.name = name
    return made


per_tensor_affine = _marker("per_tensor_affine")
per_channel_affine = _marker("per_channel_affine")
per_tensor_symmetric = _marker("per_tensor_symmetric")
per_channel_symmetric = _marker("per_channel_symmetric")
per_channel_affine_float_qparams = _marker("per_channel_affine_float_qparams")

#: The schemes by name.
SCHEMES = {
    marker.name: marker
    for marker in (
        per_tensor_affine,
        per_channel_affine,
        per_tensor_symmetric,
        per_channel_symmetric,
        per_channel_affine_float_qparams,
    )
}
