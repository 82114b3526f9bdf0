"""Gradients through calls to other processes: what was sent and received in a context, and the backward pass over all of it.

Within a context, tensors that require a gradient are noted where they leave, and stand as leaves where they arrive, under the
message's number. A backward pass first finds which messages it reaches, process by process. Then each process, when the
gradients of all that it sent and that lead to a message it received are there, works out that message's and hands them to its
sender. Gradients of other leaves are kept in the context. Stands on rpc.wire and the public autograd; rpc's agent passes all
messages through it, and distributed.autograd offers it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau as torch
from flambeau.distributed.rpc import current, wire
from flambeau.futures import Future, collect_all

_WORKER_BITS = 48
_LOCAL = 0  # in the place of a message's number: the roots of the pass


class _Pass:
    """One backward pass in one process: what leads where, and what has come."""

    def __init__(self) -> None:
        self.roots: dict[int, list[Any]] = {}  # by message sent from here: its tensors
        self.leading: dict[int, set[int]] = {}  # by message received here: the roots that lead to it
        self.leaves: dict[int, Any] = {}
        self.came: dict[int, list[Any]] = {}  # gradients of roots
        self.done: set[int] = set()


class Context:
    """What this process has sent and received in a context, and the gradients that are found."""

    def __init__(self, number: int) -> None:
        self.number, self.lock = number, threading.Lock()
        self.sent: dict[int, list[Any]] = {}
        self.received: dict[int, tuple[int, dict[int, Any]]] = {}  # message -> its sender, its tensors
        self.known: set[int] = set()  # processes that have this context too
        self.gradients: dict[Any, Any] = {}
        self.passes: dict[int, _Pass] = {}

    def begin(self, number: int, root: int, tensors: Sequence[Any]) -> list[tuple[int, int]]:
        """A pass has tensors among its roots; the messages, as (sender, number), that it reaches by them for the first time."""
        variables = _leaves(tensors)
        with self.lock:
            state = self.passes.setdefault(number, _Pass())
            if root in state.roots:
                return []
            state.roots[root] = list(tensors)
            found = []
            arrived = {id(each): message for message, (_, each_of) in self.received.items() for each in each_of.values()}
            for variable in variables:
                message = arrived.get(id(variable))
                if message is None:
                    state.leaves[id(variable)] = variable
                    continue
                if message not in state.leading:
                    found.append((self.received[message][0], message))
                state.leading.setdefault(message, set()).add(root)
            return found

    def came(self, number: int, root: int, gradients: Sequence[Any]) -> list[tuple[int, int, list[Any]]]:
        """Gradients of a root; those of messages, as (sender, number, gradients), that can be worked out now."""
        with self.lock:
            state = self.passes[number]
            state.came[root] = list(gradients)
            ready = [
                message for message, roots in state.leading.items() if roots <= state.came.keys() and message not in state.done
            ]
            state.done.update(ready)
            last = len(state.came) == len(state.roots)
        found = []
        for message in ready:
            sender, tensors = self.received[message]
            count = max(tensors) + 1
            own = _gradients(state, state.leading[message], [tensors[index] for index in sorted(tensors)])
            of = dict(zip(sorted(tensors), own))
            found.append((sender, message, [of.get(index) for index in range(count)]))
        if last and state.leaves:
            variables = list(state.leaves.values())
            for variable, gradient in zip(variables, _gradients(state, state.roots, variables)):
                if gradient is not None:
                    with self.lock:
                        before = self.gradients.get(variable)
                        self.gradients[variable] = gradient if before is None else before + gradient
        if last:
            self.passes.pop(number, None)
        return found


def _gradients(state: _Pass, roots: Any, inputs: Sequence[Any]) -> list[Any]:
    pairs = [
        (tensor, gradient)
        for root in roots
        for tensor, gradient in zip(state.roots[root], state.came[root])
        if gradient is not None
    ]
    if not pairs:
        return [None] * len(inputs)
    outputs, given = zip(*pairs)
    return list(torch.autograd.grad(outputs, inputs, given, retain_graph=True, allow_unused=True))


def _leaves(tensors: Sequence[Any]) -> list[Any]:
    """The leaves of the graphs that tensors come from."""
    found = {id(each): each for each in tensors if each.grad_fn is None}
    waiting = [each.grad_fn for each in tensors if each.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(found.values())


class _Thread(threading.local):
    context: Context | None = None


class Contexts:
    """The contexts of this process. The agent makes and reads its messages by it."""

    def __init__(self, rank: int) -> None:
        self._rank, self._thread = rank, _Thread()
        self._contexts: dict[int, Context] = {}
        self._numbers = itertools.count(1)

    def _number(self) -> int:
        return self._rank << _WORKER_BITS | next(self._numbers)

    def of(self, number: int) -> Context:
        """The context of a number. Raises RuntimeError if there is none."""
        if number not in self._contexts:
            raise RuntimeError(f"Could not find autograd context with id: {number}")
        return self._contexts[number]

    def begin(self) -> int:
        """Make a context, in which this thread is now."""
        if self._thread.context is not None:
            raise RuntimeError(f"Already have an autograd context id for this thread: {self._thread.context.number}")
        made = self._thread.context = Context(self._number())
        self._contexts[made.number] = made
        return made.number

    def end(self, number: int) -> list[int]:
        """Forget a context; the processes that have it too."""
        if self._thread.context is not None and self._thread.context.number == number:
            self._thread.context = None
        made = self._contexts.pop(number, None)
        return [] if made is None else sorted(made.known)

    # ------------------------------------------------------------------------------------------------ messages

    def message(self, to: int, body: Any) -> bytes:
        """A call to a process, with this thread's context."""
        return self._packed(self._thread.context, to, body)

    def _packed(self, context: Context | None, to: int, body: Any) -> bytes:
        if context is None:
            return wire.packed(None, body)
        number, tensors = self._number(), []

        def sent(tensor: Any) -> int:
            tensors.append(tensor)
            return len(tensors) - 1

        data = wire.packed((context.number, number, self._rank), body, sent if torch.is_grad_enabled() else None)
        context.known.add(to)
        if tensors:
            context.sent[number] = tensors
        return data

    def _context_of(self, data: bytes) -> tuple[Context | None, int, int]:
        head = wire.head_of(data)
        if head is None:
            return None, 0, -1
        context = self._contexts.setdefault(head[0], Context(head[0]))
        return context, head[1], head[2]

    @contextmanager
    def within(self, data: bytes) -> Iterator[None]:
        """What runs inside is in the context of a call that came."""
        before, (self._thread.context, _, _) = self._thread.context, self._context_of(data)
        try:
            yield
        finally:
            self._thread.context = before

    def body(self, data: bytes) -> Any:
        """What a message brings. Tensors that were sent with gradients are leaves of its context."""
        context, message, sender = self._context_of(data)
        if context is None:
            return wire.body_of(data)
        tensors: dict[int, Any] = {}

        def received(plain: Any, number: int) -> Any:
            tensors[number] = plain.requires_grad_()
            return plain

        made = wire.body_of(data, received)
        context.known.add(sender)
        if tensors:
            context.received[message] = sender, tensors
        return made

    def answer(self, request: bytes, value: Any) -> bytes:
        """The answer to a call, in the call's context."""
        context, _, sender = self._context_of(request)
        return self._packed(context, sender, value)


def _together(futures: list[Future[Any]]) -> Future[Any]:
    """A Future that is done when all are; its result raises what one of them does."""
    return collect_all(futures).then(lambda all_of: [each.value() for each in all_of.value()] and None)


def _elsewhere(worker: int, function: Any, *args: Any) -> Future[Any]:
    agent = current.agent()
    made: Future[Any] = agent.call(agent.workers[worker], function, args, timeout=0)
    return made


def reach(context: int, number: int, root: int, tensors: Sequence[Any] | None = None) -> Future[Any]:
    """Note what a pass reaches from a message that this process sent, or from tensors, here and in all others."""
    own = current.contexts().of(context)
    found = own.begin(number, root, own.sent[root] if tensors is None else tensors)
    return _together([_elsewhere(sender, reach, context, number, message) for sender, message in found])


def hand_on(context: int, number: int, root: int, gradients: Sequence[Any]) -> Future[Any]:
    """Gradients of a message that this process sent, or of the roots: work out and hand on what can be."""
    found = current.contexts().of(context).came(number, root, gradients)
    return _together([_elsewhere(sender, hand_on, context, number, message, found_of) for sender, message, found_of in found])


def forget(context: int) -> None:
    """Forget a context here, and wherever this process has taken it."""
    for worker in current.contexts().end(context):
        if worker != current.agent().own.id:
            _elsewhere(worker, forget, context)


for _function in (reach, hand_on):
    _function._answers_later = True  # type: ignore[attr-defined]
