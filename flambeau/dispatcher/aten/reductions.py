"""Softmax, unique and histograms as PyTorch's operators return them.

Stands on ops.reduction.softmax, unique and histogram.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import float32, int64
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.registry import implementation


@implementation()
def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Any:
    return NAMESPACE["softmax"](self, dim, dtype=float32 if half_to_float else None)


@implementation()
def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Any:
    return NAMESPACE["log_softmax"](self, dim, dtype=float32 if half_to_float else None)


def _gradient(name: str) -> None:
    def backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Any:
        return OPERATORS[name].public(grad_output, output, dim, input_dtype)

    implementation(f"_{name}_data")(backward)


_gradient("softmax_backward")
_gradient("log_softmax_backward")


@implementation()
def _unique(self: Tensor, sorted: bool = True, return_inverse: bool = False) -> Any:
    found = NAMESPACE["unique"](self, sorted, return_inverse)
    return found if return_inverse else (found, self.new_empty((0,), dtype=int64))


@implementation()
def _unique2(self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    values, inverse, counts = NAMESPACE["unique"](self, sorted, True, True)
    empty = inverse.new_empty((0,))
    return values, inverse if return_inverse else empty, counts if return_counts else empty


@implementation()
def unique_dim(self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The different slices along a dimension, where each slice is among them, and how often each occurs."""
    return NAMESPACE["unique"](self, sorted, True, True, dim)


@implementation()
def unique_consecutive(self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The first of each run of equal values, where each is among them, and the lengths of runs; empty what wasn't asked for."""
    values, inverse, counts = NAMESPACE["unique_consecutive"](self, True, True, dim)
    empty = inverse.new_empty((0,))
    along = dim is not None
    return values, inverse if return_inverse or along else empty, counts if return_counts or along else empty


@implementation()
def _histogramdd_bin_edges(
    self: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    return list(NAMESPACE["histogramdd"](self, bins, range=range, weight=weight, density=density)[1])


@implementation("_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors")
def _histogramdd(self: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False) -> Any:
    return NAMESPACE["histogramdd"](self, bins, range=range, weight=weight, density=density)[0]
