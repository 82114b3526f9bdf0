"""`record`: a call and its program at once, for tests and measurements. Stands on recording.py and replay.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.codegen.programs.program import Refusal
from flambeau.codegen.programs.recording import Busy, Tape
from flambeau.codegen.programs.replay import Replay


def record(
    fn: Callable[..., Any], *inputs: Any, also: Callable[[], Sequence[Any]] = tuple, tape: Tape | None = None
) -> tuple[Any, Replay | Refusal]:
    """Run fn(*inputs) as ever, and listen. -> (what it returned, a Replay or why there is none)

    The tensors among the inputs are those of the program, the tensors in the result (in tuples, lists and dicts) its outputs,
    behind them those that `also` gives after the call. Call it when fn has run before: what is made once is no part of it.
    """
    tensors = [x for x in inputs if hasattr(x, "_storage")]
    tape = tape or Tape(tensors)
    try:
        tape.begin()
    except Busy:
        return fn(*inputs), Refusal("another call is being recorded")
    try:
        result = fn(*inputs)
    finally:
        tape.end()
    outputs = [*leaves(result), *also()]
    program = tape.finish(tensors, outputs)
    if isinstance(program, Refusal):
        return result, program
    return result, Replay(program, settled=True)


def leaves(result: Any) -> list[Any]:
    """The tensors in a result."""
    if hasattr(result, "_storage"):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [x for part in result for x in leaves(part)] if isinstance(result, (list, tuple)) else []
