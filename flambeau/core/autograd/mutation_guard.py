"""Writes to what a differentiated function captured: `guarded` refuses them.

Memory remembers the epoch in which it was allocated. While a function runs under `func.grad` or one of its relatives, its
thread may only write to memory of the epoch that began with it, and to its arguments'. The launcher compares before it
writes (codegen.memory.guard_function); core.autograd.inplace does for what doesn't launch a kernel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from flambeau.base.aten_schemas import table
from flambeau.base.errors import CapturedWrite
from flambeau.base.locks import short_lock
from flambeau.codegen.runtime import state
from flambeau.core.modes.modes import at_thread_end, local
from flambeau.core.operator.facets import record_of
from flambeau.core.tensor.storage import begin_epoch

__all__ = ["MORE", "NO_BACKWARD", "NO_REQUIRES_GRAD", "NO_RETAIN_GRAD", "NO_SETUP_CONTEXT", "guarded", "transformed"]

NO_REQUIRES_GRAD = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of a "
    "function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch transforms "
    "(e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being transformed instead."
)
NO_RETAIN_GRAD = NO_REQUIRES_GRAD.replace(
    "requires_grad_() (or perhaps using torch.autograd.functional.* APIs)", "retain_grad()"
).replace("requires_grad_()", "retain_grad()")
NO_BACKWARD = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp "
    "instead or call backward() outside of functorch transforms."
)
MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
NO_SETUP_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
    f"setup_context staticmethod. {MORE}"
)
_CAPTURED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
    "(aten::{}) that would mutate a captured Tensor. This is not supported; please rewrite the function being transformed "
    "to explicitly accept the mutated Tensor(s) as inputs."
)
_changing = short_lock()


@contextlib.contextmanager
def guarded(arguments: Iterable[Any]) -> Iterator[None]:
    """A block in which this thread may write only to these plain tensors and to memory that it allocates meanwhile.

    Another write raises RuntimeError in PyTorch's words.
    """
    epoch = begin_epoch()
    before = local.guard
    held = [(x._storage, x._storage.epoch) for x in arguments]
    for storage, _ in held:
        storage.epoch = epoch
    _guard(epoch)
    try:
        yield
    except CapturedWrite as error:
        raise RuntimeError(_CAPTURED.format(_written_by(error))) from None
    finally:
        _guard(before)
        for storage, allocated in reversed(held):
            storage.epoch = allocated


def _written_by(error: CapturedWrite) -> str:
    """The operator that wrote, by the frames that the error went through: what raises it knows the memory only."""
    wrote, step = "copy_", error.__traceback__
    while step is not None:
        name, whole = _called(step.tb_frame)
        wrote = name or wrote
        if whole:
            break
        step = step.tb_next
    return wrote


def _called(frame: FrameType) -> tuple[str | None, bool]:
    """The in-place operator that a frame belongs to, with its overload, or None; and whether what it calls is part of it."""
    name, given = frame.f_code.co_name, frame.f_locals
    if name == "__setitem__":
        return "index_put_" if given.get("tensors") else "copy_", True
    whole = name in ("inplace", "in_place", "zero_")
    if name in ("inplace", "in_place"):  # one body that serves many
        public = given.get("public", given.get("name", name))
        name = f"{getattr(public, '__name__', public).rstrip('_')}_"
    if name[0] == "_" or not name.endswith("_"):
        return None, False
    overloads = table().get("aten::" + name, {})
    if "Tensor" not in overloads or "Scalar" not in overloads:
        return name, whole
    tensors = sum(hasattr(x, "_storage") for x in [*given.values(), *given.get("operands", ()), *given.get("args", ())])
    of_number = tensors <= overloads["Scalar"].partition(" -> ")[0].count("Tensor") and "Scalar" not in record_of(name).hidden
    return name + (".Scalar" if of_number else ".Tensor"), whole


def transformed() -> bool:
    """Whether this thread runs a function under a function transform."""
    return bool(local.guard) or (local.draws is not None and not local.draws.plain)


def _guard(epoch: int) -> None:
    """Let this thread write to memory of this epoch and later ones; 0: to all."""
    _allow(local.thread_state, epoch)
    local.guard = epoch


def _allow(mine: int, epoch: int) -> None:
    """What `_guard` says, in the words that the launcher reads."""
    words = state.words
    with _changing:
        count = words[state.GUARDED]
        places = range(state.GUARDS, state.GUARDS + 2 * count, 2)
        at = next((place for place in places if words[place] == mine), None)
        if at is None and epoch:
            if count == state.MAX_GUARDED:
                raise RuntimeError(f"more than {count} threads differentiate functions")
            at = state.GUARDS + 2 * count
            words[at], words[state.GUARDED] = mine, count + 1
        if at is not None and epoch:
            words[at + 1] = epoch
        elif at is not None:
            last = state.GUARDS + 2 * (count - 1)
            words[at], words[at + 1] = words[last], words[last + 1]
            words[state.GUARDED] = count - 1
        first = state.GUARDS + 1
        words[state.GUARD] = max([words[place] for place in range(first, first + 2 * words[state.GUARDED], 2)], default=0)


def _in_child() -> None:
    for thread_state in state.words[state.GUARDS : state.GUARDS + 2 * state.words[state.GUARDED] : 2]:
        if thread_state != local.thread_state:
            _allow(thread_state, 0)


at_thread_end.append(lambda thread_state: _allow(thread_state, 0))
os.register_at_fork(after_in_child=_in_child)
