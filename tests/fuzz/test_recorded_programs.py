"""Random programs that were written under PyTorch give here what they gave there.

`recorded.json.xz` holds the programs and their outcomes: values, shapes, strides, dtypes, aliasing, types of exceptions, and
every variable and gradient in the end. `make fuzz` runs fresh ones where there is a Python with PyTorch.
"""

from pathlib import Path

import pytest
from fuzz.replay import MILD, Program, read, replay

import flambeau as torch

PROGRAMS = read(Path(__file__).with_name("recorded.json.xz"))
AT_ONCE = 20


@pytest.mark.parametrize("first", range(0, len(PROGRAMS), AT_ONCE))
def test_programs_give_what_pytorch_gave(first: int) -> None:
    found = [each for program in PROGRAMS[first : first + AT_ONCE] for each in replay(torch, program) if each.kind not in MILD]
    assert not found, "\n".join(map(str, found))


def test_a_wrong_outcome_is_noticed() -> None:
    """The comparison itself: a record that is wrong in one place is found out there."""
    line = "v1 = torch.arange(3.0)"
    outcome = ["gave", ["tensor", [3], [1], 0, "float32", False, ["v1", "same"], ["<f4", "AAAAAAAAgD8AAABA"]]]
    assert not replay(torch, Program(1, [line], [outcome]))
    for place, wrong, kind in (
        (1, [1, 3], "shape"),
        (2, [2], "stride"),
        (4, "float64", "dtype"),
        (5, True, "requires_grad"),
        (6, ["v0", "shares"], "alias"),
        (7, ["<f4", "AAAAAAAAgD8AAEBA"], "value"),
    ):
        changed = [*outcome[1]]
        changed[place] = wrong
        assert [each.kind for each in replay(torch, Program(1, [line], [["gave", changed]]))] == [kind]
    assert [each.kind for each in replay(torch, Program(1, [line], [["raised", "TypeError", ""]]))] == ["raises not"]
    assert [each.kind for each in replay(torch, Program(1, ["v1 = torch.arange()"], [["raised", "ValueError", ""]]))] == [
        "exception type"
    ]
