"""What an operator of aten makes of DTensors: parts are moved where they have to be, each rank calls the operator on its own.

The whole results' shapes come from running the operator on meta tensors, the placements from `_sharding`; both are kept for calls
that are alike. What is no single call on parts (a norm, rows of an embedding) is written in `_composites`. Used by DTensor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.distributed.tensor import _composites
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, local_shape_and_offset
from flambeau.distributed.tensor._ops.registry import LOCAL_SIZES, OpCall, Operand
from flambeau.distributed.tensor._redistribute import redistribute_local_tensor
from flambeau.distributed.tensor._sharding import Sharding, propagate
from flambeau.distributed.tensor.placement_types import Replicate

__all__ = ["dispatch"]


class _Known(NamedTuple):
    """What is kept of calls that are alike."""

    sharding: Sharding
    structure: Any  # of the results: a tree whose leaves are the tensors
    local_sizes: tuple[str, tuple[int, ...]] | None  # an argument, and what it has to be for this rank's part


_known: dict[Any, _Known] = {}


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an overload of an operator with DTensors among its arguments.

    Raises RuntimeError where plain tensors are among them too, NotImplementedError for an operator without a rule.
    """
    composite = _composites.COMPOSITES.get(func._opname)
    if composite is not None:
        answer = composite(func, *args, **kwargs)
        if answer is not NotImplemented:
            return answer
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    mesh = next(leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, DTensor)).device_mesh
    tensors: list[torch.Tensor] = []
    specs: list[DTensorSpec] = []

    def operand(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        specs.append(_spec_of(func, leaf, mesh))
        tensors.append(leaf)
        return Operand(len(specs) - 1)

    arguments = {name: _map(operand, value) for name, value in given.items()}
    written = _written(func)
    key = func, _hashable(arguments), tuple(specs)
    known = _known.get(key)
    if known is None:
        known = _known[key] = _find(func, arguments, specs, len(args), written)
    if not mesh._is_current_rank_part_of_mesh():
        return _wrapped(known, [torch.empty(0, dtype=spec._meta.dtype) for spec in known.sharding.results])
    local = [
        redistribute_local_tensor(tensor._local_tensor, spec, wanted) if isinstance(tensor, DTensor) else tensor
        for tensor, spec, wanted in zip(tensors, specs, known.sharding.operands, strict=True)
    ]
    placed = {
        name: _map(lambda leaf: local[leaf] if isinstance(leaf, Operand) else leaf, value)
        for name, value in arguments.items()
    }
    if known.local_sizes is not None:
        placed[known.local_sizes[0]] = list(known.local_sizes[1])
    count = len(args)
    values = list(placed.values())
    result = func(*values[:count], **dict(list(placed.items())[count:]))
    if written is not None:
        return given[written]
    leaves = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return _wrapped(known, leaves) if known.structure is not None else result


def _map(function: Any, value: Any) -> Any:
    """A value with its leaves replaced; lists are the only containers that schemas have."""
    return [_map(function, item) for item in value] if isinstance(value, (list, tuple)) else function(value)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return type(value), value  # True is not 1


def _written(func: Any) -> str | None:
    """The argument that an operator writes to, or None."""
    written = [
        argument.name
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if len(written) > 1 or (written and written[0] != func._schema.arguments[0].name):
        raise NotImplementedError(
            f"{func}: operators that write to {written} don't take DTensors; use the one that makes new tensors"
        )
    return written[0] if written else None


def _spec_of(func: Any, tensor: torch.Tensor, mesh: Any) -> DTensorSpec:
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise NotImplementedError(
                f"{func}: DTensor does not support cross-mesh operation: tensors lie on {mesh} and {tensor.device_mesh}; "
                "redistribute them to one mesh"
            )
        return tensor._spec
    if tensor.ndim == 0 and tensor.numel() == 1:  # a number; every rank has it
        meta = TensorMeta(tensor.shape, tensor.stride(), tensor.dtype)
        return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta)
    if _implicit_replication:
        return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))
    raise RuntimeError(
        f"{func}: got mixed torch.Tensor and DTensor, need to convert all"
        " torch.Tensor to DTensor before calling distributed operators!"
        " Please see https://docs.pytorch.org/docs/main/distributed.tensor.html#mixed-tensor-and-dtensor-operations"
        " for more details."
    )


#: How many `implicit_replication` blocks are open.
_implicit_replication: list[None] = []


def _find(
    func: Any, arguments: dict[str, Any], specs: list[DTensorSpec], positional: int, written: str | None
) -> _Known:
    whole = [torch.empty_strided(spec.shape, spec.stride, dtype=spec._meta.dtype, device="meta") for spec in specs]
    run = {
        name: _map(lambda leaf: whole[leaf] if isinstance(leaf, Operand) else leaf, value)
        for name, value in arguments.items()
    }
    if "device" in run:
        run["device"] = "meta"
    values = list(run.values())
    results = func(*values[:positional], **dict(list(run.items())[positional:]))
    leaves, structure = pytree.tree_flatten(results)
    tensors = all(isinstance(leaf, torch.Tensor) or leaf is None for leaf in leaves)
    metas = [
        TensorMeta(leaf.shape, tuple(leaf.stride()), leaf.dtype) for leaf in leaves if isinstance(leaf, torch.Tensor)
    ]
    bound = {argument.name: argument.default_value for argument in func._schema.arguments} | arguments
    call = OpCall(func, bound, specs, metas)
    sharding = propagate(call, None if written is None else int(bound[written]))
    sizes = LOCAL_SIZES.get(func._opname)
    local_sizes = None
    if sizes in arguments and written is None:
        result = sharding.results[0]
        local_sizes = sizes, local_shape_and_offset(result.shape, result.mesh, result.placements)[0]
    return _Known(sharding, structure if tensors else None, local_sizes)


def _wrapped(known: _Known, leaves: list[torch.Tensor]) -> Any:
    made = [
        DTensor(local, spec, requires_grad=False) for local, spec in zip(leaves, known.sharding.results, strict=True)
    ]
    return pytree.tree_unflatten(made, known.structure)
