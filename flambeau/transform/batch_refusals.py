"""What can't be batched: results whose shapes depend on values, numbers and branches, memory; gradients by the old entrances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd import mutation_guard
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor import indexing
from flambeau.ops.aten import internals
from flambeau.ops.elementwise import comparison
from flambeau.ops.indexing import mask as indexing_mask
from flambeau.ops.nn import embedding
from flambeau.ops.sorting import unique
from flambeau.transform.batch_rows import bound, call
from flambeau.transform.batched import DYNAMIC, Batch, rule
from flambeau.transform.levels import invoke, not_for_all


@rule(indexing_mask._nonzero, indexing_mask.argwhere, unique.unique, unique.unique_consecutive, unique._of_sorted)
def dynamic(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: the results of the examples may differ in shape."""
    name = {"argwhere": "nonzero", "unique": "_unique2"}.get(function.__name__, function.__name__)
    raise RuntimeError(DYNAMIC.format(name))


@rule(indexing_mask.masked_select)
def masked_select(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The elements under a mask that is the same for all examples."""
    input, mask = [*args, *kwargs.values()][:2]
    if batch.has(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for "
            "each batch this would return a differently shaped Tensor. Please file an issue at "
            "https://github.com/pytorch/pytorch/issues if you need this feature."
        )
    shape = NAMESPACE["broadcast_shapes"](input._layout.shape, mask._layout.shape)
    return invoke(indexing.gathering(), (input.expand(shape), (mask.expand(shape),)))


_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try "
    "to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a "
    "bug report."
)
_BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, "
    "please file an issue at https://github.com/pytorch/pytorch/issues ."
)


@rule("item", "__float__", "__int__", "__index__", "__complex__", "_local_scalar_dense")
def item(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: a Python number is one, examples are many."""
    raise not_for_all(_ITEM)


@rule("__bool__", "is_nonzero", comparison._equal, comparison.allclose)
def branch(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: a branch goes one way, examples may go both."""
    raise not_for_all(_BRANCH)


@rule(internals._is_all_true, internals._is_any_true)
def for_all(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """One answer for all examples together, which a branch may depend on."""
    return invoke(function, (batch.lift(args[0]),))


@rule("tolist", "numpy", "__array__", "data_ptr", "untyped_storage", "storage", "__dlpack__")
def memory(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: an example has no memory of its own."""
    raise not_for_all("Cannot access data pointer of Tensor that doesn't have storage")


@rule("requires_grad_")
def requires_grad(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: gradients inside a transform are those of func.grad."""
    raise RuntimeError(mutation_guard.NO_REQUIRES_GRAD)


@rule("backward")
def backward(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: gradients inside a transform are those of func.grad."""
    raise RuntimeError(mutation_guard.NO_BACKWARD)


@rule(embedding.one_hot)
def one_hot(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Class numbers as vectors; how many classes there are can't depend on the example."""
    named = bound(function, args, kwargs)
    if named["num_classes"] < 0:
        raise not_for_all(_ITEM)
    return batch.wrap(call(function, named | {"input": named["input"].value}))
