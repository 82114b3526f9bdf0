"""torch._subclasses.fake_utils: operators compared with their fakes, call by call. Stands on fake_tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    MetadataMismatchError,
)
from flambeau.utils import _pytree as pytree
from flambeau.utils._python_dispatch import TorchDispatchMode

__all__ = ["CrossRefFakeMode", "compare_results", "outputs_alias_inputs", "outputs_are_inputs", "output_alias_each_other"]


def _memories(values: Any) -> list[int]:
    return [id(x._storage) for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]


def outputs_alias_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether a result shares memory with an argument."""
    return not set(_memories(outputs)).isdisjoint(_memories(inputs))


def outputs_are_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether a result is an argument."""
    given = {id(x) for x in pytree.tree_leaves(inputs) if isinstance(x, torch.Tensor)}
    return any(id(x) in given for x in pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor))


def output_alias_each_other(outputs: Any) -> bool:
    """Whether two results share memory."""
    memories = _memories(outputs)
    return len(set(memories)) < len(memories)


def compare_results(func: Any, fake: Any, real: Any, *, check_strides: bool = True) -> None:
    """Raise MetadataMismatchError unless the tensors among the results of an operator on fake tensors are like the real ones;
    AssertionError if there are not as many.
    """
    start = f"When comparing the output of {func} on FakeTensor and concrete Tensors, found "
    made, own = pytree.tree_leaves(fake), pytree.tree_leaves(real)
    if len(made) != len(own):
        raise AssertionError(f"{start}mismatch in number of returns {len(made)} != {len(own)}")
    for x, y in zip(made, own):
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            difference = _difference(y, x, check_strides)
            if difference:
                raise MetadataMismatchError(f"{start}mismatched tensor metadata: {difference}")


def _difference(real: torch.Tensor, fake: torch.Tensor, check_strides: bool) -> str:
    """What is not the same of two tensors, their values apart, in PyTorch's words; "" for nothing."""
    for what in ("shape", "dtype", "device"):
        if getattr(real, what) != getattr(fake, what):
            return f"{what.title()}s {getattr(real, what)} and {getattr(fake, what)} are not equal!"
    if not check_strides or not real.numel():
        return ""
    for d, (n, one, other) in enumerate(zip(real.shape, real.stride(), fake.stride())):
        if one != other and n > 1:
            return f"Stride mismatch! Strides are {real.stride()} and {fake.stride()} (mismatched at {d})!"
    return " mismatched storage offset" if real.storage_offset() != fake.storage_offset() else ""


class CrossRefFakeMode(TorchDispatchMode):
    """While it is on, every operator is called on fake tensors too, and what differs in shape, dtype, device or strides, or in
    who shares memory with whom, raises MetadataMismatchError.

    ignore_op_fn(overload): whether one is left out; check_strides, check_aliasing: what is compared besides.
    """

    def __init__(
        self,
        ignore_op_fn: Callable[[Any], bool] | None = None,
        *,
        check_strides: bool = True,
        check_aliasing: bool = True,
        only_check_ops_with_meta: bool = True,
    ):
        super().__init__()
        self.ignore_op_fn = ignore_op_fn or (lambda func: False)
        self.check_strides, self.check_aliasing = check_strides, check_aliasing
        self.only_check_ops_with_meta = only_check_ops_with_meta

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = None
        if not self.ignore_op_fn(func):
            mode = FakeTensorMode()
            given = pytree.tree_map(lambda x: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x, (args, kwargs))
            try:
                with mode:
                    made = func(*given[0], **given[1])
            except (DataDependentOutputException, DynamicOutputShapeException):
                pass
            else:
                aliasing = outputs_alias_inputs(made, given)
        real = func(*args, **kwargs)
        if made is not None:
            compare_results(func, made, real, check_strides=self.check_strides)
            if self.check_aliasing and aliasing != outputs_alias_inputs(real, (args, kwargs)):
                raise MetadataMismatchError(
                    f"When comparing the output of {func} on FakeTensor and concrete Tensors, found that "
                    "results share memory with arguments in one of them only"
                )
        return real
