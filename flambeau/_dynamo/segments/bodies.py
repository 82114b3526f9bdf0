"""Calls of a segment that become one: a call of a higher-order operator, with a graph within the graph.

What a function does that torch.utils.checkpoint, torch.ops.higher_order.wrap or an autograd.Function's `apply` runs is
recorded call by call, as ever; once it has returned, its calls are folded into one. If the graph ended in between there is
nothing to fold, and nothing has to be run again. Stands on segment; used by tracer and functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import flambeau as torch
from flambeau._dynamo.segments import environment
from flambeau._dynamo.segments.segment import Body, Call, Place, Segment
from flambeau._dynamo.segments.values import frozen, values_in
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor

__all__ = ["BODY", "Start", "expose", "fold", "tensors_in", "used"]

BODY = "body"  # what a Body is among frozen values
_WITHOUT_RULES = ("wrap", "tag_activation_checkpoint")  # the calls of whose bodies are as good outside


class Start:
    """Where calls begin that may be folded."""

    def __init__(self, segment: Segment) -> None:
        self.segment, self.at = segment, len(segment.calls)
        self.grad, self.environment = local.grad, environment.current()

    def holds(self, segment: Segment) -> bool:
        """Whether the calls since are all in this segment, and left the thread's modes as they were."""
        same = local.grad is self.grad and environment.current() == self.environment
        return segment is self.segment and len(segment.calls) > self.at and same

    def calls(self, end: int | None = None) -> list[Call]:
        """The calls since, as they are within one that begins here."""
        around = self.segment.environment
        found = []
        for call in self.segment.calls[self.at : end]:
            own = around if call.environment is None else call.environment
            found.append(call._replace(environment=None if own == self.environment else own))
        return found


def used(calls: Iterable[Call], made: set[int]) -> list[int]:
    """The numbers that calls use and don't make, in the order of their first use; those that they make join `made`."""
    found: dict[int, None] = {}
    for call in calls:
        for number in (*values_in(call.args), *values_in(call.kwargs)):
            if number not in made:
                found[number] = None
        made.update([number for _, number in call.made if number not in found])
    return list(found)


def fold(
    start: Start, name: str, bodies: Sequence[Body], inputs: Sequence[int], results: Sequence[int], settings: Any,
    places: tuple[Place, ...],
) -> None:  # fmt: skip
    """The calls since `start` are one of torch.ops.higher_order's operator, given bodies and the values with these numbers."""
    segment = start.segment
    del segment.calls[start.at :]
    args = ("tuple", *[(BODY, body) for body in bodies], *[("value", number) for number in inputs])
    made = tuple([((at,), number) for at, number in enumerate(results)])
    segment.add(Call(getattr(torch.ops.higher_order, name), args, frozen(settings, int), made, start.grad, places))
    for body in bodies:
        segment.within |= _made(body)
    segment.within -= set(results)


def _made(body: Body) -> set[int]:
    made: set[int] = set()
    used(body.calls, made)
    return made


def folded(start: Start, name: str, result: Any, given: Any, settings: Any, places: tuple[Place, ...]) -> None:
    """Fold what a function did that was given tensors, among others, and gave a result."""
    segment, calls = start.segment, start.calls()
    made: set[int] = set()
    inputs = used(calls, made)
    first = {segment.number_of(tensor): None for tensor in tensors_in(given)}
    inputs = [*[n for n in first if n in inputs], *[n for n in inputs if n not in first]]
    numbers = {segment.number_of(tensor): None for tensor in tensors_in([result])}
    results = [number for number in numbers if number is not None and number in made]
    outputs = ("tuple", *[("value", number) for number in results])
    fold(start, name, [Body(inputs, calls, outputs, start.grad, start.environment)], inputs, results, settings, places)


def expose(segment: Segment, number: int) -> None:
    """Let a value that a call has within be one that calls behind it see."""
    within = ((at, body) for at, call in enumerate(segment.calls) for body in _bodies(call)[:1] if number in _made(body))
    at, body = next(within, (None, None))
    if at is None or body is None:
        return
    call = segment.calls[at]
    if call.function.__name__ in _WITHOUT_RULES:
        own = [c if c.environment is not None else c._replace(environment=call.environment) for c in body.calls]
        segment.calls[at : at + 1] = own
        segment.within -= _made(body)
        segment.within |= {n for c in own for inner in _bodies(c) for n in _made(inner)}
        segment.within -= {n for c in own for _, n in c.made}
    else:
        segment.calls[at] = _with_result(segment, call, number)
        segment.within.discard(number)


def _bodies(call: Call) -> list[Body]:
    return [part[1] for part in call.args[1:] if part[0] == BODY]


def _with_result(segment: Segment, call: Call, number: int) -> Call:
    """A call of autograd_function_apply that gives one more of its forward's values, which has no gradient."""
    (_, forward), (_, backward), *inputs = call.args[1:]
    kind, results, saved = forward.outputs
    outputs = kind, (*results, ("value", number)), saved
    at, gradient = len(results) - 1, segment.next_number()
    likes = {**backward.likes, gradient: number}
    given = [*list(backward.inputs)[:at], gradient, *list(backward.inputs)[at:]]
    forward = Body(forward.inputs, forward.calls, outputs, forward.grad, forward.environment)
    backward = Body(given, backward.calls, backward.outputs, backward.grad, backward.environment, likes)
    kwargs = ("dict", *[(key, (*x, (int, at)) if key == "non_differentiable_idx" else x) for key, x in call.kwargs[1:]])
    args = ("tuple", (BODY, forward), (BODY, backward), *inputs)
    return call._replace(args=args, kwargs=kwargs, made=(*call.made, ((at,), number)))


def tensors_in(given: Any) -> Any:
    """The tensors among values, and in their lists, tuples and dicts."""
    for x in given:
        if isinstance(x, Tensor):
            yield x
        elif x.__class__ is dict:
            yield from tensors_in(x.values())
        elif isinstance(x, (list, tuple)):
            yield from tensors_in(x)
