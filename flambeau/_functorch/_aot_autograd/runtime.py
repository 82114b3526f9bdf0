"""Calling compiled graphs so that a caller can't tell them from the function that they were made of.

`Forward` calls a graph without gradients, `training` makes the autograd.Function of a forward and a backward graph;
`finished` does what both leave to do: values are written to inputs, results that are inputs or views are those of the
caller's tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._functorch._aot_autograd.schemas import OutputAliasInfo, OutputType, ViewAndMutationMeta
from flambeau.core.modes.modes import local, set_autocast_enabled
from flambeau.core.tensor.tensor import tensor_from

__all__ = ["boxed", "finished", "training"]


def boxed(compiled: Any) -> Callable[[list[Any]], Any]:
    """What a compiler made, as a function of one list of arguments. Its graph has the casts of autocast, which is off inside."""
    if getattr(compiled, "_boxed_call", False):
        return _without_autocast(compiled)
    warnings.warn(
        "Your compiler for AOTAutograd is returning a function that doesn't take boxed arguments. Please wrap it with "
        "functorch.compile.make_boxed_func or handle the boxed arguments yourself. See "
        "https://github.com/pytorch/pytorch/pull/83137#issuecomment-1211320670 for rationale.",
        stacklevel=2,
    )
    return _without_autocast(lambda args: compiled(*args))


def _without_autocast(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def call(args: list[Any]) -> Any:
        kinds = [kind for kind, on in local.autocast_enabled.items() if on]
        for kind in kinds:
            set_autocast_enabled(kind, False)
        try:
            return run(args)
        finally:
            for kind in kinds:
                set_autocast_enabled(kind, True)

    return call


def finished(meta: ViewAndMutationMeta, args: Sequence[Any], returned: Sequence[Any]) -> list[Any]:
    """The results of the program, from what the graph returned for these arguments, which are written to."""
    mutated = meta.mutated_inp_runtime_indices
    for i, value in zip(mutated, returned):
        _write(meta, args, i, value)
    bases = returned[len(mutated) + meta.num_outputs :]
    results: list[Any] = []
    for x, info in zip(returned[len(mutated) :], meta.output_info):
        results.append(results[info.same_as] if info.same_as is not None else _result(x, info, args, results, bases))
    # A view of a later result could only be taken once that was there.
    for at, info in enumerate(meta.output_info):
        if info.output_type is OutputType.alias_of_intermediate_base_is_user_output and info.same_as is None:
            results[at] = _view_of(results[info.base_idx or 0], results[at], info)
    for at, info in enumerate(meta.output_info):
        if info.same_as is not None:
            results[at] = results[info.same_as]
    if meta.grad_enabled_mutation is not None:
        torch.set_grad_enabled(meta.grad_enabled_mutation)
    return results


def _write(meta: ViewAndMutationMeta, args: Sequence[Any], i: int, value: Any) -> None:
    info, x = meta.input_info[i], args[i]
    if info.mutates_metadata:
        offset = x.storage_offset() if info.mutates_data else value.storage_offset()
        x.as_strided_(value.shape, value.stride(), offset)
        if not info.mutates_data:
            return
    if info.mutations_under_no_grad_or_inference_mode:
        with torch.no_grad():
            x.copy_(value)
    else:
        x.copy_(value)


def _result(x: Any, info: OutputAliasInfo, args: Sequence[Any], results: Sequence[Any], bases: Sequence[Any]) -> Any:
    kind = info.output_type
    if kind is OutputType.is_input:
        return args[info.base_idx or 0]
    if kind is OutputType.alias_of_input:
        return _view_of(args[info.base_idx or 0], x, info)
    if kind in (OutputType.alias_of_intermediate, OutputType.alias_of_intermediate_save_as_output):
        return _view_of(bases[info.base_idx or 0], x, info)
    return x


def _view_of(base: torch.Tensor, x: torch.Tensor, info: OutputAliasInfo) -> torch.Tensor:
    """The view of a tensor that a result is; `x` is one of its geometry."""
    if not info.requires_grad:
        base = base.detach()
    if info.views is None:
        made = base.as_strided(x.shape, x.stride(), x.storage_offset())
    else:
        made = base
        for view in info.views:
            made = view.of(made)
        if made is base and info.requires_grad:
            made = base.view_as(base)
    if info.requires_grad and not made.requires_grad:
        made.requires_grad_()
    return made


def training(
    forward: Callable[[list[Any]], Any], backward: Callable[[list[Any]], Any], meta: ViewAndMutationMeta, wants: Sequence[bool]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A differentiable function of a list of arguments, of a forward graph and a backward graph.

    forward(args) gives what `meta` says is returned, then values for the backward pass; backward takes
    these, numbers before tensors, and tangents. wants: which inputs get a gradient.
    """
    count = meta.num_forward_returns
    takes = [meta.takes_tangent(at) for at in range(count)]
    orders = [_order(t._layout.strides) for t in meta.traced_tangents]

    class CompiledFunction(torch.autograd.Function):
        """The forward and the backward graph of a compiled function."""

        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            """What the forward graph returns for the program; the rest is saved."""
            made = forward(list(args))
            returned, kept = list(made[:count]), made[count:]
            ctx.set_materialize_grads(False)
            ctx.like = [None if not taken else (x.shape, x.dtype, x.device) for x, taken in zip(returned, takes)]
            ctx.numbers = [x for x in kept if not isinstance(x, torch.Tensor)]
            ctx.save_for_backward(*[x for x in kept if isinstance(x, torch.Tensor)])
            given = {id(x) for x in args if isinstance(x, torch.Tensor)}
            seen: set[int] = set()
            for at, x in enumerate(returned):
                if isinstance(x, torch.Tensor):
                    # One place in the graph for each; that the graph took it as a view is its own business.
                    if id(x) in seen or (id(x) in given and not takes[at]) or (x._base is not None and id(x) not in given):
                        returned[at] = tensor_from(x._storage, x._offset, x._layout)
                    seen.add(id(x))
            ctx.mark_non_differentiable(*[x for x, taken in zip(returned, takes) if isinstance(x, torch.Tensor) and not taken])
            return tuple(returned)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            """The gradients of the arguments."""
            given = [(g, like) for g, like, taken in zip(gradients, ctx.like, takes) if taken]
            if all(g is None for g, _ in given):
                return (None,) * len(wants)
            tangents = [torch.zeros(like[0], dtype=like[1], device=like[2]) if g is None else g for g, like in given]
            tangents = [_laid_out(g, order) for g, order in zip(tangents, orders)]
            inputs = [*ctx.numbers, *ctx.saved_tensors, *tangents]
            if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
                return _Backward.apply(backward, *inputs)
            return tuple(backward(inputs))

    def call(args: Sequence[Any]) -> Sequence[Any]:
        return CompiledFunction.apply(*args)  # type: ignore[no-any-return]

    return call


def _order(strides: Sequence[int]) -> list[int]:
    """Dimensions from the one with the longest steps to that with the shortest."""
    return sorted(range(len(strides)), key=lambda d: -strides[d])


def _laid_out(gradient: torch.Tensor, order: list[int]) -> torch.Tensor:
    """A gradient, dense in this order of dimensions, as the one was that the backward graph was traced for."""
    shown = gradient.permute(order)
    if shown.is_contiguous():
        return gradient
    return shown.contiguous().permute([order.index(d) for d in range(len(order))])


class _Backward(torch.autograd.Function):
    """A backward graph: its own derivative isn't known."""

    @staticmethod
    def forward(ctx: Any, backward: Callable[[list[Any]], Any], *inputs: Any) -> Any:
        """The gradients of the compiled function's arguments."""
        return tuple(backward(list(inputs)))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """RuntimeError: there is no graph of a second derivative."""
        raise RuntimeError("torch.compile with aot_autograd does not currently support double backward")
