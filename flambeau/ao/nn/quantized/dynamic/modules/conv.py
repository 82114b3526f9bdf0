"""Convolutions with integer weights for float inputs. Stands on quantized.modules.conv."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn.quantized.modules import conv

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _Dynamic:
    """What all have in common."""

    def _get_name(self) -> str:
        return f"Dynamic{super()._get_name()}"  # type: ignore[misc]

    def forward(self, input: Any, reduce_range: bool = True) -> Any:
        """The convolution in float32; as in PyTorch it is held to the range and the steps of the input."""
        return self._operator("_dynamic")(self._padded(input), self._packed_params, reduce_range)  # type: ignore[attr-defined]


class Conv1d(_Dynamic, conv.Conv1d):
    """A convolution in one dimension of float inputs that are quantized by their own range."""

    _FLOAT_MODULE = nn.Conv1d


class Conv2d(_Dynamic, conv.Conv2d):
    """A convolution in two dimensions of float inputs that are quantized by their own range."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_Dynamic, conv.Conv3d):
    """A convolution in three dimensions of float inputs that are quantized by their own range."""

    _FLOAT_MODULE = nn.Conv3d


class ConvTranspose1d(_Dynamic, conv.ConvTranspose1d):
    """A transposed convolution in one dimension of float inputs that are quantized by their own range."""


class ConvTranspose2d(_Dynamic, conv.ConvTranspose2d):
    """A transposed convolution in two dimensions of float inputs that are quantized by their own range."""


class ConvTranspose3d(_Dynamic, conv.ConvTranspose3d):
    """A transposed convolution in three dimensions of float inputs that are quantized by their own range."""
