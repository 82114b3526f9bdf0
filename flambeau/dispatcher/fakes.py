"""What a fake implementation may ask for: `get_ctx()`, the context in which sizes that depend on data get names.

Where it runs for fake tensors it may ask: inside `dynamic_sizes` the names are symbols of a ShapeEnv; elsewhere there are none,
and asking for one raises DynamicOutputShapeException. On the meta device asking for the context raises RuntimeError. All in
PyTorch's words. Stands on record and core.tensor.fakes; used by calling and torch.library.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flambeau.base.device import stand_ins_in_use
from flambeau.base.naming import public_module
from flambeau.base.symbolic.numbers import SymInt
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.record import OperatorRecord

__all__ = ["FakeImplCtx", "NoFake", "dynamic_sizes", "get_ctx", "mode_of", "without_values"]


class FakeImplCtx:
    """What a fake implementation may ask for while it runs for fake tensors."""

    __module__ = public_module("_library.fake_impl")

    def __init__(self, fake_mode: Any, overload: Any):
        self._fake_mode, self._op, self._shape_env = fake_mode, overload, _local.shape_env
        if self._shape_env is None and not fake_mode.numbers_only:
            self._shape_env = fake_mode.shape_env

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that only a run tells, within bounds. DynamicOutputShapeException where sizes have no names; ValueError for
        bounds that are no whole numbers from 0 on.
        """
        if self._shape_env is None:
            raise fakes.DynamicOutputShapeException(self._op)
        if isinstance(min, SymInt) or isinstance(max, SymInt):
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, max={max}): expected min and max to be statically known ints but got SymInt. "
                "This is not supported."
            )
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal to 0: this API can only create "
                "non-negative sizes."
            )
        made = self._shape_env.create_unbacked_symint(stand_in=min + 2 if min else None)
        self._shape_env.constrain_size(made.node._expr, min, 2**63 - 2 if max is None else max)
        return made

    create_unbacked_symint = new_dynamic_size


class NoFake(RuntimeError):
    """A custom operator was called with tensors without data, and nobody has said what its results are like."""


class _Local(threading.local):
    """The operator whose fake runs in this thread, and for which mode's fake tensors; None for tensors on meta."""

    operator: tuple[OperatorRecord, Callable, Any] | None = None
    shape_env: Any = None  # where sizes that depend on data get their names


_local = _Local()


@contextlib.contextmanager
def dynamic_sizes(shape_env: Any) -> Iterator[None]:
    """Fake implementations that run in this block get symbols of `shape_env` for sizes that depend on data."""
    before, _local.shape_env = _local.shape_env, shape_env
    try:
        yield
    finally:
        _local.shape_env = before


def get_ctx() -> FakeImplCtx | None:
    """The context of the fake implementation that runs; None outside of one.

    RuntimeError on meta tensors: sizes that depend on data can't be told there.
    """
    if _local.operator is None:
        return None
    record, fake, mode = _local.operator
    if mode is not None:
        return FakeImplCtx(mode, fakes.overload_named(record.name))
    code = getattr(fake, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code else "?"
    raise RuntimeError(
        f"{record.name} ({place}): You're trying to run this operator with meta Tensors (as opposed to "
        "FakeTensors), but this operator may return an output Tensor with data-dependent shape. Meta Tensors don't "
        "support operators with outputs that have data-dependent shapes but FakeTensors do. If your operator does "
        "not return an output with data-dependent shape, make sure the FakeTensor and/or meta kernel does not call "
        "torch.library.get_ctx(). Otherwise, please use FakeTensors."
    )


def mode_of(values: Iterable[Any]) -> Any:
    """The mode of the fake tensors among arguments and in their lists; the one that this thread is in if there are none."""
    for x in values:
        for y in x if x.__class__ in (list, tuple) else (x,):
            if isinstance(y, Tensor) and y._layout.device.stand_ins is not None:
                return y._layout.device.stand_ins.mode
    stand_ins = stand_ins_in_use()
    return None if stand_ins is None else stand_ins.mode


def without_values(record: OperatorRecord, fake: Callable) -> Callable:
    """A fake as it runs for tensors without data: for fake tensors inside their mode."""

    @functools.wraps(fake)
    def run(*args: Any, **kwargs: Any) -> Any:
        mode = mode_of([*args, *kwargs.values()])
        before, _local.operator = _local.operator, (record, fake, mode)
        try:
            with mode or contextlib.nullcontext():
                return fake(*args, **kwargs)
        finally:
            _local.operator = before

    return run
