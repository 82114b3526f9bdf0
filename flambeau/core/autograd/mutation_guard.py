"""Writes to what a differentiated function captured: `guarded` refuses them.

Memory remembers the epoch in which it was allocated. While a function runs under `func.grad` or one of its relatives, its
thread may only write to memory of the epoch that began with it, and to its arguments'. The launcher compares before it
writes (codegen.memory.guard_function); core.autograd.inplace does for what doesn't launch a kernel.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau.base.errors import CapturedWrite
from flambeau.base.locks import short_lock
from flambeau.codegen.runtime import state
from flambeau.core.modes.modes import at_thread_end, local

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
_changing = short_lock()


@contextlib.contextmanager
def guarded(arguments: Iterable[Any]) -> Iterator[None]:
    """A block in which this thread may write only to these plain tensors and to memory that it allocates meanwhile.

    Another write raises RuntimeError in PyTorch's words.
    """
    with _changing:
        state.words[state.EPOCH] += 1
        epoch = state.words[state.EPOCH]
    before = local.guard
    held = [(x._storage, x._storage.epoch) for x in arguments]
    for storage, _ in held:
        storage.epoch = epoch
    _guard(epoch)
    try:
        yield
    except CapturedWrite as error:
        raise RuntimeError(str(error)) from None
    finally:
        _guard(before)
        for storage, allocated in reversed(held):
            storage.epoch = allocated


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
    for thread_state in state.words[state.GUARDS:state.GUARDS + 2 * state.words[state.GUARDED]:2]:
        if thread_state != local.thread_state:
            _allow(thread_state, 0)


at_thread_end.append(lambda thread_state: _allow(thread_state, 0))
os.register_at_fork(after_in_child=_in_child)
