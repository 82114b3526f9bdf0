"""What functions of expanded weights are made of: their arguments taken apart, and gradients per sample put in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.utils._expanded_weights.expanded_weights_impl import ExpandedWeight, check_batch, check_unmixed

__all__ = [
    "forward_helper",
    "maybe_scale_by_batch_size",
    "set_grad_sample_if_exists",
    "standard_kwargs",
    "sum_over_all_but_batch_and_last_n",
    "unpack_expanded_weight_or_tensor",
]


def standard_kwargs(kwarg_names: Sequence[str], expanded_args: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """(arguments by position, those by name) of arguments of which the last have these names."""
    split = len(expanded_args) - len(kwarg_names)
    return expanded_args[:split], dict(zip(kwarg_names, expanded_args[split:]))


def forward_helper(func: Callable[..., Any], expanded_args: Sequence[Any], expanded_kwargs: dict[str, Any]) -> Any:
    """The function's result with the original weights in the place of expanded ones. RuntimeError for what is no batch."""
    check_batch(func, expanded_args, expanded_kwargs)

    def original(x: Any) -> Any:
        return x.orig_weight if isinstance(x, ExpandedWeight) else x

    return func(*map(original, expanded_args), **{name: original(x) for name, x in expanded_kwargs.items()})


def maybe_scale_by_batch_size(grad_sample: Any, expanded_weight: ExpandedWeight) -> Any:
    """Gradients per sample of a loss that is a mean, as those of the samples' own losses."""
    return grad_sample * expanded_weight.batch_size if expanded_weight.loss_reduction == "mean" else grad_sample


def set_grad_sample_if_exists(maybe_expanded_weight: Any, per_sample_grad_fn: Callable[[Any], Any]) -> None:
    """Add what a function of the original weight gives to its grad_sample. RuntimeError for a parameter that isn't expanded."""
    check_unmixed(maybe_expanded_weight)
    if not isinstance(maybe_expanded_weight, ExpandedWeight):
        return
    weight = maybe_expanded_weight.orig_weight
    found = maybe_scale_by_batch_size(per_sample_grad_fn(weight), maybe_expanded_weight)
    before = getattr(weight, "grad_sample", None)
    weight.grad_sample = found if before is None else before + found


def unpack_expanded_weight_or_tensor(maybe_expanded_weight: Any, func: Callable[[Any], Any] = lambda x: x) -> Any:
    """func of the original weight, or of a tensor that needs no gradient; None for what is no tensor. RuntimeError for a
    parameter that isn't expanded.
    """
    check_unmixed(maybe_expanded_weight)
    if isinstance(maybe_expanded_weight, ExpandedWeight):
        return func(maybe_expanded_weight.orig_weight)
    return func(maybe_expanded_weight) if isinstance(maybe_expanded_weight, Tensor) else None


def sum_over_all_but_batch_and_last_n(tensor: Tensor, n_dims: int) -> Tensor:
    """The sum over all dimensions but the first and the last n_dims."""
    dims = list(range(1, tensor.dim() - n_dims))
    return tensor.sum(dims) if dims else tensor  # type: ignore[attr-defined, no-any-return]
