"""Padding layers over the last one to three dimensions."""

from __future__ import annotations

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _ntuple, _pair, _quadruple

_sextuple = _ntuple(6)


class _PadNd(Module):
    """padding: (left, right, top, bottom, front, back), from the last dimension backwards."""

    __constants__ = ["padding"]
    _mode: str
    _amounts = staticmethod(_pair)

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = self._amounts(padding)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, self._mode)

    def _check_input_dim(self, input: Tensor) -> None:
        """Circular padding restricts the rank; `F.pad` checks the others."""

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    """Pads with what is at the other end."""

    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        axes = len(self.padding) // 2
        if input.dim() not in (axes + 1, axes + 2):
            raise ValueError(f"expected {axes + 1}D or {axes + 2}D input (got {input.dim()}D input)")


class CircularPad1d(_CircularPadNd):
    """(N, C, W) or (C, W), wrapped around."""


class CircularPad2d(_CircularPadNd):
    """(N, C, H, W) or (C, H, W), wrapped around."""

    _amounts = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """(N, C, D, H, W) or (C, D, H, W), wrapped around."""

    _amounts = staticmethod(_sextuple)


class _ConstantPadNd(_PadNd):
    """Pads with one value."""

    __constants__ = ["padding", "value"]
    value: float

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """The last dimension padded with a value."""


class ConstantPad2d(_ConstantPadNd):
    """The last two dimensions padded with a value."""

    _amounts = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """The last three dimensions padded with a value."""

    _amounts = staticmethod(_sextuple)


class _ReflectionPadNd(_PadNd):
    """Pads with the mirror image, the edge itself not repeated."""

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """(N, C, W) or (C, W), mirrored."""


class ReflectionPad2d(_ReflectionPadNd):
    """(N, C, H, W) or (C, H, W), mirrored."""

    _amounts = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """(N, C, D, H, W) or (C, D, H, W), mirrored."""

    _amounts = staticmethod(_sextuple)


class _ReplicationPadNd(_PadNd):
    """Pads with the value at the edge."""

    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """(N, C, W) or (C, W), edges repeated."""


class ReplicationPad2d(_ReplicationPadNd):
    """(N, C, H, W) or (C, H, W), edges repeated."""

    _amounts = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """(N, C, D, H, W) or (C, D, H, W), edges repeated."""

    _amounts = staticmethod(_sextuple)


class ZeroPad1d(ConstantPad1d):
    """The last dimension padded with zeros."""

    def __init__(self, padding: int | tuple[int, int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """The last two dimensions padded with zeros."""

    def __init__(self, padding: int | tuple[int, int, int, int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """The last three dimensions padded with zeros."""

    def __init__(self, padding: int | tuple[int, int, int, int, int, int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"
