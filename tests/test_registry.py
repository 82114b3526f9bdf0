"""What every declared operator has to say of itself, and that the generated stubs are up to date."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import flambeau as torch
from flambeau.core.declare import Operator
from flambeau.core.derive import OPERATORS
from flambeau.core.op import Pointwise


def implementation_of(operator: object) -> object:
    return getattr(operator, "body", None) or getattr(operator, "implementation", None)


def test_there_are_operators() -> None:
    assert len(OPERATORS) > 100


def public_of(name: str) -> object:
    rooms = (torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.fft, torch.special)
    return next((found for room in rooms if (found := getattr(room, name, None)) is not None), None)


def test_every_operator_has_a_docstring() -> None:
    """Those whose name begins with an underscore are parts of others."""
    silent = [
        name
        for name, operator in list(OPERATORS.items())  # looking for a name may import a room
        if not name.startswith("_")
        and not any(
            inspect.getdoc(thing)
            for thing in (getattr(operator, "public", None), implementation_of(operator), public_of(name))
            if thing
        )
    ]
    assert not silent, f"no docstring: {', '.join(sorted(silent))}"


# Without a gradient: results that are whole numbers, truths, samples or steps of others, and what PyTorch gives none for.
NOT_DIFFERENTIABLE = set(
    """
    all any argmax argmin binomial count_nonzero geqrf linalg_ldl_factor_ex linalg_ldl_solve multinomial nonzero
    _eigenvalues _hermitian_values _singular_values
    special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
    special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0
    special_scaled_modified_bessel_k1 special_spherical_bessel_j0
    special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
    special_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h
    special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p
    """.split()
)


def test_every_operator_has_a_gradient_or_is_known_to_have_none() -> None:
    """Pointwise bodies are differentiated, composites are their parts; the others have a rule."""
    assert {type(operator) for operator in OPERATORS.values()} <= {Pointwise, Operator}
    without = {
        name
        for name, operator in OPERATORS.items()
        if isinstance(operator, Operator) and operator.rule is None and not operator.composite
    }
    assert without == NOT_DIFFERENTIABLE


def test_the_stubs_are_up_to_date(root: Path) -> None:
    answer = subprocess.run(
        [sys.executable, str(root / "tools" / "make_stubs.py"), "--check"], capture_output=True, text=True, cwd=root
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
