"""Several vector-Jacobian products at once.

flambeau.transform is imported when it is needed: programs that only train don't pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd.gradient_edge import GradientEdge
from flambeau.core.tensor.tensor import Tensor

__all__ = ["grad", "over_rows"]


def _tuple(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, (Tensor, GradientEdge)) else tuple(given)


def over_rows(function: Callable[..., Any], size: int, rows: Sequence[Any]) -> list[Any]:
    """The results (tensors or None) of a function of one row of each tensor, for all rows at once, stacked."""
    from flambeau import transform  # noqa: F401
    from flambeau.transform.batched import Batch

    with Batch(size, plain=True) as batch:
        results = function(*[None if row is None else batch.wrap(row) for row in rows])
        return [None if x is None else batch.lift(x) for x in results]


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Any, ...]:
    """autograd.grad for each row of the grad_outputs."""
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    weights = (None,) * len(outputs) if grad_outputs is None else _tuple(grad_outputs)
    for position, (y, w) in enumerate(zip(outputs, weights, strict=True)):
        if w is not None and w.shape[1:] != y.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                "batch dimension. The sizes of "
                f"the remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{position}] has a shape of {w.shape} and output[{position}] has a shape of "
                f"{y.shape}. If you only want some "
                "tensors in `grad_output` to be considered batched, consider using vmap."
            )
    size = next(w.shape[0] for w in weights if w is not None)

    def row(*chosen: Any) -> Sequence[Any]:
        from flambeau.transform.pullback import checked, gradients

        made = gradients(
            outputs,
            inputs,
            [w if w is not None else y.new_ones(y.shape) for w, y in zip(chosen, outputs, strict=True)],
            create_graph,
        )
        return checked(made, inputs, allow_unused, materialize_grads)

    return tuple(over_rows(row, size, weights))
