"""`gradcheck` and `gradgradcheck`: derivative rules against finite differences.

Complex numbers count as pairs of real ones: the gradient of a real quantity with respect to x + iy is d/dx + i d/dy.
Stands on engine; the numbers are compared in NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import complex128, float64
from flambeau.base.naming import public_module
from flambeau.core import create, engine
from flambeau.core.modes import local
from flambeau.core.tensor import Tensor, empty_layout

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


#: check(func, inputs, eps, atol, rtol) for check_forward_ad, check_batched_grad, check_batched_forward_grad; they stand on the
#: transforms, further up, which put them here.
more_checks: list[Callable[..., None]] = []


class GradcheckError(RuntimeError):
    """The derivatives don't agree, or the check could not be made."""

    __module__ = public_module("autograd.gradcheck")


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True,
              fast_mode: bool = False, masked: bool | None = None) -> bool:
    """Whether the gradients of func(*inputs) by backward agree with central differences of step eps.

    inputs: tensors (float64 or complex128 where they require grad) and anything else. Agreement: within
    atol + rtol * |numerical|. On disagreement raises GradcheckError, or returns False if raise_exception is False.
    nondet_tol: how much two backward passes may differ. check_undefined_grad: also pass None for outputs.
    fast_mode and masked are accepted; the full Jacobian is compared either way, of a sparse input that of its values.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        if check_backward_ad:
            _check(func, given, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes)
        for wanted, check in zip((check_forward_ad, check_batched_grad, check_batched_forward_grad), more_checks, strict=True):
            if wanted:
                check(func, given, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float,
           check_undefined_grad: bool, check_grad_dtypes: bool) -> None:
    tracked = [(position, tensor) for position, tensor in enumerate(inputs)
               if isinstance(tensor, Tensor) and tensor._node is not None]
    if not tracked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have "
                         "requires_grad=True.")
    for position, tensor in tracked:
        if tensor._layout.dtype not in (float64, complex128):
            warnings.warn(f"Input #{position} requires gradient and is not a double precision floating point or complex. "
                          "This check will likely fail if all the inputs are not of double precision floating point or "
                          "complex. ", stacklevel=4)
        if any(stride == 0 and size > 1 for stride, size in zip(tensor._layout.strides, tensor._layout.shape,
                                                                strict=True)):
            raise RuntimeError(f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs "
                               "that are non-overlapping to be able to compute the numerical gradients correctly. You "
                               "should call .contiguous on the input before passing it to gradcheck.")
        tensor.retain_grad()
    outputs = outputs_of(func(*inputs))
    if not outputs:
        numerical = [numerical_jacobian(func, inputs, tensor, eps, differentiable_only=False) for _, tensor in tracked]
        if any(block.size and not np.allclose(block, 0, rtol, atol) for blocks in numerical for block in blocks):
            raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    numerical = [numerical_jacobian(func, inputs, tensor, eps) for _, tensor in tracked]
    for out_position, output in enumerate(outputs):
        analytical = _analytical(output, [tensor for _, tensor in tracked], nondet_tol, check_grad_dtypes)
        for number, (position, _) in enumerate(tracked):
            ours, theirs = analytical[number], numerical[number][out_position]
            if not agree(ours, theirs, rtol, atol):
                raise GradcheckError(f"Jacobian mismatch for output {out_position} with respect to input {position},\n"
                                     f"numerical:{shown(theirs)}\nanalytical:{shown(ours)}\n")
    if check_undefined_grad:
        _check_undefined(func, inputs)


def outputs_of(result: Any) -> list[Any]:
    """The differentiable outputs."""
    several = result if isinstance(result, (tuple, list)) else (result,)
    return [output for output in several if isinstance(output, Tensor) and output._node is not None]


def as_reals(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The numbers in one row, complex ones as two reals."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat


def memory_of(tensor: Any) -> Any:
    """The tensor whose elements are varied: of a sparse one its values."""
    return getattr(tensor, "_entries", tensor).detach()


def values_of(tensor: Any) -> np.ndarray[Any, Any]:
    return np.array(create.array_of(memory_of(tensor)))


def numerical_jacobian(func: Callable[..., Any], inputs: tuple[Any, ...], tensor: Any, eps: float,
               differentiable_only: bool = True) -> list[np.ndarray[Any, Any]]:
    """Per output a Jacobian (real elements of the input, real elements of the output) by central differences."""
    array = create.array_of(memory_of(tensor))
    indices = list(np.ndindex(*array.shape))
    steps = (eps, 1j * eps) if np.iscomplexobj(array) else (eps,)

    def evaluate() -> list[np.ndarray[Any, Any]]:
        result = func(*inputs)
        several = result if isinstance(result, (tuple, list)) else (result,)
        chosen = outputs_of(several) if differentiable_only else [
            output for output in several if isinstance(output, Tensor) and output._layout.dtype.category >= 2]
        return [as_reals(values_of(output)).astype(np.float64) for output in chosen]

    rows: list[list[np.ndarray[Any, Any]]] = []
    for index in indices:
        before = array[index]
        for step in steps:
            array[index] = before - step
            low = evaluate()
            array[index] = before + step
            high = evaluate()
            array[index] = before
            rows.append([(after - prior) / (2 * eps) for prior, after in zip(low, high, strict=True)])
    if not rows:
        return [np.zeros((0, output.size)) for output in evaluate()]
    return [np.stack([row[number] for row in rows]) for number in range(len(rows[0]))]


def _analytical(output: Any, inputs: list[Any], nondet_tol: float,
                check_grad_dtypes: bool) -> list[np.ndarray[Any, Any]]:
    """Per input the same Jacobian, by one backward pass per real element of the output."""
    weight = empty_layout(output._layout.dense())
    weight.zero_()
    array = create.array_of(weight)
    units = (1, 1j) if np.iscomplexobj(array) else (1,)
    columns: list[list[np.ndarray[Any, Any]]] = [[] for _ in inputs]
    for index in np.ndindex(*array.shape):
        for unit in units:
            array[index] = unit
            passes = [engine.grad(output, inputs, weight.clone(), retain_graph=True, allow_unused=True)
                      for _ in range(2)]
            array[index] = 0
            for number, (first, second) in enumerate(zip(*passes, strict=True)):
                tensor = inputs[number]
                if first is None:
                    first = second = _zeros(memory_of(tensor))
                elif first._layout.shape != tensor._layout.shape:
                    raise GradcheckError("Analytical gradient has incorrect size")
                elif hasattr(tensor, "_entries"):
                    first, second = tensor.aligned(first), tensor.aligned(second)
                if check_grad_dtypes and first._layout.dtype is not tensor._layout.dtype:
                    raise GradcheckError("Gradient has dtype mismatch")
                once, again = as_reals(values_of(first)), as_reals(values_of(second))
                if not np.allclose(once, again, rtol=0, atol=nondet_tol, equal_nan=True):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                        f"times gives different values, although analytical gradient matches numerical gradient. The "
                        f"tolerance for nondeterminism was {nondet_tol}.")
                columns[number].append(once)
    return [np.stack(block, axis=1) if block else np.zeros((as_reals(values_of(tensor)).size, 0))
            for block, tensor in zip(columns, inputs, strict=True)]


def _zeros(tensor: Any) -> Any:
    made = empty_layout(tensor._layout.dense())
    made.zero_()
    return made


def agree(analytical: np.ndarray[Any, Any], numerical: np.ndarray[Any, Any], rtol: float, atol: float) -> bool:
    return analytical.shape == numerical.shape and np.allclose(analytical, numerical, rtol, atol, equal_nan=False)


def shown(array: np.ndarray[Any, Any]) -> str:
    return np.array2string(array, precision=4)


def _check_undefined(func: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    """A rule must give None or zeros when no gradient arrives."""
    outputs = outputs_of(func(*inputs))
    nodes = {output._node for output in outputs}
    for node in nodes:
        try:
            before, local.grad = local.grad, False
            results = node.apply((None,) * node.output_count)
        except (TypeError, AttributeError) as error:
            raise GradcheckError("Expected backward function to handle undefined output grads. Please look at 'Notes "
                                 "about undefined output gradients' in 'tools/autograd/derivatives.yaml'\n\n"
                                 f"{error}") from error
        finally:
            local.grad = before
        for result in results:
            if result is not None and np.any(values_of(result)):
                raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are "
                                     "undefined or zero. Please look at 'Notes about undefined output gradients' in "
                                     "'tools/autograd/derivatives.yaml'")


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
                  atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
                  raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                  check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False) -> bool:
    """Whether the second derivatives of func agree with central differences of its first ones.

    grad_outputs: weights of the outputs, which are differentiated with respect to as well; random by default.
    The other arguments are gradcheck's.
    """
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    tracked = [position for position, tensor in enumerate(given)
               if isinstance(tensor, Tensor) and tensor._node is not None]
    if grad_outputs is None:
        weights = tuple(_random_like(output, gen_non_contig_grad_outputs) for output in outputs_of(func(*given)))
    else:
        weights = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)

    def first_derivatives(*arguments: Any) -> Any:
        own, weighting = list(arguments[:len(given)]), arguments[len(given):]
        for position in tracked:
            if own[position]._node is None:
                own[position] = own[position].detach().requires_grad_()
        outputs = outputs_of(func(*own))
        gradients: Sequence[Any] = engine.grad(outputs, [own[position] for position in tracked], weighting,
                                               create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in gradients if gradient is not None)

    return gradcheck(first_derivatives, (*given, *weights), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
                     fast_mode=fast_mode, masked=masked)


def _random_like(output: Any, spread: bool) -> Any:
    """A random weight of the output's shape and dtype that requires grad; every second element of memory if spread."""
    layout = output._layout
    source = np.random.default_rng(0)
    values = source.standard_normal((*layout.shape, 2) if spread else layout.shape)
    if layout.dtype.is_complex:
        values = values + 1j * source.standard_normal(values.shape)
    made = create.copy_array(np.asarray(values, dtype=layout.dtype.numpy))
    if spread:
        made = made.select(-1, 0)
    return made.requires_grad_()
