"""The type of a tensor of which more is known than that it is one: `Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)`.

Stands on schema_types; made by traces, by graphs read from text, and by what propagates shapes. To every question of the compiler
such a type is that of all tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from flambeau.base.device import device as Device
from flambeau.base.dtype import all_dtypes
from flambeau.base.dtype import dtype as Dtype
from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import TensorType

__all__ = ["SCALAR_TYPES", "ShapedTensorType", "new_symbol"]

#: The dtypes by what graphs call them: `Float`, `Long`.
SCALAR_TYPES: dict[str, Dtype] = {kind.scalar_name: kind for kind in all_dtypes().values()}
_symbols = itertools.count(2)


def new_symbol() -> int:
    """A size that isn't known, and is no other such size: a negative number."""
    return -next(_symbols)


class ShapedTensorType(TensorType):
    """Tensor, with what is known: dtype, sizes (negative ones are symbols), strides, requires_grad, device. None is unknown."""

    __module__ = PACKAGE
    python = "Tensor"

    def __init__(
        self,
        kind: Dtype | None = None,
        sizes: Sequence[int | None] | None = None,
        strides: Sequence[int] | None = None,
        requires_grad: bool | None = None,
        place: Device | None = None,
    ) -> None:
        self._dtype, self._strides, self._requires_grad, self._device = kind, strides, requires_grad, place
        self._sizes = None if sizes is None else [new_symbol() if size is None else size for size in sizes]
        if self._sizes == []:
            self._strides = []
        self.written = self._text()

    def _text(self) -> str:
        name = "Tensor" if self._dtype is None else self._dtype.scalar_name
        parts = ["*" if size < 0 else str(size) for size in self._sizes or ()]
        if self._strides:
            parts.append(f"strides=[{', '.join(map(str, self._strides))}]")
        if self._requires_grad is not None:
            parts.append(f"requires_grad={int(self._requires_grad)}")
        if self._device is not None:
            parts.append(f"device={self._device}")
        if self._sizes is None and not parts:
            return name if self._dtype is None else f"{name}Tensor"
        return f"{name}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType)

    def __hash__(self) -> int:
        return hash(TensorType())

    def kind(self) -> str:
        """TensorType."""
        return "TensorType"

    def dtype(self) -> Dtype | None:
        return self._dtype

    def scalarType(self) -> str | None:
        return None if self._dtype is None else self._dtype.scalar_name

    def dim(self) -> int | None:
        return None if self._sizes is None else len(self._sizes)

    def symbolic_sizes(self) -> list[int] | None:
        return None if self._sizes is None else list(self._sizes)

    def strides(self) -> list[int] | None:
        return None if self._strides is None else list(self._strides)

    def device(self) -> Device | None:
        return self._device

    def requires_grad(self) -> bool:
        return self._requires_grad is not False

    def _with(self, **changes: Any) -> TensorType:
        known = {"kind": self._dtype, "sizes": self._sizes, "strides": self._strides, "requires_grad": self._requires_grad,
                 "place": self._device}  # fmt: skip
        return ShapedTensorType(**{**known, **changes})


TensorType.shaped = ShapedTensorType
