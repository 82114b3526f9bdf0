"""torch.nn.utils._per_sample_grad: gradients of a module's parameters for each sample of a batch, in one backward pass.

The module runs on all samples at once, each with parameters of its own, which are the same ones expanded. Stands on the public
vmap and functional_call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.module import Module

__all__ = ["call_for_per_sample_grads"]


class _Expanded(torch.autograd.Function):
    """A parameter for every sample; the gradients of these go to its `grad_sample`, and it gets none itself."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, batch_size: int, factor: int) -> Tensor:
        ctx.parameter, ctx.factor = parameter, factor
        return parameter.expand(batch_size, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        found = grad_outputs[0] * ctx.factor
        before = getattr(ctx.parameter, "grad_sample", None)
        ctx.parameter.grad_sample = found if before is None else before + found
        return None, None, None


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """The module as a function, after whose backward pass parameters have `grad_sample`, of (batch size, *their shape).

    batch_size: if the arguments don't tell it. loss_reduction: "mean" if the loss is a mean over the batch, whose gradients are
    then those of the samples' own losses. batch_first: whether samples are the first dimension of arguments and results, else
    the second. RuntimeError for other arguments, for sizes that differ, for a parameter that has gradients of a call before,
    and for modules whose samples depend on each other (batch norms).
    """

    def need(holds: bool, words: str) -> None:
        if not holds:
            raise RuntimeError(words)

    need(isinstance(module, Module), f"Module passed must be nn.Module, got {type(module).__name__}")
    need(
        batch_size is None or isinstance(batch_size, int),
        f"Batch size passed must be None or an integer, got {type(batch_size).__name__}",
    )
    need(batch_size is None or batch_size > 0, f"Batch size must be positive, got {batch_size}")
    need(loss_reduction in ("sum", "mean"), f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    for parameter in module.parameters():
        need(
            getattr(parameter, "grad_sample", None) is None,
            "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without clearing "
            f"gradients. Please clear out the grad_sample parameter of {parameter} or post an issue to pytorch/pytorch to "
            "prioritize correct behavior",
        )
    place = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for part in module.modules():
            need(
                not isinstance(part, torch.nn.modules.batchnorm._BatchNorm) or not part.training,
                "Expanded Weights encountered but cannot handle function batch_norm",
            )
        flat, spec = torch.utils._pytree.tree_flatten((args, kwargs))
        tensors = [each for each in flat if isinstance(each, Tensor)]
        for each in tensors:
            need(
                each.dim() > place,
                "Input does not have a batch dimension. Expanded Weights expected input of at least rank "
                f"{place + 1}, got of rank {each.dim()}",
            )
        need(
            batch_size is not None or bool(tensors),
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights cannot "
            "compute the batch size from the inputs. Please specify it explicitly",
        )
        size = tensors[0].size(place) if batch_size is None else batch_size
        for each in tensors:
            need(
                each.size(place) == size,
                "Expected ExpandedWeights to have batch size matching input but got input batch size "
                f"of {each.size(place)} with ExpandedWeight of batch size {size}",
            )
        factor = size if loss_reduction == "mean" else 1
        parameters = {name: _Expanded.apply(each, size, factor) for name, each in module.named_parameters() if each.requires_grad}

        def one(own: dict[str, Tensor], *samples: Any) -> Any:
            given = iter(samples)
            leaves = [next(given).unsqueeze(place) if isinstance(each, Tensor) else each for each in flat]
            positional, keywords = torch.utils._pytree.tree_unflatten(leaves, spec)
            result = torch.func.functional_call(module, own, positional, keywords)
            return torch.utils._pytree.tree_map_only(Tensor, lambda each: each.squeeze(place), result)

        dims = (0, *(place for _ in tensors))
        return torch.func.vmap(one, dims, place, randomness="different")(parameters, *tensors)

    return wrapper
