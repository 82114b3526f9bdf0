"""torch._guards: which fake tensor mode is on, as libraries ask. Stands on _subclasses.fake_tensor."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from flambeau._subclasses.fake_tensor import FakeTensorMode, maybe_get_fake_mode
from flambeau.base import device as devices
from flambeau.utils import _pytree as pytree

__all__ = ["TracingContext", "active_fake_mode", "detect_fake_mode", "tracing"]


class _Local(threading.local):
    context: TracingContext | None = None


_local = _Local()


class TracingContext:
    """What a tracer lets the functions that it runs know. fake_mode: the mode of its tensors."""

    def __init__(self, fake_mode: FakeTensorMode | None):
        self.fake_mode = fake_mode
        self.params_flat: Any = None
        self.output_strides: Any = None

    @staticmethod
    def try_get() -> TracingContext | None:
        """The context of the tracer that runs in this thread; None if none does."""
        return _local.context

    @staticmethod
    def get() -> TracingContext:
        """The same; RuntimeError if there is none."""
        if _local.context is None:
            raise RuntimeError("TracingContext.get() must be called within an ongoing trace.")
        return _local.context


@contextlib.contextmanager
def tracing(context: TracingContext | None) -> Iterator[TracingContext | None]:
    """Inside it `TracingContext.try_get()` gives the context."""
    before, _local.context = _local.context, context
    try:
        yield context
    finally:
        _local.context = before


def active_fake_mode() -> FakeTensorMode | None:
    """The fake tensor mode that this thread is in; None if it is in none."""
    stand_ins = devices.stand_ins_in_use()
    return None if stand_ins is None else stand_ins.mode


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The fake tensor mode of a tracer that runs, that this thread is in, or that a tensor among `inputs` belongs to; or None.

    AssertionError if these are several.
    """
    found: list[tuple[FakeTensorMode, str, int]] = []
    context = TracingContext.try_get()
    if context is not None and context.fake_mode is not None:
        found.append((context.fake_mode, "tracing context", 0))
    active = active_fake_mode()
    if active is not None:
        found.append((active, "active fake mode", 0))
    for i, x in enumerate(pytree.tree_leaves(inputs)):
        mode = maybe_get_fake_mode(x)
        if mode is not None:
            found.append((mode, "fake tensor input", i))
    for mode, what, i in found:
        if mode is not found[0][0]:
            raise AssertionError(
                f"fake mode ({found[0][0]}) from {found[0][1]} {found[0][2]} doesn't match mode ({mode}) from {what} {i}\n"
            )
    return found[0][0] if found else None
