"""What an operator of aten makes of DTensors: parts are moved where they have to be, each rank calls the operator on its own.

The whole results' shapes come from running the operator on meta tensors, the placements from `_sharding`; both are kept for calls
that are alike. What is no single call on parts (rows of an embedding) is written in `_composites`. Used by DTensor.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.distributed.tensor import _composites, _lists, _out
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta, local_shape_and_offset
from flambeau.distributed.tensor._ops.registry import LOCAL_SIZES, REGISTERED, OpCall, Operand, Rule, is_ours
from flambeau.distributed.tensor._redistribute import redistribute_local_tensor
from flambeau.distributed.tensor._sharding import Sharding, propagate, rule_of
from flambeau.distributed.tensor.placement_types import Replicate

__all__ = ["dispatch", "register"]


class _Known(NamedTuple):
    """What is kept of calls that are alike."""

    sharding: Sharding
    tensors: bool  # whether the results are tensors
    local_sizes: tuple[str, tuple[int, ...]] | None  # an argument, and what it has to be for this rank's part


_known: dict[Any, _Known] = {}


def register(func: Any, rule: Rule) -> None:
    """Has a rule hold for an overload of an operator from now on, also for calls like earlier ones."""
    REGISTERED[func] = rule
    _known.clear()


def dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an overload of an operator with DTensors among its arguments.

    Raises RuntimeError where plain tensors are among them too, NotImplementedError for an operator without a rule.
    """
    ours = is_ours(func) and func not in REGISTERED
    composite = _composites.COMPOSITES.get(func._opname) if ours else None
    if composite is not None:
        answer = composite(func, *args, **kwargs)
        if answer is not NotImplemented:
            return answer
    if ours and func._opname.startswith(("_foreach_", "_fused_")):
        return _lists.dispatch(func, args, kwargs)
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    mesh = next(leaf for leaf in _leaves(given.values()) if isinstance(leaf, DTensor)).device_mesh
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
    if written == "out":
        return _out.dispatch(func, args, kwargs)
    key = func, _hashable(arguments), tuple(specs)
    known = _known.get(key)
    if known is None:
        known = _known[key] = _find(func, given, arguments, specs, len(args), written)
    if not mesh._is_current_rank_part_of_mesh():
        empty = [_nothing(spec._meta) for spec in known.sharding.results]
        return _wrapped(known, empty if len(empty) > 1 else empty[0])
    local = [
        redistribute_local_tensor(tensor._local_tensor, spec, wanted) if isinstance(tensor, DTensor) else tensor
        for tensor, spec, wanted in zip(tensors, specs, known.sharding.operands, strict=True)
    ]
    placed = _replaced(given, local)
    if known.local_sizes is not None:
        name, sizes = known.local_sizes
        placed[name] = sizes[0] if isinstance(placed[name], int) else list(sizes)
    count = len(args)
    values = list(placed.values())
    result = func(*values[:count], **dict(list(placed.items())[count:]))
    if written is not None:
        return given[written]
    return _wrapped(known, result) if known.tensors else result


def _map(function: Any, value: Any) -> Any:
    """A value with its leaves replaced; lists are the only containers that schemas have."""
    return [_map(function, item) for item in value] if isinstance(value, (list, tuple)) else function(value)


def _replaced(given: dict[str, Any], tensors: list[torch.Tensor]) -> dict[str, Any]:
    """A call's arguments with other tensors in the place of its own, in their order, in containers of the same kinds."""
    left = iter(tensors)

    def each(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            items = [each(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return next(left) if isinstance(value, torch.Tensor) else value

    return {name: each(value) for name, value in given.items()}


def _leaves(value: Any) -> list[Any]:
    return (
        [value]
        if not isinstance(value, Iterable) or isinstance(value, (torch.Tensor, str))
        else [x for v in value for x in _leaves(v)]
    )


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return type(value), value  # True is not 1


def _written(func: Any) -> str | None:
    """The argument that an operator writes to, or None."""
    written = [
        argument.name for argument in func._schema.arguments if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if any(tag.name == "inplace_view" for tag in func.tags):
        raise NotImplementedError(f"{func} changes a DTensor's shape in place; use the operator that makes a view")
    if len(written) > 1 or (written and written[0] not in (func._schema.arguments[0].name, "out")):
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
    if tensor.numel() == 1 and tensor.ndim:
        warnings.warn(
            "Found a non-scalar tensor with numel=1 and ndim!=0, we are implicitly creating a replicated DTensor for it. "
            "However, please consider changing it to a scalar tensor or explicitly create a DTensor under distributed "
            "environment.",
            stacklevel=2,
        )
    if tensor.numel() == 1 or implicit_replication:  # a number; every rank has it
        return DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(tensor.shape, tensor.stride(), tensor.dtype))
    raise RuntimeError(
        f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed "
        "operators!"
    )


DTensor._dispatch = staticmethod(dispatch)

#: How many `implicit_replication` blocks are open.
implicit_replication: list[None] = []


def _nothing(meta: TensorMeta) -> torch.Tensor:
    """What a rank outside of the mesh has of a result."""
    return torch.zeros((), dtype=meta.dtype) if not meta.shape else torch.empty(0, dtype=meta.dtype)


def _find(
    func: Any, given: dict[str, Any], arguments: dict[str, Any], specs: list[DTensorSpec], positional: int, written: str | None
) -> _Known:
    rule_of(func)
    whole = [torch.empty_strided(spec.shape, spec.stride, dtype=spec._meta.dtype, device="meta") for spec in specs]
    run = _replaced(given, whole)
    if "device" in run:
        run["device"] = "meta"
    values = list(run.values())
    try:
        results = func(*values[:positional], **dict(list(run.items())[positional:]))
    except RuntimeError as error:
        if not any(tag.name in ("dynamic_output_shape", "data_dependent_output") for tag in func.tags):
            raise
        raise NotImplementedError(
            f"{func}: its result depends on values of the whole tensor; call it on full_tensor() or to_local()"
        ) from error
    leaves = _leaves(results)
    tensors = all(isinstance(leaf, torch.Tensor) or leaf is None for leaf in leaves)
    metas = [TensorMeta(leaf.shape, tuple(leaf.stride()), leaf.dtype) for leaf in leaves if isinstance(leaf, torch.Tensor)]
    bound = {argument.name: argument.default_value for argument in func._schema.arguments} | arguments
    call = OpCall(func, bound, specs, metas, positional, tuple(arguments))
    sharding = propagate(call, None if written is None else int(bound[written]))
    sizes = LOCAL_SIZES.get(func._opname) if is_ours(func) else None
    local_sizes = None
    if sizes in arguments and written is None:
        result = sharding.results[0]
        local_sizes = sizes, local_shape_and_offset(result.shape, result.mesh, result.placements)[0]
    return _Known(sharding, tensors, local_sizes)


def _wrapped(known: _Known, result: Any) -> Any:
    """The ranks' results as DTensors, in the lists or tuples that they come in."""
    specs = iter(known.sharding.results)

    def wrap(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([wrap(item) for item in value])
        if not isinstance(value, torch.Tensor):
            return value
        # a DTensor doesn't say that its part is conjugated: parts are as they are read
        return DTensor(value.resolve_conj() if value.is_complex() else value, next(specs), requires_grad=False)

    return wrap(result)
