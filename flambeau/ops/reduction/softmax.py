"""softmax, log_softmax and softmin: fused kernels over rows, forward and backward.

A row is read from memory once: its maximum, the sum of exponentials and the results are passes over a row in cache.
Stands on core.operator.row_program; used by nn.functional, ops.nn.cross_entropy and attention.
"""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import asked_for
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import register_cache
from flambeau.base.naming import named
from flambeau.core.operator.define import operator
from flambeau.core.operator.out_rules import OUT_ONLY, Out, exact
from flambeau.core.operator.row_program import FULL, Rows
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, folded, stored
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.reduction.extrema import shift
from flambeau.ops.reduction.sum import adding, one_dim


def _softmax_stages(elements: tuple, numbers: tuple, log: bool, result: DType) -> tuple:
    x = cast(elements[0], compute_dtype(result))
    shifted = x - folded("largest", x.dtype)
    total = folded("total", x.dtype)
    largest = Loop((shift("largest", x),))
    if not log and compute_dtype(result) is result:  # the exponentials wait in the output for their sum
        e = s.exp_normal(shifted)
        return largest, Loop((adding("total", e),), ((0, e),)), Loop((), ((0, stored(0, result) * (1 / total)),))
    out = shifted - s.log(total) if log else s.exp_normal(shifted) * (1 / total)
    return largest, Loop((adding("total", s.exp_normal(shifted)),)), Loop((), ((0, out),))


_SOFTMAX = Rows(
    "softmax", _softmax_stages, lambda dtypes, log, result: [(result, FULL)], kernel="softmax_kernel_impl", converts=True
)


def _gradient_stages(elements: tuple, numbers: tuple, log: bool, result: DType) -> tuple:
    out, g = elements
    target = compute_dtype(result)
    if log:
        return Loop((adding("total", g),)), Loop((), ((0, cast(g - s.exp_normal(out) * folded("total", g.dtype), target)),))
    return Loop((adding("total", g * out),)), Loop((), ((0, cast(out * (g - folded("total", g.dtype)), target)),))


_GRADIENT = Rows("softmax_backward", _gradient_stages, lambda dtypes, log, result: [(result, FULL)])
_plans: dict[Any, Any] = register_cache({})
_gradient_plans: dict[Any, Any] = register_cache({})


def _specialize(name: str, input: Tensor, dim: int, dtype: DType | None) -> Any:
    dtype = asked_for(dtype)
    layout = input._layout
    result = dtype or layout.dtype
    d = one_dim(name, dim, layout.ndim)
    if not layout.numel:
        empty = layout.dense().with_dtype(result)
        return lambda out, input: empty_layout(empty)
    if not result.is_floating_point:
        last = dim in (-1, layout.ndim - 1) or not layout.ndim
        kernel = f"{name}_lastdim_kernel_impl" if last else f"{name}_kernel_impl"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{result.scalar_name}'")
    launch = _SOFTMAX.launcher((input,), (d,) if layout.ndim else (), (), (name == "log_softmax", result))
    _plans[layout, dim, dtype, name] = launch
    return launch


def _softmax(name: str, input: Tensor, dim: int, dtype: DType | None) -> Tensor:
    try:
        launch = _plans[input._layout, dim, dtype, name]
    except (KeyError, TypeError):
        launch = None
    if launch is None:
        launch = _specialize(name, input, dim, dtype)
    return launch(None, input)


@operator(out=Out(dtype=exact, graph=OUT_ONLY), real_gradients="_softmax")
def softmax(input: Tensor, dim: int, dtype=None) -> Tensor:
    """Exponentials along `dim`, scaled to sum to one; of the shape of `input`.

    `dtype` converts first. Raises NotImplementedError for integers, IndexError for a dimension out of range.
    """
    return _softmax("softmax", input, dim, dtype)


@operator(out=Out(dtype=exact, graph=OUT_ONLY), real_gradients="_log_softmax")
def log_softmax(input: Tensor, dim: int, dtype=None) -> Tensor:
    """The logarithm of softmax along `dim`, computed so that it neither overflows nor loses small probabilities."""
    return _softmax("log_softmax", input, dim, dtype)


@softmax.vjp
def _(g, out, layouts, dim):
    return softmax_backward(g, out, dim, layouts[0].dtype)


@log_softmax.vjp
def _(g, out, layouts, dim):
    return log_softmax_backward(g, out, dim, layouts[0].dtype)


def _run_gradient(grad: Tensor, out: Tensor, dim: int, log: bool, dtype: DType) -> Tensor:
    key = (grad._layout, out._layout, dim, log, dtype)
    launch = _gradient_plans.get(key)
    if launch is None:
        layout = out._layout
        dims = (geometry.wrap_dim(dim, layout.ndim),) if layout.ndim else ()
        launch = _gradient_plans[key] = _GRADIENT.launcher((out, grad), dims, (), (log, dtype))
    return launch(None, out, grad)


@operator(function=False, method=False, node="SoftmaxBackwardDataBackward0")
def softmax_backward(grad: Tensor, output: Tensor, dim, dtype):
    """The gradient of softmax's input, as a tensor of `dtype`, from that of `output`."""
    return _run_gradient(grad, output, dim, False, dtype)


@softmax_backward.vjp
def _(g, grad, output, dim, need):
    inner = (grad * output).sum(dim, True)
    return (
        softmax_backward(g, output, dim, grad._layout.dtype) if need["grad"] else None,
        g * (grad - inner) - grad * (g * output).sum(dim, True) if need["output"] else None,
    )


@operator(function=False, method=False, node="LogSoftmaxBackwardDataBackward0")
def log_softmax_backward(grad: Tensor, output: Tensor, dim, dtype):
    """The gradient of log_softmax's input, as a tensor of `dtype`, from that of `output`."""
    return _run_gradient(grad, output, dim, True, dtype)


@log_softmax_backward.vjp
def _(g, grad, output, dim, need):
    likely = output.exp()
    return (
        g - (g * likely).sum(dim, True) if need["grad"] else None,
        -(g * likely) * grad.sum(dim, True) if need["output"] else None,
    )


def implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that softmax takes when none is given: an old convention, with PyTorch's warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


@named("softmax")
def functional_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """nn.functional.softmax: torch.softmax, with a deprecated default for `dim`."""
    if not hasattr(input, "softmax") and not hasattr(type(input), "__torch_function__"):
        raise AttributeError(f"'{type(input).__name__}' object has no attribute '{'dim' if dim is None else 'softmax'}'")
    return softmax(input, implicit_dim("softmax", input.dim(), _stacklevel) if dim is None else dim, dtype)


@named("log_softmax")
def functional_log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """nn.functional.log_softmax: torch.log_softmax, with a deprecated default for `dim`."""
    if not hasattr(input, "log_softmax") and not hasattr(type(input), "__torch_function__"):
        raise AttributeError(f"'{type(input).__name__}' object has no attribute '{'dim' if dim is None else 'log_softmax'}'")
    return log_softmax(input, implicit_dim("log_softmax", input.dim(), _stacklevel) if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """softmax of -input along `dim`."""
    return softmax(-input, implicit_dim("softmin", input.dim(), _stacklevel) if dim is None else dim, dtype)
