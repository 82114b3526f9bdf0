"""A run of a program's function: by its own code, or by that for a recording of control flow. Stands on generate and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.modes.interception import anyone_answers
from flambeau.dispatcher.higher_order import flow
from flambeau.jit.execution import generate, recorded
from flambeau.jit.ir.function import Function

__all__ = ["run"]


def run(function: Function, values: Sequence[Any]) -> Any:
    """What a program's function gives for the inputs of its graph."""
    looked_into = anyone_answers()
    if looked_into and flow() is not None:
        return recorded.runner_of(function)(*values)
    return (function.runners.get(looked_into) or generate.runner_of(function, looked_into))(*values)
