"""Cross-layer equalization: weights that are next to each other are scaled so that their channels have like ranges.

The scales of one undo those of the other where nothing but a ReLU or the like is in between (arXiv:1906.04721). Stands on nn.
"""

from __future__ import annotations

import copy
from itertools import chain, pairwise
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import intrinsic as nni

__all__ = [
    "channel_range",
    "converged",
    "cross_layer_equalization",
    "equalize",
    "expand_groups_in_paired_modules_list",
    "get_module_bias",
    "get_module_weight",
    "get_name_by_module",
    "has_bias",
    "max_over_ndim",
    "min_over_ndim",
    "process_paired_modules_list_to_name",
    "set_module_bias",
    "set_module_weight",
]

_supported_types = {nn.Conv2d, nn.Linear, nn.Conv1d}
_supported_intrinsic_types = {nni.ConvReLU2d, nni.LinearReLU, nni.ConvReLU1d}
_all_supported_types = _supported_types | _supported_intrinsic_types


def _weighted(module: Any) -> Any:
    """The module with the weight: itself, or the first of a fused one."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module: Any, weight: Any) -> None:
    """Exchange the weight."""
    _weighted(module).weight = nn.Parameter(weight)


def set_module_bias(module: Any, bias: Any) -> None:
    """Exchange the bias."""
    _weighted(module).bias = nn.Parameter(bias)


def has_bias(module: Any) -> bool:
    """Whether there is a bias."""
    return _weighted(module).bias is not None


def get_module_weight(module: Any) -> Any:
    """The weight."""
    return _weighted(module).weight


def get_module_bias(module: Any) -> Any:
    """The bias, or None."""
    return _weighted(module).bias


def max_over_ndim(input: Any, axis_list: list[int], keepdim: bool = False) -> Any:
    """The greatest value over several dimensions."""
    return input.amax(axis_list, keepdim) if axis_list else input


def min_over_ndim(input: Any, axis_list: list[int], keepdim: bool = False) -> Any:
    """The least value over several dimensions."""
    return input.amin(axis_list, keepdim) if axis_list else input


def channel_range(input: Any, axis: int = 0) -> Any:
    """The greatest less the least value for each index of a dimension."""
    others = [each for each in range(input.ndim) if each != axis]
    return max_over_ndim(input, others) - min_over_ndim(input, others)


def get_name_by_module(model: Any, module: Any) -> str:
    """The name of a module in a model. ValueError if it isn't in it."""
    for name, each in model.named_modules():
        if each is module:
            return str(name)
    raise ValueError("module is not in the model")


def cross_layer_equalization(module1: Any, module2: Any, output_axis: int = 0, input_axis: int = 1) -> None:
    """Scale the outputs of one module and the inputs of the next, so that their weights' ranges are the same.

    ValueError for other classes of modules, TypeError if the numbers of channels differ.
    """
    if type(module1) not in _all_supported_types or type(module2) not in _all_supported_types:
        raise ValueError("module type not supported:", type(module1), " ", type(module2))
    weight1, weight2 = get_module_weight(module1), get_module_weight(module2)
    if weight1.size(output_axis) != weight2.size(input_axis):
        raise TypeError("Number of output channels of first arg do not match         number input channels of second arg")
    scale = torch.sqrt(channel_range(weight1, output_axis) / (channel_range(weight2, input_axis) + 1e-9))
    inverse = torch.reciprocal(scale)

    def along(axis: int, values: Any, weight: Any) -> Any:
        shape = [1] * weight.ndim
        shape[axis] = -1
        return values.reshape(shape)

    set_module_weight(module1, weight1 * along(output_axis, inverse, weight1))
    if has_bias(module1):
        set_module_bias(module1, get_module_bias(module1) * inverse)
    set_module_weight(module2, weight2 * along(input_axis, scale, weight2))


def process_paired_modules_list_to_name(model: Any, paired_modules_list: list[list[Any]]) -> list[list[str]]:
    """Names in the place of modules, in place. TypeError for what is neither."""
    for group in paired_modules_list:
        for i, item in enumerate(group):
            if isinstance(item, nn.Module):
                group[i] = get_name_by_module(model, item)
            elif not isinstance(item, str):
                raise TypeError("item must be a nn.Module or a string")
    return paired_modules_list


def expand_groups_in_paired_modules_list(paired_modules_list: list[list[Any]]) -> list[list[Any]]:
    """Pairs of neighbours in the place of longer groups. ValueError for a group of one."""
    if any(len(group) == 1 for group in paired_modules_list):
        raise ValueError("Group must have at least two modules")
    return [list(pair) for group in paired_modules_list for pair in pairwise(group)]


def equalize(model: Any, paired_modules_list: list[list[Any]], threshold: float = 1e-4, inplace: bool = True) -> Any:
    """Equalize pairs of modules over and over, until their weights change by less than the threshold.

    paired_modules_list: groups of modules, or of their names, that are next to each other in the model.
    """
    groups = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(groups)
    names = set(chain.from_iterable(pairs))
    modules = {name: module for name, module in model.named_modules() if name in names}
    before: dict[str, Any] = dict.fromkeys(modules)
    while not converged(modules, before, threshold):
        for pair in pairs:
            before.update({name: copy.deepcopy(modules[name]) for name in pair})
            cross_layer_equalization(*(modules[name] for name in pair))
    return model


def converged(curr_modules: dict[str, Any], prev_modules: dict[str, Any], threshold: float = 1e-4) -> bool:
    """Whether the norms of the weights' differences add up to less than the threshold. ValueError for other names."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError("The keys to the given mappings must have the same set of names of modules")
    if None in prev_modules.values():
        return False
    total = torch.tensor(0.0)
    for name, module in curr_modules.items():
        total += torch.norm(get_module_weight(module).sub(get_module_weight(prev_modules[name])))
    return bool(total < threshold)
