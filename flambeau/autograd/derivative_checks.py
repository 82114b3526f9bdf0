"""The checks that gradcheck is made of: one mode's derivatives against central differences, and what else rules must stand.

Stands on autograd.jacobians and autograd.batched; transforms are imported when they are needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flambeau as torch
from flambeau.autograd import batched, jacobians
from flambeau.autograd.jacobians import Case, Moving, as_tuple, dense, is_sparse, requires_grad
from flambeau.base.naming import public_module
from flambeau.core.autograd.node import MultiNode
from flambeau.core.tensor import tensor as tensors
from flambeau.core.tensor.tensor import Tensor

__all__ = ["GradcheckError", "Options", "run"]


class GradcheckError(RuntimeError):
    """The derivatives don't agree, or the check could not be made."""

    __module__ = public_module("autograd.gradcheck")


@dataclass(frozen=True)
class Options:
    """What gradcheck was told."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    dtypes: bool
    batched: bool
    batched_forward: bool
    forward: bool
    backward: bool
    fast: bool
    masked: bool


def run(func: Callable[..., Any], inputs: tuple[Any, ...], options: Options) -> None:
    """Make all checks. Raises GradcheckError, and others where there is nothing to check."""
    tracked = _tracked(inputs)
    outputs = as_tuple(func(*inputs))
    _check_outputs(outputs)
    chosen = [n for n, y in enumerate(outputs) if requires_grad(y)]
    if not chosen:
        _check_constant(func, inputs, tracked, options)
        return
    if options.backward:
        _backward(func, inputs, tracked, chosen, options)
    if options.forward:
        _forward(func, inputs, tracked, chosen, options)
        if options.undefined:
            _undefined_tangents(func, inputs, tracked, chosen)
        if options.batched_forward:
            _batched_tangents(func, inputs, tracked, chosen)
    if options.backward:
        if options.batched:
            for number in chosen:
                _batched_gradients(func, inputs, tracked, number)
        _scaled_by_weights(func, inputs, tracked, options)
        if options.undefined:
            _undefined_gradients(func, inputs, tracked)


def _tracked(inputs: tuple[Any, ...]) -> list[int]:
    """The positions of the inputs that require grad, which must be such that they can be moved."""
    tracked = [position for position, x in enumerate(inputs) if requires_grad(x)]
    if not tracked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for position in tracked:
        x = inputs[position]
        if x.dtype not in (torch.float64, torch.complex128):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. This check will "
                "likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if not is_sparse(x) and any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True)):
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on the "
                "input before passing it to gradcheck."
            )
    return tracked


def _check_outputs(outputs: tuple[Any, ...]) -> None:
    for y in outputs:
        if y.requires_grad and is_sparse(y):
            raise ValueError(
                "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of fn "
                "for gradcheck."
            )


def _check_constant(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], options: Options) -> None:
    """No output requires grad: they may not depend on the inputs."""
    case = Case(func, inputs, options.eps, options.masked)
    for position in tracked:
        for jacobian in case.numerical(position):
            if not _close(jacobian, torch.zeros_like(jacobian), options.rtol, options.eps):
                raise GradcheckError("Numerical gradient for function expected to be zero")


# ---------------------------------------------------------------- Jacobians


def _close(first: Any, second: Any, rtol: float, atol: float) -> bool:
    kind = torch.promote_types(first.dtype, second.dtype)
    return bool(torch.allclose(first.to(kind), second.to(kind), rtol, atol))


def _mismatch(analytical: Any, numerical: Any, output: int, position: int, words: str, forward: bool = False) -> str:
    computed = " computed with forward mode" if forward else ""
    return (
        f"{words}Jacobian{computed} mismatch for output {output} with respect to input "
        f"{position},\nnumerical:{numerical}\n"
        f"analytical:{analytical}\n"
    )


_SLOW = (
    "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode. See: "
    "https://github.com/pytorch/pytorch/issues/53876 for more background \nabout fast mode. Below, we recompute "
    "numerical and analytical jacobians in slow mode:\n\nNumerical:\n {}\nAnalytical:\n{}\n\nThe max per-element "
    "difference (slow mode) is: {}.\n"
)
_SAME = (
    "\nThe above quantities relating the numerical and analytical jacobians are computed \nin fast mode; in slow "
    "mode they agree.\n"
)


def _in_slow_mode(analytical: Any, numerical: Any, options: Options) -> str:
    """What the slow mode says where the fast one found a difference."""
    if _close(analytical, numerical, options.rtol, options.atol):
        return _SAME
    return _SLOW.format(numerical, analytical, (analytical - numerical).abs().max().item())


def _unit_vector(count: int, dtype: Any) -> Any:
    """Positive random numbers of Euclidean norm 1; for a complex dtype both parts are."""
    if dtype.is_complex:
        return torch.complex(_unit_vector(count, dtype.to_real()), _unit_vector(count, dtype.to_real()))
    made = torch.rand(count, dtype=dtype)
    return made / made.norm() if count else made


def _backward(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], chosen: list[int], options: Options) -> None:
    outputs = as_tuple(func(*inputs))
    complexes = [n for n in chosen if outputs[n].is_complex()]
    if not complexes:
        _backward_of(func, inputs, tracked, chosen, lambda y: y, "", options)
        return
    _backward_of(func, inputs, tracked, complexes, torch.imag, _OUTPUTS.format("imaginary"), options)
    real = lambda y: torch.real(y) if y.is_complex() else y
    _backward_of(func, inputs, tracked, chosen, real, _OUTPUTS.format("real"), options)


_OUTPUTS = "While considering the {} part of complex outputs only, "
_INPUTS = "While considering the {} part of complex inputs only, "


def _backward_of(
    func: Callable[..., Any],
    inputs: tuple[Any, ...],
    tracked: list[int],
    chosen: list[int],
    part: Callable[[Any], Any],
    words: str,
    options: Options,
) -> None:
    """One real part of the outputs."""
    case = Case(func, inputs, options.eps, options.masked, chosen, part)
    outputs = as_tuple(func(*inputs))
    wanted = [inputs[position] for position in tracked]
    looked_at = [part(outputs[n]) for n in chosen]
    if options.fast:
        _backward_fast(case, looked_at, wanted, tracked, words, options)
        return
    numerical = [case.numerical(position) for position in tracked]
    for number, y in enumerate(looked_at):
        analytical, again = (jacobians.by_backward(y, wanted, options.masked) for _ in range(2))
        _check_attributes(analytical, options)
        for position, ours, theirs in zip(tracked, analytical.columns, [n[number] for n in numerical], strict=True):
            if not _close(ours, theirs, options.rtol, options.atol):
                raise GradcheckError(_mismatch(ours, theirs, number, position, words))
        for ours, once_more in zip(analytical.columns, again.columns, strict=True):
            if not _close(ours, once_more, 0, options.nondet_tol):
                raise GradcheckError(_NOT_REENTRANT.format(options.nondet_tol))


def _check_attributes(analytical: jacobians.Analytical, options: Options) -> None:
    if not analytical.sizes_fit:
        raise GradcheckError("Analytical gradient has incorrect size")
    if options.dtypes and not analytical.dtypes_fit:
        raise GradcheckError("Gradient has dtype mismatch")


_NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
    "different values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}.\n\n"
    "If the operator is meant to be nondeterministic, pass `nondet_tol=<tol>`.\n"
)


def _backward_fast(case: Case, outputs: list[Any], wanted: list[Any], tracked: list[int], words: str, options: Options) -> None:
    """v' J u instead of J, for random u of the inputs and v of the outputs."""
    with torch.random.fork_rng(devices=[]):
        directions = [_unit_vector(x.numel(), x.dtype) for x in wanted]
        weights = [_unit_vector(y.numel(), y.dtype) for y in outputs]
    numerical = []
    for position, direction in zip(tracked, directions, strict=True):
        moving = Moving(case.inputs, position, case.masked)
        numerical.append(_along(case, moving, direction))
    for number, (y, weight) in enumerate(zip(outputs, weights, strict=True)):
        passes = [torch.autograd.grad(y, wanted, weight.reshape(y.shape), retain_graph=True, allow_unused=True) for _ in range(2)]
        for at, (position, x, direction) in enumerate(zip(tracked, wanted, directions, strict=True)):
            first, again = (_gradient(gradients[at], x, options) for gradients in passes)
            theirs = sum(unit * torch.dot(row, weight.to(row.dtype)) for unit, row in numerical[at][number])
            ours = sum(unit * _moved(first, direction, unit) for unit, _ in numerical[at][number])
            total = float(weight.sum()) * float((torch.view_as_real(direction) if direction.is_complex() else direction).sum())
            if not _close(torch.as_tensor(ours), torch.as_tensor(theirs), options.rtol, options.atol * max(total, 1e-30)):
                words_of = _mismatch(_shown(ours), _shown(theirs), number, position, words)
                slow = jacobians.by_backward(y, wanted, options.masked).columns[at], case.numerical(position)[number]
                raise GradcheckError(words_of + _in_slow_mode(*slow, options))
            if not _close(first, again, 0, options.nondet_tol):
                raise GradcheckError(_NOT_REENTRANT.format(options.nondet_tol))


def _shown(number: Any) -> Any:
    return number.item() if isinstance(number, Tensor) else number


def _along(case: Case, moving: Moving, direction: Any) -> list[list[tuple[Any, Any]]]:
    """Per output, for 1 and (for a complex input) 1j: (that, how the output changes along that part of the direction)."""
    chosen = direction[moving.elements]
    if not direction.is_complex():
        return [[(1, row)] for row in case.derivative(moving, chosen)]
    real = case.derivative(moving, chosen.real.to(direction.dtype))
    imaginary = case.derivative(moving, 1j * chosen.imag.to(direction.dtype))
    return [[(1, a), (1j, b)] for a, b in zip(real, imaginary, strict=True)]


def _moved(gradient: Any, direction: Any, unit: Any) -> Any:
    """How a quantity of this gradient changes along the real (unit 1) or imaginary (1j) part of a direction."""
    if not direction.is_complex():
        return torch.dot(gradient, direction)
    return torch.dot(gradient.real, direction.real) if unit == 1 else torch.dot(gradient.imag, direction.imag)


def _gradient(gradient: Any, x: Any, options: Options) -> Any:
    """A gradient's elements in one row, zeros for none, after the checks of what it is like."""
    if gradient is None:
        return torch.zeros(x.numel(), dtype=x.dtype)
    if gradient.shape != x.shape:
        raise GradcheckError("Analytical gradient has incorrect size")
    if options.dtypes and gradient.dtype is not x.dtype:
        raise GradcheckError("Gradient has dtype mismatch")
    return jacobians.entries(gradient, x, options.masked).to(x.dtype)


# ---------------------------------------------------------------- forward mode


def _leaf(x: Any) -> Any:
    """An alias outside the graph, for functions that make tensors move."""
    return x.detach() if isinstance(x, Tensor) else x


def _tangents(
    func: Callable[..., Any], inputs: tuple[Any, ...], moves: dict[int, Any], chosen: list[int], zeros: bool = False
) -> list[Any]:
    """The tangents of the chosen outputs, or None, when inputs move; zeros: the other tensors get tangents of zeros."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        given = [_leaf(x) for x in inputs]
        for position, x in enumerate(given):
            if position in moves:
                given[position] = forward_ad.make_dual(x, moves[position])
            elif zeros and requires_grad(inputs[position]):
                given[position] = forward_ad.make_dual(x, torch.zeros_like(x))
        result = as_tuple(func(*given))
        return [forward_ad.unpack_dual(result[n]).tangent for n in chosen]


def _forward(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], chosen: list[int], options: Options) -> None:
    """The derivatives along each element of each input; along the imaginary parts first where an input is complex."""
    complexes = [position for position in tracked if inputs[position].is_complex()]
    case = Case(func, inputs, options.eps, options.masked, chosen)
    if complexes:
        _forward_along(case, 1j, complexes, chosen, _INPUTS.format("imaginary"), options)
        _forward_along(case, 1, tracked, chosen, _INPUTS.format("real"), options)
    else:
        _forward_along(case, 1, tracked, chosen, "", options)


def _forward_along(case: Case, unit: Any, tracked: list[int], chosen: list[int], words: str, options: Options) -> None:
    for position in tracked:
        x = case.inputs[position]
        if is_sparse(x):
            raise ValueError("forward AD is checked for dense inputs only; convert the input in the function")
        if options.fast:
            moving = Moving(case.inputs, position, case.masked)
            with torch.random.fork_rng(devices=[]):
                direction = _unit_vector(x.numel(), x.dtype.to_real()).to(x.dtype) * unit
            numerical = case.derivative(moving, direction)
            analytical = _columns(case, position, [direction], chosen)
            for number, theirs in enumerate(numerical):
                ours = analytical[number][0]
                if not _close(ours, theirs, options.rtol, options.atol * float(direction.abs().sum())):
                    slow = _jacobian(case, position, unit, chosen)[number], case.numerical(position, (unit,))[number]
                    raise GradcheckError(_mismatch(ours, theirs, number, position, words, True) + _in_slow_mode(*slow, options))
            continue
        numerical = [jacobian / unit for jacobian in case.numerical(position, (unit,))]
        for number, (ours, theirs) in enumerate(zip(_jacobian(case, position, unit, chosen), numerical, strict=True)):
            if not _close(ours, theirs, options.rtol, options.atol):
                raise GradcheckError(_mismatch(ours, theirs, number, position, words, True))


def _jacobian(case: Case, position: int, unit: Any, chosen: list[int]) -> list[Any]:
    x = case.inputs[position]
    directions = []
    for number in range(x.numel()):
        direction = torch.zeros(x.numel(), dtype=x.dtype)
        direction[number] = unit
        directions.append(direction)
    return _columns(case, position, directions, chosen)


def _columns(case: Case, position: int, directions: list[Any], chosen: list[int]) -> list[Any]:
    """Per output the tangents along each direction, as rows."""
    x = case.inputs[position]
    made = [torch.zeros(len(directions), shape.numel(), dtype=dtype) for shape, dtype in case.known]
    for row, direction in enumerate(directions):
        moved = _tangents(case.function, case.inputs, {position: direction.reshape(x.shape).clone()}, chosen, zeros=True)
        for jacobian, tangent in zip(made, moved, strict=True):
            if tangent is not None:
                jacobian[row] = tangent.detach().reshape(-1)
    return made


def _undefined_tangents(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], chosen: list[int]) -> None:
    """An input without a tangent and one with a tangent of zeros must mean the same."""
    if len(tracked) < 2:
        for position in tracked:
            x = inputs[position]
            _tangents(func, inputs, {position: torch.ones_like(x.detach())}, chosen)
        return
    for position in tracked:
        x = inputs[position]
        moves = {position: torch.ones_like(x.detach())}
        without = _tangents(func, inputs, moves, chosen)
        with_zeros = _tangents(func, inputs, moves, chosen, zeros=True)
        for number, (a, b) in enumerate(zip(without, with_zeros, strict=True)):
            a, b = (torch.zeros(()) if t is None else t for t in (a, b))
            if not bool(torch.allclose(a + torch.zeros_like(b), b + torch.zeros_like(a))):
                raise GradcheckError(
                    f"Expected the tangent of output {number} to be the same whether the tangents of the other inputs are "
                    "zeros or missing"
                )


def _batched_tangents(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], chosen: list[int]) -> None:
    """Two tangents at once under vmap against one after the other."""
    for position in tracked:
        x = inputs[position]
        with torch.random.fork_rng(devices=[]):
            tangents = torch.randn((2, *x.shape), dtype=x.dtype)

        def row(tangent: Any, position: int = position) -> list[Any]:
            return _tangents(func, inputs, {position: tangent}, chosen)

        apart = [row(tangents[n]) for n in range(2)]
        try:
            together = batched.over_rows(row, 2, [tangents])
        except RuntimeError as error:
            if "random operations" in str(error):
                raise
            raise GradcheckError(
                f"While computing batched gradients, got: {error}\n\n\ngradcheck failed while testing batched gradient "
                "computation with forward-mode AD.\nPass `check_batched_forward_grad=False` to leave this check out.\n"
            ) from error
        _compare_rows(together, apart, "failed while testing batched gradient computation with forward-mode AD")


# ---------------------------------------------------------------- what rules must stand besides


def _batched_gradients(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], number: int) -> None:
    """Gradients of two weights at once under vmap against one after the other."""
    y = as_tuple(func(*inputs))[number]
    wanted = [inputs[position] for position in tracked]
    with torch.random.fork_rng(devices=[]):
        weights = torch.randn((2, *y.shape), dtype=y.dtype)
    apart = [torch.autograd.grad(y, wanted, weights[n], retain_graph=True, allow_unused=True) for n in range(2)]
    try:
        together = batched.grad(y, wanted, weights, True, False, True, False)
    except RuntimeError as error:
        if "random operations" in str(error):
            raise
        raise GradcheckError(
            f"While computing batched gradients, got: {error}\n\ngradcheck or gradgradcheck failed while testing batched "
            "gradient computation.\nPass `check_batched_grad=False` to leave this check out.\n"
        ) from error
    _compare_rows(together, apart, "or gradgradcheck failed while testing batched gradient computation")


def _compare_rows(together: Sequence[Any], apart: Sequence[Sequence[Any]], words: str) -> None:
    for number, rows in enumerate(together):
        for n in range(2):
            single = apart[n][number]
            own: Any = None if rows is None else rows[n]
            if own is None and single is None:
                continue
            single = torch.zeros_like(own) if single is None else single
            own = torch.zeros_like(single) if own is None else own
            if not _close(dense(own), dense(single), 1e-3, 1e-5):
                raise GradcheckError(f"gradcheck {words}: for number {number}, at once:\n{own}\none after the other:\n{single}\n")


def _scaled_by_weights(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int], options: Options) -> None:
    """Gradients of outputs with weights of zeros: of the inputs' kinds, and zeros."""
    outputs = jacobians.differentiable(func(*inputs))
    wanted = [inputs[position] for position in tracked]
    gradients = torch.autograd.grad(outputs, wanted, [torch.zeros_like(y) for y in outputs], allow_unused=True)
    for gradient, x in zip(gradients, wanted, strict=True):
        if gradient is None:
            continue
        if gradient.layout is not x.layout and not (is_sparse(x) and options.masked):
            raise GradcheckError(f"grad is incorrect layout ({gradient.layout} is not {x.layout})")
        if gradient.layout is torch.sparse_coo:
            for name in ("sparse_dim", "dense_dim"):
                if getattr(gradient, name)() != getattr(x, name)():
                    raise GradcheckError(
                        f"grad is sparse tensor, but has incorrect {name} {getattr(gradient, name)()}, expected "
                        f"{getattr(x, name)()}"
                    )
        if bool(dense(gradient).ne(0).any()):
            raise GradcheckError("backward not multiplied by grad_output")
        for name in ("dtype", "device"):
            if getattr(gradient, name) != getattr(x, name):
                raise GradcheckError(f"grad is incorrect {name}")
        if gradient.shape != x.shape:
            raise GradcheckError("grad is incorrect size")


class _Blocked(MultiNode):
    """Lets no gradient through."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return (None,) * len(self.edges)


def _blocked(y: Any) -> Any:
    """An alias of an output for which no gradient arrives."""
    made = tensors.tensor_from(y._storage, y._offset, y._layout)
    made._node = _Blocked(1, ((y._node, y._index),), (y._layout,))
    return made


_UNDEFINED = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'


def _undefined_gradients(func: Callable[..., Any], inputs: tuple[Any, ...], tracked: list[int]) -> None:
    """A rule must give None or zeros when no gradient arrives, at all outputs or at one of them."""
    wanted = [inputs[position] for position in tracked]
    count = len(jacobians.differentiable(func(*inputs)))
    for alone in (None, *range(count)) if count > 1 else (None,):
        outputs = jacobians.differentiable(func(*inputs))
        shown = [_blocked(y) if alone in (None, n) else y for n, y in enumerate(outputs)]
        weights = [torch.zeros_like(y) for y in outputs]
        try:
            gradients = torch.autograd.grad(shown, wanted, weights, allow_unused=True)
        except RuntimeError as error:
            warnings.warn(
                "Backwards compatibility: New undefined gradient support checking feature is enabled by default, "
                "but it may break existing callers of this function. If this is true for you, you can call this function with "
                '"check_undefined_grad=False" to disable the feature',
                stacklevel=5,
            )
            raise GradcheckError(f"Expected backward function to handle undefined output grads. {_UNDEFINED}") from error
        if any(gradient is not None and bool(dense(gradient).ne(0).any()) for gradient in gradients):
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. " + _UNDEFINED
            )
