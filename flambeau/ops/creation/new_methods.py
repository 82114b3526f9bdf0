"""Factories that are methods: new_zeros, new_ones, new_full, new_tensor and their relatives. Stands on ops.creation.factories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.device import beside
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.warn import warn
from flambeau.core.modes.settings import settings
from flambeau.core.operator.facets import CONSTANT
from flambeau.core.operator.pointwise import zeros_plan
from flambeau.core.operator.publishing import public
from flambeau.core.tensor import create
from flambeau.core.tensor.create import make_tensor
from flambeau.core.tensor.tensor import Tensor, empty_plan
from flambeau.core.tensor.without_data import known
from flambeau.ops.creation.copy import specialize_fill, to
from flambeau.ops.creation.factories import empty, empty_strided, full, home, leaf, ones, sizes_of, zeros
from flambeau.ops.creation.from_data import tensor


def _new(self: Tensor, dtype: DType | None, device: Any) -> dict[str, Any]:
    own = self._layout
    return {"dtype": dtype or own.dtype, "device": own.device if device is None else beside(home(device), own.device)}


_fresh: dict[Any, Callable] = register_cache({})  # plans by kind, size, dtype and device
settings.watchers.append(_fresh.clear)


def _plan(kind: Any, plan_of: Callable[[Layout], Callable], own: Layout, size: tuple[Any, ...]) -> Callable | None:
    """The plan that makes a tensor of sizes given as ints or as one tuple, like one of a layout; None for other calls."""
    if not size:
        return None
    key = (kind, size, own.dtype, own.device)
    try:
        launch = _fresh.get(key)
    except TypeError:
        return None
    if launch is None and own.flavor is None and own.device.type == "cpu":
        shape = size[0] if len(size) == 1 and isinstance(size[0], tuple) else size
        if all(n.__class__ is int and n >= 0 for n in shape):
            launch = _fresh[key] = plan_of(Layout.contiguous(shape, own.dtype, own.device))
    return launch


def _ones_plan(layout: Layout) -> Callable:
    return specialize_fill(layout, 1)


_filling_plan: dict[Any, Callable[[Layout], Callable]] = {int: _ones_plan, float: lambda layout: specialize_fill(layout, 1.0)}


@public(namespace=False, jvp=CONSTANT)
def new_empty(
    self: Tensor,
    *sizes: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Uninitialised memory of the dtype and device of this tensor."""
    if size is not None:
        sizes = (*sizes, size)
    if dtype is None and device is None and not requires_grad and not settings.fills:
        launch = _plan("empty", empty_plan, self._layout, sizes)
        if launch is not None:
            return launch(None)
    return empty(sizes_of("new_empty", sizes), **_new(self, dtype, device), requires_grad=requires_grad)


@public(namespace=False, jvp=CONSTANT)
def new_zeros(
    self: Tensor,
    *sizes: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Zeros of the dtype and device of this tensor."""
    if size is not None:
        sizes = (*sizes, size)
    if dtype is None and device is None and not requires_grad:
        launch = _plan("zeros", zeros_plan, self._layout, sizes)
        if launch is not None:
            return launch(None)
    return zeros(sizes_of("new_zeros", sizes), **_new(self, dtype, device), requires_grad=requires_grad)


@public(namespace=False, jvp=CONSTANT)
def new_ones(
    self: Tensor,
    *sizes: Any,
    size: Any = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Ones of the dtype and device of this tensor."""
    if size is not None:
        sizes = (*sizes, size)
    if dtype is None and device is None and not requires_grad:
        launch = _plan("ones", _ones_plan, self._layout, sizes)
        if launch is not None:
            return launch(None, 1)
    return ones(sizes_of("new_ones", sizes), **_new(self, dtype, device), requires_grad=requires_grad)


@public(namespace=False, jvp=CONSTANT)
def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`fill_value` everywhere, of the dtype and device of this tensor."""
    kind = fill_value.__class__
    if dtype is None and device is None and not requires_grad and (kind is float or kind is int):
        launch = _plan(kind, _filling_plan[kind], self._layout, (size,))
        if launch is not None:
            try:
                return launch(None, fill_value)
            except OverflowError:  # an int that 64 bits don't hold with a sign: not the kernel's, but maybe an element
                pass
    return full(size, fill_value, **_new(self, dtype, device), requires_grad=requires_grad)


@public(namespace=False)
def new_empty_strided(
    self: Tensor,
    size: Any,
    stride: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Uninitialised memory of these strides, of the dtype and device of this tensor."""
    return empty_strided(size, stride, **_new(self, dtype, device), requires_grad=requires_grad)


@public(namespace=False)
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A copy of `data` with the dtype and device of this tensor."""
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(data, Tensor):
        warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor)."
        )
        made = to(make_tensor(data, dtype or self._layout.dtype), device=_new(self, None, device)["device"])
        made.requires_grad = requires_grad
        return made
    if device is None and self._layout.device.type == "cpu":
        made = make_tensor(data, dtype or self._layout.dtype)
        return made if requires_grad is False else leaf(made, requires_grad)
    return tensor(data, **_new(self, dtype, device), requires_grad=requires_grad)


@public(namespace=False, overloaded=True)
def new(self: Tensor, *args: Any, size: Any = None, data: Any = None, other: Any = None, device: Any = None) -> Tensor:
    """The old constructor: sizes or data, of the dtype of this tensor."""
    if size is not None:
        args = tuple(size)
    elif data is not None or other is not None:
        args = (other if data is None else data,)
    made = create.legacy_constructor(*args, dtype=self._layout.dtype)
    return made if known(self) else made.to(self._layout.device)  # type: ignore[attr-defined]
