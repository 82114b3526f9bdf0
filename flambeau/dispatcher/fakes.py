"""What a fake implementation may ask for: `get_ctx()`, the context in which sizes that depend on data would get names.

There is none on the meta device, whose tensors have fixed sizes: asking for one there raises RuntimeError in PyTorch's
words. Stands on record; used by calling and torch.library.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.record import OperatorRecord

__all__ = ["get_ctx", "without_sizes"]


class _Local(threading.local):
    """The operator whose fake runs on meta tensors in this thread."""

    operator: tuple[OperatorRecord, Callable] | None = None


_local = _Local()


def get_ctx() -> None:
    """The context of the fake implementation that runs; None outside of one.

    RuntimeError on meta tensors: sizes that depend on data can't be told there.
    """
    if _local.operator is None:
        return
    record, fake = _local.operator
    code = getattr(fake, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code else "?"
    raise RuntimeError(
        f"{record.name} ({place}): You're trying to run this operator with meta Tensors (as opposed to "
        "FakeTensors), but this operator may return an output Tensor with data-dependent shape. Meta Tensors don't "
        "support operators with outputs that have data-dependent shapes but FakeTensors do. If your operator does "
        "not return an output with data-dependent shape, make sure the FakeTensor and/or meta kernel does not call "
        "torch.library.get_ctx(). Otherwise, please use FakeTensors."
    )


def without_sizes(record: OperatorRecord, fake: Callable) -> Callable:
    """The fake as it runs on meta tensors."""

    @functools.wraps(fake)
    def run(*args: Any, **kwargs: Any) -> Any:
        before, _local.operator = _local.operator, (record, fake)
        try:
            return fake(*args, **kwargs)
        finally:
            _local.operator = before

    return run
