"""autograd.Functions in graphs: forward's calls and those of backward, run at once on gradients without data, become one call.

Where nothing wants gradients forward's calls stay what they are. Where a Function is more than graphs can say (its backward asks
for values, forward writes to what it is given), the segment is computed between forward and what joins its results to the graph,
so that the Function itself is their node. Stands on bodies and core.autograd.function; used by tracer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import flambeau as torch
from flambeau._dynamo.segments.bodies import Start, fold, used
from flambeau._dynamo.segments.places import places_of
from flambeau._dynamo.segments.segment import Body, Segment
from flambeau.core.autograd.function import Function, FunctionNode, forwarded, joined
from flambeau.core.modes.modes import local
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from types import FrameType

    from flambeau._dynamo.segments.tracer import Tracer

__all__ = ["applied"]


def applied(tracer: Tracer, function: type[Function], args: tuple[Any, ...], frame: FrameType) -> Any:
    """What core.autograd.function.call gives, recorded."""
    start = Start(tracer.segment)
    needs, context, result = forwarded(function, args)
    several = isinstance(result, tuple)
    outputs = list(result) if several else [result]
    written = context.dirty_tensors
    for at, output in enumerate(outputs):
        if _among(output, args) and not _among(output, written):
            with torch.no_grad():
                outputs[at] = torch.Tensor.view_as(output, output)  # as the Function would by itself
    result = tuple(outputs) if several else outputs[0]
    recording = local.grad and True in needs
    if written or (recording and not _plain(tracer, start, context, outputs)):
        tracer.settle([result])
        return joined(function, args, needs, context, result)
    if not recording:
        _follow_grad_mode(start, tracer.segment)
        return joined(function, args, needs, context, result)
    before, end, first = dict(vars(context)), len(tracer.segment.calls), tracer.segment.next_number()
    local.observer = tracer.outer  # an output that is saved is that output
    try:
        made = joined(function, args, needs, context, result)
    finally:
        local.observer = tracer
    body = tracer.alone_with(lambda: _backward(tracer, Start(tracer.segment), outputs))
    del tracer.segment.calls[end:]
    tracer.segment.put_within(first)
    if body is None:  # what joined the results is forgotten with what they were
        vars(context).clear()
        vars(context).update(before)
        tracer.settle([result])
        return joined(function, args, needs, context, result)
    _fold(tracer, start, args, outputs, before, made[2], body, places_of(frame))
    return made


def _follow_grad_mode(start: Start, segment: Segment) -> None:
    """Where nothing that forward's calls are given requires gradients, they need no grad mode of their own."""
    if not start.grad or not start.holds(segment):
        return
    calls = segment.calls[start.at :]
    if any(call.grad for call in calls) or any(segment.requires_grad(number) for number in used(calls, set())):
        return
    del segment.calls[start.at :]
    segment.begins(True)
    segment.calls += [call._replace(grad=True) for call in calls]


def _among(value: Any, tensors: Any) -> bool:
    return isinstance(value, Tensor) and any(value is x for x in tensors)


def _plain(tracer: Tracer, start: Start, context: Any, outputs: list[Any]) -> bool:
    """Whether the results are different tensors that forward's calls made, all of whose gradients backward gets."""
    if not start.holds(tracer.segment) or local.guard:
        return False
    made: set[int] = set()
    used(start.calls(), made)
    numbers = [tracer.segment.number_of(x) for x in outputs if isinstance(x, Tensor) and fakes.is_fake(x._layout)]
    tensors = [x for x in outputs if isinstance(x, Tensor)]
    whole = context.materialize_grads and context._materialize_non_diff_grads
    return len(set(numbers)) == len(tensors) and made.issuperset(numbers) and (whole or len(tensors) == len(outputs) == 1)


def _backward(tracer: Tracer, start: Start, outputs: list[Any]) -> Body | None:
    """What the node of the results does to gradients; its inputs are the gradients so far."""
    segment = tracer.segment
    tensors = [x for x in outputs if isinstance(x, Tensor)]
    node = next((x._node for x in tensors if isinstance(x._node, FunctionNode)), None)
    if node is None:
        return None
    likes: dict[int, int] = {}
    gradients: list[Any] = []
    for x in outputs:
        if not isinstance(x, Tensor):
            gradients.append(None)
            continue
        local.observer = tracer.outer
        try:
            with tracer.mode, torch.no_grad():
                gradients.append(torch.empty_like(x))
        finally:
            local.observer = tracer
        number = segment.next_number()
        likes[number] = segment.number_of(x)  # type: ignore[assignment]
        segment.add_made(gradients[-1], number)
    origins = node.origins
    node.origins = (None,) * len(origins)  # outputs that are saved are joined to the graph again by who runs the graph
    try:
        given = node.apply(gradients)
    finally:
        node.origins = origins
    numbers = [None if x is None else tracer.number(x) for x in given]
    if not start.holds(segment) and segment.calls[start.at :]:
        return None
    returned = ("tuple", *[(type(None), None) if n is None else ("value", n) for n in numbers])
    return Body(list(likes), start.calls(), returned, start.grad, start.environment, likes)


def _fold(
    tracer: Tracer,
    start: Start,
    args: Any,
    outputs: list[Any],
    context: dict[str, Any],
    unmoved: Any,
    backward: Body,
    places: Any,
) -> None:
    """Forward's calls and those of the backward become one call."""
    segment, calls = tracer.segment, start.calls()
    made: set[int] = set()
    inside = used(calls, made)
    results = [segment.number_of(x) for x in outputs if isinstance(x, Tensor)]
    own: set[int] = set(backward.inputs)
    wanted = used(backward.calls, own)
    wanted += [v[1] for v in backward.outputs[1:] if v[0] == "value" and v[1] not in own and v[1] not in wanted]
    given = [tracer.number(x) for x in args if isinstance(x, Tensor)]
    lifted = [n for n in dict.fromkeys([*inside, *wanted]) if n not in made and n not in given]
    inputs = [*given, *lifted]
    nothing = [(type(None), None)] * len(lifted)
    kept = {segment.number_of(x) for x in context.get("to_save", ()) if isinstance(x, Tensor)}
    forward = Body(inputs, calls, ("tuple", _values(results), _values(wanted)), start.grad, start.environment)
    backward = Body(
        [*backward.inputs, *wanted],
        backward.calls,
        (*backward.outputs, *nothing),
        backward.grad,
        backward.environment,
        backward.likes,
    )
    settings = {
        "non_differentiable_idx": [i for i, x in enumerate(x for x in outputs if isinstance(x, Tensor)) if _among(x, unmoved)],
        "saved_for_backward_idx": [i for i, n in enumerate(wanted) if n in kept],
    }
    fold(start, "autograd_function_apply", [forward, backward], inputs, results, settings, places)  # type: ignore[arg-type]


def _values(numbers: Any) -> Any:
    return ("tuple", *[("value", number) for number in numbers])
