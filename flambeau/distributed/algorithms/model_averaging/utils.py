"""torch.distributed.algorithms.model_averaging.utils: the mean of parameters over processes.

Stands on the collectives; averagers use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau as torch
from flambeau.distributed.collectives import all_reduce
from flambeau.distributed.registry import get_default_group, outside

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Any], process_group: Any) -> None:
    """Make every parameter the mean over a group (None: the default group); processes outside of the group keep theirs."""
    group = process_group if process_group is not None else get_default_group()
    if outside(group):
        return
    tensors = [each.detach() for each in params]
    with torch.no_grad():
        for dtype in dict.fromkeys(each.dtype for each in tensors):
            same = [each for each in tensors if each.dtype == dtype]
            flat = torch.cat([each.reshape(-1) for each in same]) / group.size()
            all_reduce(flat, group=group)
            for each, part in zip(same, flat.split([each.numel() for each in same]), strict=True):
                each.copy_(part.view(each.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """Of parameters, or of an optimizer's groups, those that have a gradient. Raises NotImplementedError for anything else."""
    found: list[Any] = []
    for each in params:
        if isinstance(each, torch.nn.Parameter):
            found += [each] if each.grad is not None else []
        elif isinstance(each, dict):
            found += [parameter for parameter in each["params"] if parameter.grad is not None]
        else:
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """average_parameters of those that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)
