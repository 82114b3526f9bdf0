"""Collectives as operators, `torch.ops._c10d_functional.all_reduce(tensor, "sum", group)`, and the names they are counted by.

Those of `_c10d_functional` are answered by `copying_collectives`, which loads this. `c10d_functional`, `c10d` and `_dtensor`
are the namespaces in which collectives are counted (`tensor.debug`); their operators are names, which nothing answers. Stands on
torch.library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch

__all__ = ["define"]

#: Arguments before the group.
_ARGUMENTS = {
    "all_reduce": "Tensor input, str reduce_op",
    "all_reduce_coalesced": "Tensor[] inputs, str reduce_op",
    "all_gather_into_tensor": "Tensor input, int group_size",
    "all_gather_into_tensor_coalesced": "Tensor[] inputs, int group_size",
    "reduce_scatter_tensor": "Tensor input, str reduce_op, int group_size",
    "reduce_scatter_tensor_coalesced": "Tensor[] inputs, str reduce_op, int group_size",
    "all_to_all_single": "Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes",
    "broadcast": "Tensor input, int src",
}
_NAMES = {
    "c10d_functional": [*_ARGUMENTS, "wait_tensor"],
    "c10d": [
        "allreduce_", "reduce_", "reduce_scatter_", "_reduce_scatter_base_", "broadcast_", "allgather_", "_allgather_base_",
        "gather_", "scatter_", "alltoall_base_", "alltoall_",
    ],
    "_dtensor": ["shard_dim_alltoall"],
}  # fmt: skip
_libraries: list[Any] = []  # operators live as long as their libraries


def define(answers: dict[str, Callable[..., Any]]) -> None:
    """Defines the operators, once. `answers`: by name, what is called with an operator's arguments."""
    if _libraries:
        return
    functional = torch.library.Library("_c10d_functional", "DEF")
    for name, arguments in _ARGUMENTS.items():
        many = "[]" if arguments.startswith("Tensor[]") else ""
        functional.define(f"{name}({arguments}, Any group_name) -> Tensor{many}")
    functional.define("wait_tensor(Tensor tensor) -> Tensor")
    functional.define("_wrap_tensor_autograd(Tensor input) -> Tensor")
    for name, answer in answers.items():
        functional.impl(name, answer, "CompositeExplicitAutograd")
    _libraries.append(functional)
    for namespace, names in _NAMES.items():
        library = torch.library.Library(namespace, "DEF")
        for name in names:
            library.define(f"{name}(Any arguments) -> Any")
        _libraries.append(library)


def wrap_by(wrapper: Callable[..., Any]) -> None:
    """Say what makes an AsyncCollectiveTensor, with its gradient, of a tensor."""
    _libraries[0].impl("_wrap_tensor_autograd", wrapper, "CompositeImplicitAutograd")
