"""`flambeau.autograd.gradcheck`: derivative rules against finite differences, forward mode and batches of gradients too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.autograd import batched
from flambeau.core import create, engine
from flambeau.core.gradcheck import (
    GradcheckError,
    agree,
    as_reals,
    gradcheck,
    gradgradcheck,
    more_checks,
    numerical_jacobian,
    outputs_of,
    shown,
    values_of,
)
from flambeau.core.tensor import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


def _tracked(inputs: tuple[Any, ...]) -> list[int]:
    return [n for n, x in enumerate(inputs) if isinstance(x, Tensor) and x._node is not None]


def _units(tensor: Any) -> list[Any]:
    """The directions in which the real numbers of a tensor can move."""
    made = []
    array = np.zeros(tuple(tensor._layout.shape), values_of(tensor).dtype)
    for index in np.ndindex(*array.shape):
        for unit in (1, 1j) if np.iscomplexobj(array) else (1,):
            array[index] = unit
            made.append(create.copy_array(array))
        array[index] = 0
    return made


def _leaf(x: Any) -> Any:
    """An alias that wants a gradient if x does, for functions that compute one."""
    made = x.detach()
    made.requires_grad = x.requires_grad
    return made


def _moved(
    func: Callable[..., Any], inputs: tuple[Any, ...], position: int, tangent: Any, chosen: list[int]
) -> list[Any]:
    """The tangents of the outputs at `chosen` when one input moves along `tangent`."""
    from flambeau.transform import tangents  # noqa: F401
    from flambeau.transform.dual import DualLevel

    with DualLevel() as level:
        given = [_leaf(x) if isinstance(x, Tensor) else x for x in inputs]
        given[position] = level.wrap(given[position], tangent)
        result = func(*given)
        several = result if isinstance(result, (tuple, list)) else (result,)
        return [
            level.tangent(several[n]) if level.has(several[n]) else several[n].new_zeros(several[n].shape)
            for n in chosen
        ]


def _differentiable(func: Callable[..., Any], inputs: tuple[Any, ...]) -> list[int]:
    result = func(*inputs)
    several = result if isinstance(result, (tuple, list)) else (result,)
    return [n for n, y in enumerate(several) if isinstance(y, Tensor) and y._node is not None]


def _forward(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    """check_forward_ad: columns of the Jacobian by forward mode against finite differences."""
    chosen = _differentiable(func, inputs)
    for position in _tracked(inputs):
        numerical = numerical_jacobian(func, inputs, inputs[position], eps)
        rows = [
            [as_reals(values_of(t)) for t in _moved(func, inputs, position, unit, chosen)]
            for unit in _units(inputs[position])
        ]
        for number in range(len(chosen)):
            ours = np.stack([row[number] for row in rows]) if rows else numerical[number]
            if not agree(ours, numerical[number], rtol, atol):
                raise GradcheckError(
                    f"Jacobian computed with forward mode mismatch for output {number} with respect to input "
                    f"{position},\nnumerical:{shown(numerical[number])}\nanalytical:{shown(ours)}\n"
                )


def _batched_gradients(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    """check_batched_grad: gradients of two weights at once against one after the other."""
    tracked = [inputs[n] for n in _tracked(inputs)]
    source = np.random.default_rng(0)
    for number, output in enumerate(outputs_of(func(*inputs))):
        values = source.standard_normal((2, *output._layout.shape)).astype(values_of(output).dtype)
        weights = create.copy_array(values)
        together = batched.grad(output, tracked, weights, True, False, True, False)
        apart = [engine.grad(output, tracked, weights[n], retain_graph=True, allow_unused=True) for n in range(2)]
        for position, gradient in enumerate(together):
            for n in range(2):
                single = apart[n][position]
                if (gradient is None) != (single is None) or (
                    single is not None and not np.allclose(values_of(gradient[n]), values_of(single), rtol, atol)
                ):
                    raise GradcheckError(
                        f"gradcheck or gradgradcheck failed while testing batched gradient computation: output {number}, "
                        f"input {position}"
                    )


def _batched_tangents(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float) -> None:
    """check_batched_forward_grad: two tangents at once against one after the other."""
    chosen = _differentiable(func, inputs)
    source = np.random.default_rng(0)
    for position in _tracked(inputs):
        x = inputs[position]
        tangents = create.copy_array(source.standard_normal((2, *x._layout.shape)).astype(values_of(x).dtype))

        def column(tangent: Any, position: int = position) -> list[Any]:
            return _moved(func, inputs, position, tangent, chosen)

        together = batched.over_rows(column, 2, [tangents])
        for n in range(2):
            for number, single in enumerate(column(tangents[n])):
                if not np.allclose(values_of(together[number][n]), values_of(single), rtol, atol):
                    raise GradcheckError(
                        "gradcheck or gradgradcheck failed while testing batched forward gradient computation: output "
                        f"{number}, input {position}"
                    )


more_checks[:] = [_forward, _batched_gradients, _batched_tangents]
