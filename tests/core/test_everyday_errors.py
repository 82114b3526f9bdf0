"""Everyday mistakes: each prints PyTorch's type and words alone, below the line of the program that made it.

everyday_errors.txt holds the mistakes, one line of a program each, and below it what PyTorch 2.13 says to it;
`record_everyday_errors` asks it again.
"""

from __future__ import annotations

import pdb
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from core.record_everyday_errors import PROGRAM, SETUP, recorded, said_of

import flambeau as torch
from flambeau.base.flags import Flags, debug, flags

PACKAGE = str(Path(torch.__file__).parent)
_compiled_setup = compile(SETUP, PROGRAM, "exec")


RECORDED = recorded()


def error_of(line: str, **names: Any) -> Exception:
    """The exception that a line of a program raises, as the program's own handler would see it."""
    scope: dict[str, Any] = {"torch": torch, **names}
    exec(_compiled_setup, scope)
    code = compile(line, PROGRAM, "exec")
    with pytest.raises(Exception) as caught:
        exec(code, scope)
    error = caught.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # without this test's own frame
    return error


def functions_of(entry: TracebackType | None) -> list[tuple[bool, str]]:
    """(whether it is the program's, the function's name) of each frame that a traceback shows."""
    return [(frame.filename == PROGRAM, frame.name) for frame in traceback.extract_tb(entry)]


@pytest.mark.parametrize("line", RECORDED)
def test_a_mistake_prints_the_words_alone(line: str) -> None:
    error = error_of(line)
    assert said_of(error) == RECORDED[line]
    shown = "".join(traceback.format_exception(error))
    assert "During handling" not in shown and "direct cause" not in shown
    program = [own for own, _ in functions_of(error.__traceback__)]
    assert program[-1] or program[-2], shown  # at most one frame of the package below the program's line


def test_there_are_enough_mistakes() -> None:
    assert len(RECORDED) > 180


def test_the_line_of_an_operator_is_the_last() -> None:
    for line in ("x.sum(5)", "x + torch.ones(5)", "x[5]", "nn.Linear(3, 2)(x)", "w.backward()"):
        assert functions_of(error_of(line).__traceback__) == [(True, "<module>")]


def test_the_frames_of_callbacks_stay() -> None:
    assert functions_of(error_of("net(x)").__traceback__)[-1] == (True, "forward")
    assert functions_of(error_of("hook()").__traceback__)[-1] == (True, "<lambda>")
    assert functions_of(error_of("Half.apply(w).sum().backward()").__traceback__)[-1] == (True, "backward")
    names = [name for _, name in functions_of(error_of("hook()").__traceback__)]
    assert names[:2] == ["<module>", "hook"] and "_run" in names  # nothing is cut between two frames of the program


def test_the_exception_that_the_program_handles_is_shown() -> None:
    line = "try:\n    {}['a']\nexcept KeyError:\n    x.sum(5)"
    for _ in range(2):
        error = error_of(line)
        assert isinstance(error.__context__, KeyError) and error.__context__.args == ("a",)
        assert not error.__suppress_context__
    assert error_of("try:\n    {}['a']\nexcept KeyError:\n    x.relu(1)").__context__ is not None
    error = error_of("try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('b') from None")
    assert error.__suppress_context__
    error = error_of(
        "class Refusing(nn.Module):\n    def forward(self, x):\n        try:\n            {}['a']\n"
        "        except KeyError:\n            raise ValueError('b') from None\nRefusing()(x)"
    )
    assert error.__suppress_context__


def test_everything_is_shown_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    def deepest() -> str:
        return functions_of(error_of("x.sum(5)").__traceback__)[-1][1]

    with debug(1):
        assert deepest() == "wrap_dim"
    assert deepest() == "<module>"
    monkeypatch.setattr(flags, "full_traceback", True)
    assert deepest() == "wrap_dim"
    error = error_of("x.sum(5)")
    debugger = pdb.Pdb(readrc=False)
    stack, at = debugger.get_stack(None, error.__traceback__)
    assert stack[at][0].f_code.co_name == "wrap_dim" and stack[at][0].f_locals["dim"] == 5


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen, full in (("", False), ("short", False), ("full", True)):
        monkeypatch.setenv("FLAMBEAU_TRACEBACK", chosen)
        assert Flags().full_traceback is full
    monkeypatch.setenv("FLAMBEAU_TRACEBACK", "long")
    with pytest.raises(ValueError, match="FLAMBEAU_TRACEBACK must be short or full, got 'long'"):
        Flags()
