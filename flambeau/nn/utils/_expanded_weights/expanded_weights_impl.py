"""ExpandedWeight: a parameter that a function of a batch uses as if each sample had its own; a backward pass gives the parameter
a `grad_sample`, of (batch size, *its shape).

The function is run for all samples at once, each with its own parameters, which are the same ones expanded. Stands on vmap and
_per_sample_grad.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.core.modes import interception
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.utils._per_sample_grad import _Expanded

__all__ = ["ExpandedWeight"]

#: The functions that can use one: samples don't depend on each other in them.
_HANDLED = frozenset(
    [
        F.linear,
        F.conv1d,
        F.conv2d,
        F.conv3d,
        F.embedding,
        F.group_norm,
        F.instance_norm,
        F.layer_norm,
        torch.conv1d,
        torch.conv2d,
        torch.conv3d,
    ]
)
_REQUIRES_GRAD = torch.Tensor.requires_grad


class ExpandedWeight(Tensor):
    """A parameter for each of `batch_size` samples: `orig_weight`, which requires grad.

    loss_reduction: "mean" if the loss is a mean over the batch, whose gradients are then those of the samples' own losses. Used
    in another function than linear, conv1d to conv3d, embedding, and the norms of groups, instances and layers it raises
    RuntimeError.
    """

    orig_weight: Any
    batch_size: int
    batch_first: bool
    allow_smaller_batches: bool
    loss_reduction: str
    handled_functions = dict.fromkeys(_HANDLED)

    @staticmethod
    def __new__(cls: type, orig_weight: Any, batch_size: Any, loss_reduction: str) -> Any:
        if not isinstance(orig_weight, Tensor):
            raise RuntimeError(f"Can only make Expanded Weights of Tensors, got {type(orig_weight).__name__}")
        if not orig_weight.requires_grad:
            raise RuntimeError("Can only build ExpandedWeights objects of tensors that requires_grad")
        made = Tensor._make_subclass(cls, orig_weight.detach(), True)
        own = made.__dict__
        own.update(
            orig_weight=orig_weight,
            batch_size=batch_size,
            loss_reduction=loss_reduction,
            batch_first=True,
            allow_smaller_batches=False,
            _attention=interception.Attention(),
        )
        return made

    # What can be told without asking anybody.
    shape, dtype, device, is_cuda = Tensor.shape, Tensor.dtype, Tensor.device, Tensor.is_cuda  # type: ignore[attr-defined]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__self__", None) is _REQUIRES_GRAD and func.__name__ == "__get__":
            return True
        function = getattr(func, "__wrapped__", func)
        if func in _HANDLED or function in _HANDLED:
            return _for_each_sample(func, args, kwargs or {})
        raise RuntimeError(f"Expanded Weights encountered but cannot handle function {func.__name__}")


interception.attend(ExpandedWeight, lambda: _HANDLED)  # type: ignore[arg-type]    # before they become other functions


def check_batch(func: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """RuntimeError unless the first argument is a batch, and that of the expanded weights among the others."""
    input, *others = args
    name = getattr(func, "__name__", repr(func))
    if isinstance(input, ExpandedWeight):
        raise RuntimeError(
            "Expanded Weights do not support inputs that are also ExpandedWeights. Input must be a Tensor, got "
            f"{type(input).__name__} in function {name}"
        )
    if not isinstance(input, Tensor):
        raise RuntimeError(
            "Expanded Weights requires a Tensor as the first input to get the batch dimension, got "
            f"{type(input).__name__} in function {name}"
        )
    if not input.dim():
        raise RuntimeError(f"Expanded Weights requires a batch dimension but got an input of size 0 in function {name}")
    if not input.shape[0]:
        raise RuntimeError(f"0 is not a valid batch size for Expanded Weights but got input tensor of {input} in function {name}")
    for x in (*others, *kwargs.values()):
        if isinstance(x, ExpandedWeight) and x.batch_size != input.shape[0]:
            raise RuntimeError(
                "Expected ExpandedWeights to have batch size matching input but got input batch size of "
                f"{input.shape[0]} with ExpandedWeight of batch size {x.batch_size}"
            )


def check_unmixed(x: Any) -> None:
    """RuntimeError for a parameter that isn't expanded."""
    if isinstance(x, Tensor) and not isinstance(x, ExpandedWeight) and x.requires_grad:
        raise RuntimeError(
            "ExpandedWeights currently does not support a mixture of ExpandedWeight parameters and normal "
            "Parameters. Please file and issue with pytorch/pytorch"
        )


def _for_each_sample(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The function's result for a batch, with a place in the graph that gives the parameters their grad_sample."""
    if "input" in kwargs:
        args, kwargs = (kwargs["input"], *args), {name: x for name, x in kwargs.items() if name != "input"}
    check_batch(func, args, kwargs)
    input, *others = args
    leaves, spec = torch.utils._pytree.tree_flatten((others, kwargs))
    for x in leaves:
        check_unmixed(x)
    if input.dim() < _least_rank(func):
        raise RuntimeError(
            f"Expanded Weights requires a batch dimension: {func.__name__} got an input of {input.dim()} dimensions"
        )
    places = [n for n, x in enumerate(leaves) if isinstance(x, ExpandedWeight)]
    factor = [input.shape[0] if leaves[n].loss_reduction == "mean" else 1 for n in places]
    expanded = [_Expanded.apply(leaves[n].orig_weight, input.shape[0], f) for n, f in zip(places, factor)]

    def one(sample: Any, *own: Any) -> Any:
        given = list(leaves)
        for n, x in zip(places, own):
            given[n] = x
        positional, keywords = torch.utils._pytree.tree_unflatten(given, spec)
        return func(sample.unsqueeze(0), *positional, **keywords).squeeze(0)

    return torch.func.vmap(one)(input, *expanded)


def _least_rank(func: Any) -> int:
    name = getattr(func, "__name__", "")
    return int(name[4]) + 2 if name.startswith("conv") else 2
