"""implicit_replication, local_map and register_sharding of torch.distributed.tensor.experimental."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau as torch
from flambeau.distributed._functional_collectives import AsyncCollectiveTensor
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor import _dispatch
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._ops.registry import OpCall, Operand, Way
from flambeau.distributed.tensor.placement_types import Placement, Replicate

__all__ = ["implicit_replication", "local_map", "register_sharding"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors may be mixed with DTensors: each is taken for one that every rank has."""
    _dispatch.implicit_replication.append(None)
    try:
        yield
    finally:
        _dispatch.implicit_replication.pop()


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: tuple[Any, ...] | None = None,
    in_grad_placements: tuple[Any, ...] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """A function on ranks' parts as one on DTensors.

    Args:
        func: takes plain tensors where it is given DTensors; without it a decorator is returned.
        out_placements: a tuple of each result's (a sequence of placements for a single one); None for what isn't a tensor.
        in_placements: of each argument, those in lists and dicts one by one; None for what isn't a DTensor; without them
            arguments are taken as they lie.
        in_grad_placements: how each argument's gradient lies.
        device_mesh: by default that of the arguments.
        redistribute_inputs: move arguments that lie otherwise, rather than raise ValueError.

    Results are DTensors if an argument is one.

    Raises:
        AssertionError: if placements and arguments, or placements and results, don't go together.
        ValueError: if an argument lies otherwise than in_placements say.
    """
    if func is None:
        return lambda function: local_map(
            function, out_placements, in_placements, in_grad_placements, device_mesh, redistribute_inputs=redistribute_inputs
        )
    if not callable(func):
        raise ValueError(f"func must be callable, got {func}")

    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, form = torch.utils._pytree.tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!"
            )
        mesh = device_mesh or next((arg.device_mesh for arg in flat if isinstance(arg, DTensor)), None)
        local = []
        for place, arg in enumerate(flat):
            if in_placements is not None:
                _check_given(arg, in_placements[place])
            if isinstance(arg, DTensor):
                arg = _as_wanted(arg, in_placements[place] if in_placements else None, redistribute_inputs)
                arg = arg.to_local(grad_placements=in_grad_placements[place] if in_grad_placements else None)
            local.append(arg.wait() if isinstance(arg, AsyncCollectiveTensor) else arg)
        result = func(*torch.utils._pytree.tree_unflatten(local, form), **kwargs)
        if mesh is None or not any(isinstance(arg, DTensor) for arg in flat):
            return result
        values, results_form = torch.utils._pytree.tree_flatten(result)
        wanted = (out_placements,) if _is_one(out_placements) else tuple(out_placements)
        if len(wanted) != len(values):
            raise AssertionError(
                "local_map requires one PlacementType be provided for each output value, "
                f"received {len(wanted)} out_placements but {len(values)} is expected!"
            )
        placed = [_placed(value, mesh, placements) for value, placements in zip(values, wanted, strict=True)]
        return torch.utils._pytree.tree_unflatten(placed, results_form)

    return mapped


def _is_one(placements: Any) -> bool:
    return placements is None or (len(placements) > 0 and all(isinstance(placement, Placement) for placement in placements))


def _check_given(arg: Any, placements: Any) -> None:
    if isinstance(arg, DTensor) and placements is None:
        raise AssertionError(f"DTensor input {arg} expects placements but received {placements}!")
    if not isinstance(arg, torch.Tensor) and placements is not None:
        raise AssertionError(f"Non-Tensor input {arg} expects None placements but received {placements}!")


def _as_wanted(tensor: DTensor, placements: Sequence[Placement] | None, move: bool) -> DTensor:
    if placements is None or tuple(placements) == tensor.placements:
        return tensor
    if not move:
        raise ValueError(
            f"arg {tensor} in local_map has a mismatched placements: "
            f"arg placements is {tensor.placements} but the input "
            f"placements is {tuple(placements)}! "
            "If redistribute_inputs is wanted, set redistribute_inputs=True to local_map."
        )
    return tensor.redistribute(placements=placements)


def _placed(value: Any, mesh: DeviceMesh, placements: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if isinstance(value, AsyncCollectiveTensor):
            value = value.wait()
        return DTensor.from_local(value, mesh, None if placements is None else tuple(placements), run_check=False)
    if placements is not None:
        raise AssertionError(f"Non-tensor output {value} expects None placements but received {placements}!")
    return value


def register_sharding(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a rule for an overload of an operator (or a list of them), of one's own or of aten, whose own rule it replaces.

    The function gets what the operator was called with, tensors among it as specs (`shape`, `ndim`, `placements`), and returns a
    list of (placements of the results, placements of the arguments, None for what isn't a tensor), each along one dimension of a
    mesh. It is for that overload alone; a rule that is registered later replaces it.
    """
    overloads = op if isinstance(op, list) else [op]
    for overload in overloads:
        if not hasattr(overload, "_schema"):
            raise TypeError(f"register_sharding takes overloads of operators (torch.ops.aten.relu.default), not {overload!r}")

    def seen(call: OpCall, value: Any) -> Any:
        if isinstance(value, list):
            return [seen(call, item) for item in value]
        return call.operands[value] if isinstance(value, Operand) else value

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def rule(call: OpCall) -> Iterable[Way]:
            given = {name: seen(call, call.arguments[name]) for name in call.given}
            named = dict(list(given.items())[call.positional :])
            for results, operands in function(*list(given.values())[: call.positional], **named):
                yield Way(
                    tuple(placement or Replicate() for placement in results),
                    tuple(placement for placement in operands if placement is not None),
                )

        for overload in overloads:
            _dispatch.register(overload, rule)
        return function

    return register
