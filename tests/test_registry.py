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
        for name, operator in OPERATORS.items()
        if not name.startswith("_")
        and not any(
            inspect.getdoc(thing)
            for thing in (getattr(operator, "public", None), implementation_of(operator), public_of(name))
            if thing
        )
    ]
    assert not silent, f"no docstring: {', '.join(sorted(silent))}"


def test_every_operator_has_a_gradient_or_says_that_it_has_none() -> None:
    """Pointwise bodies are differentiated; composites are their parts; others need a rule or integer (or no) results."""
    unknown = []
    for name, operator in OPERATORS.items():
        if isinstance(operator, Pointwise):
            assert isinstance(operator.differentiable, bool), name
        elif isinstance(operator, Operator):
            assert hasattr(operator, "rule"), name
        else:
            unknown.append(name)
    assert not unknown


def test_the_stubs_are_up_to_date(root: Path) -> None:
    answer = subprocess.run(
        [sys.executable, str(root / "tools" / "make_stubs.py"), "--check"], capture_output=True, text=True, cwd=root
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
