"""`out=` of operators on DTensors: the operator without it, and its result put where `out` lies, placed as that is.

Used by `_dispatch`.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._redistribute import redistribute_local_tensor

__all__ = ["dispatch"]


def _without_out(func: Any) -> Any:
    """The overload with the same arguments but for `out`."""
    wanted = [argument.name for argument in func._schema.arguments if argument.name != "out"]
    packet = getattr(getattr(torch.ops, func._namespace), func._opname)
    for name in packet.overloads():
        overload = getattr(packet, name)
        if [argument.name for argument in overload._schema.arguments] == wanted:
            if [str(argument.type) for argument in overload._schema.arguments] == [
                str(argument.type) for argument in func._schema.arguments if argument.name != "out"
            ]:
                return overload
    raise NotImplementedError(f"{func}: there is no such operator without out= for DTensors; use another one")


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DTensor:
    """Calls an operator that writes to `out`, whose placements stay. RuntimeError where its shape isn't the result's."""
    out = kwargs.pop("out")
    if not isinstance(out, DTensor):
        raise RuntimeError(
            f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed "
            "operators!"
        )
    made: DTensor = _without_out(func)(*args, **kwargs)
    if made.shape != out.shape:
        raise RuntimeError(f"{func}: out= has shape {list(out.shape)}, the result {list(made.shape)}; DTensors aren't resized")
    local = redistribute_local_tensor(made._local_tensor, made._spec, made._spec.with_placements(out.placements))
    out._local_tensor.copy_(local)
    return out
