"""What a fake implementation may ask for: `get_ctx()`, the context in which sizes that depend on data would get names.

Where it runs for fake tensors it may ask; no size has a name there, so that asking for one raises DynamicOutputShapeException. On
the meta device asking for the context raises RuntimeError. All in PyTorch's words. Stands on record and core.tensor.fakes; used
by calling and torch.library.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from flambeau.base.device import stand_ins_in_use
from flambeau.base.naming import public_module
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.record import OperatorRecord

__all__ = ["FakeImplCtx", "get_ctx", "mode_of", "without_values"]


class FakeImplCtx:
    """What a fake implementation may ask for while it runs for fake tensors."""

    __module__ = public_module("_library.fake_impl")

    def __init__(self, fake_mode: Any, overload: Any):
        self._fake_mode, self._op, self._shape_env = fake_mode, overload, None

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> NoReturn:
        """DynamicOutputShapeException: sizes have no names here."""
        raise fakes.DynamicOutputShapeException(self._op)

    create_unbacked_symint = new_dynamic_size


class _Local(threading.local):
    """The operator whose fake runs in this thread, and for which mode's fake tensors; None for tensors on meta."""

    operator: tuple[OperatorRecord, Callable, Any] | None = None


_local = _Local()


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
