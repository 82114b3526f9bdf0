"""Function transforms in graphs: torch.func.grad, vmap and others as the operators that they compute by.

What is transformed runs on tensors without data under a mode below autograd and transforms, which records aten's operators as
calls of the segment. Where that can't be (a value is asked for, something that requires gradients is used, an operator isn't
seen) the transform runs again, eagerly. Stands on bodies; used by tracer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flambeau._dynamo.segments.bodies import Start, tensors_in
from flambeau._dynamo.segments.places import places_of
from flambeau._dynamo.segments.segment import Call
from flambeau._dynamo.segments.values import frozen
from flambeau.core.modes.modes import local
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from types import FrameType

    from flambeau._dynamo.segments.tracer import Tracer

__all__ = ["recorded_transform"]


class NotRecorded(Exception):
    """A transform that graphs can't have."""


class _Operators(TorchDispatchMode):
    """Records the operators that a thread computes by."""

    def __init__(self, tracer: Tracer, places: Any) -> None:
        super().__init__()
        self.tracer, self.start, self.places = tracer, Start(tracer.segment), places
        self.first = tracer.segment.next_number()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        segment = self.tracer.segment
        if any(local.autocast_enabled.values()):
            raise NotRecorded  # casts inside of derivatives aren't seen here
        held = frozen(args, self.number), frozen(kwargs or {}, self.number)
        if func._schema.is_mutable and any(self.outside(self.number(x)) for x in tensors_in((args, kwargs))):
            raise NotRecorded
        made = func(*args, **(kwargs or {}))
        numbers = []
        for path, x in [((), made)] if isinstance(made, Tensor) else [((at,), x) for at, x in enumerate(made)]:
            if not isinstance(x, Tensor) or not fakes.is_fake(x._layout):
                raise NotRecorded  # a value
            number = segment.number_of(x)
            if number is None:
                number = segment.next_number()
                segment.add_made(x, number)
            numbers.append((path, number))
        self.add(func, held, tuple(numbers))
        return made

    def add(self, function: Callable[..., Any], held: Any, made: Any) -> None:
        """One more call."""
        start, segment = self.start, self.tracer.segment
        segment.begins(start.grad)
        state = None if start.environment == segment.environment else start.environment
        segment.calls.append(Call(function, held[0], held[1], made, start.grad, self.places, state))

    def number(self, tensor: Any) -> int:
        """The number of an argument. NotRecorded for what would need gradients of operators: transforms have their own."""
        if not isinstance(tensor, Tensor):
            raise NotRecorded
        segment = self.tracer.segment
        tensor = segment.fakes.get(id(tensor), tensor)
        known = segment.number_of(tensor)
        if known is None:
            known = segment.number_of_view(tensor)
        if known is None:
            if fakes.is_fake(tensor._layout):
                raise NotRecorded
            known = self.tracer.number(tensor)
        if self.start.grad and self.outside(known) and segment.requires_grad(known):
            raise NotRecorded
        return known

    def outside(self, number: int) -> bool:
        """Whether a tensor isn't one that the transform has made."""
        return number < self.first or any(number == known for known, *_ in self.tracer.segment.outside)


def recorded_transform(
    tracer: Tracer, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
) -> Any:
    """What a transformed function gives. Raises NotRecorded, and takes back what was recorded, if graphs can't have it."""
    mode = _Operators(tracer, places_of(frame))
    segment, end = tracer.segment, len(tracer.segment.calls)

    def results() -> Any:
        for x in tensors_in((args, kwargs)):
            tracer.number(x)
        local.observer = tracer.outer
        try:
            with tracer.mode, mode:
                made = function(*tracer.fake(args), **tracer.fake(kwargs))
        finally:
            local.observer = tracer
        for x in tensors_in(pytree.tree_leaves(made)):
            if segment.number_of(x) is None:
                number = segment.next_number()
                mode.add(Tensor.detach, (frozen((x,), mode.number), frozen({}, mode.number)), (((), number),))
                segment.add_made(x, number)
        return made, True

    made = tracer.alone_with(results)
    if made is None:
        del segment.calls[end:]
        segment.put_within(mode.first)
        raise NotRecorded
    return made[0]
