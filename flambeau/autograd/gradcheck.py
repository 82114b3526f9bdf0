"""`flambeau.autograd.gradcheck`: derivative rules against finite differences, backward and forward, one by one and in batches.

The comparison is made on real outputs: of complex outputs the imaginary parts are checked, then the real ones. The slow mode
compares whole Jacobians, the fast mode one random combination of their entries (and shows the Jacobians where that fails).
Stands on autograd.jacobians, which makes both sides of the comparison, and on autograd.derivative_checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.autograd import derivative_checks as checks
from flambeau.autograd import jacobians
from flambeau.autograd.derivative_checks import GradcheckError
from flambeau.autograd.jacobians import Case, as_tuple
from flambeau.base.warn import warn

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of func(*inputs) agree with central differences of step eps.

    inputs: tensors (float64 or complex128 where they require grad) and anything else. Agreement: within
    atol + rtol * |numerical|. On disagreement raises GradcheckError, or returns False if raise_exception is False.
    check_backward_ad, check_forward_ad: which mode's derivatives. nondet_tol: how much two backward passes may differ.
    check_undefined_grad: also let no gradient (or no tangent) arrive at some outputs (inputs). check_batched_grad,
    check_batched_forward_grad: also several at once under vmap. fast_mode: one random combination of the Jacobian's entries
    instead of all. masked: whether the elements that a sparse input doesn't specify count as constants.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    options = checks.Options(
        eps,
        atol,
        rtol,
        nondet_tol,
        check_undefined_grad,
        check_grad_dtypes,
        check_batched_grad,
        check_batched_forward_grad,
        check_forward_ad,
        check_backward_ad,
        fast_mode,
        bool(masked),
    )
    try:
        checks.run(func, as_tuple(inputs), options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of func agree with central differences of its first ones.

    grad_outputs: weights of the outputs, which are differentiated with respect to as well; random by default.
    The other arguments are gradcheck's.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    given = as_tuple(inputs)
    if grad_outputs is None:
        outputs = jacobians.differentiable(func(*given))
        weights = tuple(_weight(output, gen_non_contig_grad_outputs) for output in outputs)
    else:
        weights = as_tuple(grad_outputs)
    tracked = [position for position, x in enumerate(given) if jacobians.requires_grad(x)]

    def first_derivatives(*arguments: Any) -> Any:
        own, weighting = list(arguments[: len(given)]), arguments[len(given) :]
        for position in tracked:
            if not own[position].requires_grad:
                own[position].requires_grad_()
        outputs = jacobians.differentiable(func(*own))
        gradients = torch.autograd.grad(
            outputs, [own[position] for position in tracked], weighting, create_graph=True, allow_unused=True
        )
        return tuple(gradient for gradient in gradients if gradient is not None)

    return gradcheck(
        first_derivatives,
        (*given, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _weight(output: Any, spread: bool) -> Any:
    """A random weight of the output's shape and dtype that requires grad; every second element of memory if spread."""
    shape = (*output.shape, 2) if spread else output.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = torch.randn(shape, dtype=output.dtype)
    return (made.select(-1, 0) if spread else made).requires_grad_()


# ---------------------------------------------------------------- deprecated


_PRIVATE = (
    "`{}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will be "
    "removed in a future version of PyTorch. If you have a specific use for this or feature request for this to be a stable "
    "API, please file us an issue at https://github.com/pytorch/pytorch/issues/new"
)


def get_numerical_jacobian(
    fn: Callable[..., Any], inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Any, ...]:
    """Deprecated: per input the Jacobian of the first output of fn(inputs), by central differences."""
    warn(_PRIVATE.format("get_numerical_jacobian"), FutureWarning)
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of grad_out != 1.0.")
    given = as_tuple(inputs)
    wanted = [n for n, x in enumerate(given) if jacobians.requires_grad(x) and (target is None or x is target)]
    case = Case(lambda *xs: as_tuple(fn(xs)), given, eps, False)
    return tuple(case.numerical(position)[0] for position in wanted)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any], input_idx: int, inputs: Any, outputs: Any, eps: float, input: Any = None, is_forward_ad: bool = False
) -> tuple[Any, ...]:
    """Deprecated: per output its Jacobian with respect to one input, by central differences."""
    return tuple(Case(fn, as_tuple(inputs), eps, False).numerical(input_idx))


def get_analytical_jacobian(inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0) -> Any:
    """Deprecated: (per input the Jacobian of the output by backward, whether two passes agree, whether the gradients have the
    inputs' sizes, and their dtypes).
    """
    warn(_PRIVATE.format("get_analytical_jacobian"), FutureWarning)
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of grad_out != 1.0.")
    if output.is_complex():
        raise ValueError(
            "Expected output to be non-complex. get_analytical_jacobian no longer supports functions that return complex outputs."
        )
    tracked = [x for x in as_tuple(inputs) if jacobians.requires_grad(x)]
    first, again = (jacobians.by_backward(output, tracked) for _ in range(2))
    agreeing = all(bool(((a - b).abs() <= nondet_tol).all()) for a, b in zip(first.columns, again.columns, strict=True))
    return tuple(first.columns), agreeing, first.sizes_fit, first.dtypes_fit
