"""torch.distributed.optim._apply_optimizer_in_backward: each parameter's step as soon as its gradient is there.

A parameter has optimizers of its own (`_in_backward_optimizers`), which hooks on its gradient run; gradients need not live until
the backward pass ends. In DistributedDataParallel the reducer runs them when a bucket has been reduced. Stands on nn.parallel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.nn.parallel.optimizers_in_backward import step_in_backward

__all__: list[str] = []


def _apply_optimizer_in_backward(
    optimizer_class: type, params: Iterable[Any], optimizer_kwargs: dict[str, Any], register_hook: bool = True
) -> None:
    """Have backward() update each parameter by an optimizer_class(...) of its own, and drop its gradient.

    A second call adds a further optimizer. register_hook: False: something else is to run them.
    """
    for parameter in params:
        if not hasattr(parameter, "_in_backward_optimizers"):
            parameter._in_backward_optimizers = []
            parameter._optimizer_classes = []
            parameter._optimizer_kwargs = []
        optimizer: Any = optimizer_class([parameter], **optimizer_kwargs)
        parameter._in_backward_optimizers.append(optimizer)
        parameter._optimizer_classes.append(optimizer_class)
        parameter._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook and not hasattr(parameter, "_in_backward_hook"):
            parameter._in_backward_hook = parameter.register_post_accumulate_grad_hook(step_in_backward)


def _get_in_backward_optimizers(module: Any) -> list[Any]:
    """The optimizers that _apply_optimizer_in_backward gave to a module's parameters."""
    return [each for parameter in module.parameters() for each in getattr(parameter, "_in_backward_optimizers", ())]
