"""Converting the weights of convolutions to another memory format."""

from __future__ import annotations

from typing import Any

from flambeau.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.module import Module


def _convert(module: Module, memory_format: Any, kinds: tuple[type, ...]) -> Module:
    if isinstance(module, kinds):
        weight = module.weight.detach().clone()
        module.weight.data = weight.contiguous(memory_format=memory_format)
    for child in module.children():
        _convert(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Every Conv2d and ConvTranspose2d weight (out, in, H, W) in memory_format; returns module."""
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Every Conv3d and ConvTranspose3d weight (out, in, D, H, W) in memory_format; returns module."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
