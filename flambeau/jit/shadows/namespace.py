# mypy: ignore-errors
"""Functions of torch for programs that are no operators. Compiled in the place of those of the same name."""

from typing import Optional

import flambeau as torch
from flambeau import Tensor


def is_tracing() -> bool:
    if torch.jit.is_scripting():
        return False
    return True


def is_compiling() -> bool:
    return False


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None
) -> Tensor:
    if return_inverse or return_counts:
        raise NotImplementedError("torch.unique gives the values only in a program; use torch._unique2 for inverse and counts")
    if dim is None:
        return torch.ops.aten._unique2(input, sorted, False, False)[0]
    return torch.ops.aten.unique_dim(input, dim, sorted, False, False)[0]


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: Optional[int] = None
) -> Tensor:
    if return_inverse or return_counts:
        raise NotImplementedError("torch.unique_consecutive gives the values only in a program; use torch.ops.aten")
    return torch.ops.aten.unique_consecutive(input, False, False, dim)[0]
