"""How random operators draw: the generator, samples in drawing order laid out as they shall lie, and in-place samplers.

Stands on core.operator.sampling, whose samplers fill contiguous tensors; used by ops.random.samplers and ops.random.factories.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base import memory_order
from flambeau.base.dtype import FLOAT8, bfloat16, bool_, finfo, iinfo
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.rng import Generator as Stream
from flambeau.base.rng import default_generator, drawing_order
from flambeau.base.warn import warn
from flambeau.core.autograd import inplace
from flambeau.core.autograd.node import rename
from flambeau.core.modes import modes
from flambeau.core.operator import sampling
from flambeau.core.operator.pointwise import needs_graph, record, signature_of
from flambeau.core.operator.publishing import NAMESPACE, explained, public
from flambeau.core.tensor.lazy_conjugate import written_through
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ops.creation.copy import ZERO, copy_raw


def stream(generator: Any) -> Stream:
    """The generator to draw from."""
    if modes.local.draws is not None:
        modes.local.draws.drawn()
    if generator is None:
        return default_generator
    if not isinstance(generator, Stream):
        raise TypeError(f"expected a torch.Generator, got {type(generator).__name__}")
    return generator


#: Layouts that samplers fill as they are, of whole memory without a flavor.
_straight: dict[Layout, bool] = register_cache({})
Sampler = Callable[..., Tensor]


def is_straight(layout: Layout) -> bool:
    known = _straight.get(layout)
    if known is None:
        known = _straight[layout] = (
            layout.is_contiguous
            and layout.numel > 0
            and not layout.dtype.is_complex
            and layout.device.type == "cpu"
            and layout.flavor is None
        )
    return known


def draw(sample: Sampler, layout: Layout, generator: Any, *parameters: Any) -> Tensor:
    """A fresh tensor of this layout by a sampler of core.operator.sampling."""
    source = default_generator if generator is None and modes.local.draws is None else stream(generator)
    if is_straight(layout):
        return sample(source, layout, None, *parameters)
    made = empty_layout(layout)
    writes = made._storage.writes
    _lay(sample, source, made, parameters)
    made._storage.writes = writes
    return made


def overwrite(self: Tensor, sample: Sampler, generator: Any, *parameters: Any, step: str) -> Tensor:
    """Overwrite a tensor in place by a sampler; bumps the version, cuts the history by a node named `step`."""
    layout = self._layout
    source = default_generator if generator is None and modes.local.draws is None else stream(generator)
    if self._node is None and is_straight(layout):
        return sample(source, layout, self, *parameters)
    if not layout.is_contiguous and memory_order.overlaps_itself(layout.shape, layout.strides):
        raise RuntimeError(memory_order.OVERLAPS_ITSELF)
    recorded = needs_graph((self,))
    if recorded:
        inplace.check(self)
    inplace.refuse_write(self)
    writes = self._storage.writes
    _lay(sample, source, self, parameters)
    self._storage.writes = writes + 1
    if recorded:
        node = record(ZERO, self, (self,), (), ())
        rename(node, step)
        inplace.rebase(self, node)
    return self


def _lay(sample: Sampler, source: Stream, out: Tensor, parameters: tuple) -> None:
    """Fill a tensor in drawing order; for one without elements or memory nothing is drawn."""
    layout = out._layout
    if layout.numel == 0 or layout.device.type == "meta":
        return
    if layout.pending:
        written_through(lambda copy: _lay(sample, source, copy, parameters), out)
        return
    order = drawing_order(layout.shape, layout.strides)
    if layout.dtype.is_complex:  # a number's parts are drawn together
        out = NAMESPACE["view_as_real"](out.detach())
        layout, order = out._layout, (*order, layout.ndim)
    turned = _turned(layout, order)
    along = tensor_from(out._storage, out._offset, turned)
    if turned.is_contiguous:
        sample(source, turned, along, *parameters)
    else:
        copy_raw(along, sample(source, Layout.contiguous(turned.shape, layout.dtype, layout.device), None, *parameters))


def _turned(layout: Layout, order: tuple[int, ...]) -> Layout:
    shape, strides = (tuple([x[d] for d in order]) for x in (layout.shape, layout.strides))
    return Layout.of(shape, strides, layout.dtype, layout.device)


def normal_of(layout: Layout) -> Sampler:
    """What makes normal samples of a layout."""
    return sampling.normal if layout.is_contiguous else sampling.serial_normal


def need_float(name: str, dtype: DType) -> None:
    if dtype in FLOAT8 or not (dtype.is_floating_point or dtype.is_complex):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


def integer_range(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """The range [low, high) as a dtype can hold it: RuntimeError where it can't, a warning where it has gaps between integers."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, greatest, digits = integer_limits(dtype)
    if digits is not None and (low < -1 << digits or high > 1 << digits):  # a bound that rounds to outside the range moves in
        if _rounded(low + 1, dtype) < low:
            low += 1 << abs(low + 1).bit_length() - digits
        if _rounded(high - 1, dtype) >= high:
            high -= 1 << (high - 1).bit_length() - digits
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= greatest:
            raise RuntimeError(f"{name} is out of bounds for {_UNSIGNED.get(dtype.name, dtype.c_name)}")
    if digits is not None:
        for name, bound in (("from", low), ("to - 1", high - 1)):
            if abs(bound) > 1 << digits:
                warn(
                    f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {dtype.c_name}"
                    " can support discrete uniform distribution only within this range. This warning will become an"
                    " error in version 1.7 release, please fix the code in advance"
                )
    return low, high


_UNSIGNED = {"uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int"}


@functools.cache
def integer_limits(dtype: DType) -> tuple[int, int, int | None]:
    """(least, greatest) integer of a dtype, and for floating-point ones the digits of the significand."""
    if dtype.is_complex:
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    if dtype in FLOAT8:
        raise NotImplementedError(f"\"random_update_from_to\" not implemented for '{dtype.scalar_name}'")
    if dtype.is_floating_point:
        greatest = int(finfo(dtype).max)
        return -greatest, greatest, 1 - int(math.log2(finfo(dtype).eps))
    return (0, 1, None) if dtype is bool_ else (int(iinfo(dtype).min), int(iinfo(dtype).max), None)


def _rounded(number: int, dtype: DType) -> float:
    """The element of a floating-point dtype nearest to a number."""
    if dtype is bfloat16:
        gap = 1 << max(abs(number).bit_length() - 8, 0)
        return float(round(number / gap) * gap)
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(number))


def integers_between(layout: Layout) -> tuple[Callable, int, int]:
    """What makes integers of a layout, and the range in which its dtype holds all of them."""
    least, greatest, digits = integer_limits(layout.dtype)
    if digits is not None:
        least, greatest = -1 << digits, 1 << digits
    return sampling.integers_plan(layout), max(least, -sampling.EXACT), min(greatest + 1, sampling.EXACT)


# ---------------------------------------------------------------- samplers in place


def _is_real(layout: Layout) -> bool:
    return layout.dtype.is_floating_point and is_straight(layout)


# A call that comes again is one look-up and one launch; what is unusual goes on to the declared function.
_AGAIN = """
    if (self._node is None or not local.grad) and local.draws is None{plain}:
        try:
            source = own if generator is None else stream(generator)
            key = (self._layout, {key})
            launch = plans.get(key)
            if {valid}:
                if launch is not None:
                    return launch(self, source.state_address, {numbers})
                if fits(self._layout):
                    plans[key] = plan(*key)
        except (TypeError, AttributeError, OverflowError):
            pass
"""


def sampler(plan: Callable, valid: str, numbers: str, key: str = "", any_dtype: bool = False) -> Callable[[Callable], Callable]:
    """Declare a method that overwrites a tensor with samples, by what it does in full.

    The rest is about calls that come again: `plan` is a function of the layout and the values of the expressions in `key`,
    `valid` an expression that holds for good parameters, `numbers` what the plan is launched with behind the address of the
    state; any_dtype: the layout may be one of whole numbers.
    """

    def declare(function: Callable) -> Callable:
        _, *parameters = signature_of(function).parameters.values()
        plain = "".join(
            f" and not {p.name}" if p.kind is p.VAR_KEYWORD else f" and {p.name}.__class__ is not Tensor"
            for p in parameters
            if p.name != "generator"
        )
        scope = {
            "plans": register_cache({}),
            "plan": plan,
            "fits": is_straight if any_dtype else _is_real,
            "local": modes.local,
            "own": default_generator,
            "Tensor": Tensor,
            "stream": stream,
            "log1p": math.log1p,
        }
        again = _AGAIN.format(plain=plain, key=key, valid=valid, numbers=numbers)
        return public(namespace=False)(explained(function, again, scope))

    return declare
