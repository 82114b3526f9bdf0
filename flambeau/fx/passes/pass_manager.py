"""The older manager of passes: functions of a module, in an order that constraints speak of.

Stands on nothing; used by programs. `passes.infra.pass_manager` is the newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)
Pass = Callable[..., Any]


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that changes its argument as one that returns it."""

    @wraps(fn)
    def wrapped_fn(gm: Any) -> Any:
        fn(gm)
        return gm

    return wrapped_fn


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """The pass, which logs what it returned."""

    @wraps(fn)
    def wrapped_fn(gm: Any) -> Any:
        result = fn(gm)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped_fn


def loop_pass(base_pass: Pass, n_iter: int | None = None, predicate: Callable[..., bool] | None = None) -> Pass:
    """The pass done n_iter times, or as long as predicate(what it gave) holds: one of the two is given."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def new_pass(source: Any) -> Any:
        output = source
        if n_iter is not None and n_iter > 0:
            for _ in range(n_iter):
                output = base_pass(output)
        elif predicate is not None:
            while predicate(output):
                output = base_pass(output)
        else:
            raise RuntimeError(f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate (given {predicate})")
        return output

    return new_pass


def _validate_pass_schedule_constraint(constraint: Callable[[Pass, Pass], bool], passes: list[Pass]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at index {i} and {b} at "
                    f"index{j} in pass list."
                )


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Callable[[Pass, Pass], bool]:
    """The constraint that `this` comes before `that`."""

    def depends_on(a: Pass, b: Pass) -> bool:
        return a != that or b != this

    return depends_on


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Callable[[Pass, Pass], bool]:
    """The constraint that passes that are wrapped in the same way come in this order."""

    def depends_on(a: Pass, b: Pass) -> bool:
        return unwrap(a) != those or unwrap(b) != these

    return depends_on


class PassManager:
    """Runs passes one after another: `PassManager(passes, constraints)(module)`."""

    passes: list[Pass]
    constraints: list[Callable[[Pass, Pass], bool]]
    _validated: bool = False

    def __init__(self, passes: list[Pass] | None = None, constraints: list[Callable[..., Any]] | None = None) -> None:
        self.passes = passes or []
        self.constraints = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of these passes."""
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[..., Any]) -> None:
        """Add a constraint(a, b): whether a may come before b."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Take out passes by the names of their functions."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Put a pass in the place of the one whose function has the same name."""
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raise RuntimeError if the order breaks a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        out = source
        for _pass in self.passes:
            out = _pass(out)
        return out
