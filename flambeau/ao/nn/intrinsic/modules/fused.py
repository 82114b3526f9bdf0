"""Modules of several that follow each other, which quantized kernels compute at once. Stands on nn; used by fuse_modules."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.base.naming import public_module
from flambeau.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "BNReLU2d",
    "BNReLU3d",
    "ConvAdd2d",
    "ConvAddReLU2d",
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearBn1d",
    "LinearLeakyReLU",
    "LinearReLU",
    "LinearTanh",
]


class _FusedModule(nn.Sequential):
    """What fused modules are."""


def _fused(name: str, *kinds: type) -> Any:
    """A class of modules of these classes, one after the other. AssertionError for modules of others."""

    def __init__(self: Any, *modules: Any) -> None:
        given = tuple(map(type_before_parametrizations, modules))
        assert given == kinds, f"Incorrect types for input modules{''.join(map(str, given))}"
        super(made, self).__init__(*modules)

    body = {"__init__": __init__, "__module__": public_module("ao.nn.intrinsic.modules.fused")}
    doc = f"{', '.join(kind.__name__ for kind in kinds)} as one module."
    made: Any = type(name, (_FusedModule,), {**body, "__doc__": doc})
    return made


ConvReLU1d = _fused("ConvReLU1d", nn.Conv1d, nn.ReLU)
ConvReLU2d = _fused("ConvReLU2d", nn.Conv2d, nn.ReLU)
ConvReLU3d = _fused("ConvReLU3d", nn.Conv3d, nn.ReLU)
LinearReLU = _fused("LinearReLU", nn.Linear, nn.ReLU)
ConvBn1d = _fused("ConvBn1d", nn.Conv1d, nn.BatchNorm1d)
ConvBn2d = _fused("ConvBn2d", nn.Conv2d, nn.BatchNorm2d)
ConvBn3d = _fused("ConvBn3d", nn.Conv3d, nn.BatchNorm3d)
ConvBnReLU1d = _fused("ConvBnReLU1d", nn.Conv1d, nn.BatchNorm1d, nn.ReLU)
ConvBnReLU2d = _fused("ConvBnReLU2d", nn.Conv2d, nn.BatchNorm2d, nn.ReLU)
ConvBnReLU3d = _fused("ConvBnReLU3d", nn.Conv3d, nn.BatchNorm3d, nn.ReLU)
BNReLU2d = _fused("BNReLU2d", nn.BatchNorm2d, nn.ReLU)
BNReLU3d = _fused("BNReLU3d", nn.BatchNorm3d, nn.ReLU)
LinearBn1d = _fused("LinearBn1d", nn.Linear, nn.BatchNorm1d)
LinearLeakyReLU = _fused("LinearLeakyReLU", nn.Linear, nn.LeakyReLU)
LinearTanh = _fused("LinearTanh", nn.Linear, nn.Tanh)


class ConvAdd2d(_FusedModule):
    """A convolution whose result is added to another tensor by the function `add`."""

    def __init__(self, conv: Any, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]
        """add(conv(x1), x2)."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """ConvAdd2d and a ReLU."""

    def __init__(self, conv: Any, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1: Any, x2: Any) -> Any:  # type: ignore[override]
        """relu(add(conv(x1), x2))."""
        return self.relu(self.add(self[0](x1), x2))
