"""The exceptions about sizes: what only a run tells, and constraints that a trace violates. Used by shape_env and by export."""

from __future__ import annotations

from typing import Any

from flambeau.base.symbolic.expressions import Expr

__all__ = ["ConstraintViolationError", "GuardOnDataDependentSymNode", "PendingUnbackedSymbolNotFound", "data_dependent_error"]


class GuardOnDataDependentSymNode(RuntimeError):
    """A question that only the values of a run answer. cond: the condition."""

    def __init__(self, cond: Any = None, *args: Any) -> None:
        super().__init__(*(args or (cond,)))
        self.cond = cond


class PendingUnbackedSymbolNotFound(RuntimeError):
    """A symbol that only a run tells, which no result has."""


class ConstraintViolationError(RuntimeError):
    """Sizes of a trace that don't keep to what was said of them."""


def data_dependent_error(env: Any, e: Expr) -> GuardOnDataDependentSymNode:
    """The error of a question that only a run answers."""
    if e.is_integer:
        what, advice = "Could not extract specialized integer from data-dependent expression", ""
    else:
        what = "Could not guard on data-dependent expression"
        advice = "consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and statically_known_true."
    likes = ", ".join(sorted(s.name for s in e.free_symbols if s in env.size_like)) or "none"
    hinted = e.xreplace(env.backed_var_to_val)
    return GuardOnDataDependentSymNode(
        e, f"{what} {hinted} (unhinted: {e}).  (Size-like symbols: {likes})\n\n{advice}\n"
    )  # fmt: skip
