"""FLAMBEAU_COMPILE=check compares replays with the function, and off turns them off."""

from __future__ import annotations

import types
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.base.flags import flags
from flambeau.capture.check import ReplayDiffers
from flambeau.capture.entry import Captured
from flambeau.codegen.programs import Replay
from flambeau.codegen.runtime import guards
from flambeau.nn import functional as F

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")


@pytest.fixture(autouse=True)
def _checking() -> Any:
    before, flags.compile = flags.compile, "check"
    with torch.no_grad():
        yield
    flags.compile = before


def _hits(captured: Captured) -> int:
    return sum(entry.hits for entries in captured.entries.values() for entry in entries)


def _broken(captured: Captured, function: Any) -> None:
    """Have the only entry of a captured function answer calls of another function than it was recorded with."""
    captured.function = function


def _recorded(function: Any, *args: Any) -> Captured:
    captured = Captured(function)
    for _ in range(3):
        captured(*args)
    assert _hits(captured) == 1, captured.refusals
    return captured


def test_replays_that_are_right_pass_and_the_function_has_run_once() -> None:
    kept = types.SimpleNamespace(last=None, net=nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)))

    def f(x: Any) -> Any:
        y = kept.net(x)
        x.mul_(0.5)
        kept.last = y
        return {"y": y, "view": y[0], "x": x, "noise": torch.rand(3)}

    captured = Captured(f)
    for n in range(1, 6):
        x, state = torch.randn(3, 4), torch.get_rng_state()
        twin = x.clone()
        got = captured(x)
        assert got["x"] is x
        assert torch.equal(x, twin * 0.5)
        assert kept.last is got["y"]
        assert got["view"].data_ptr() == got["y"].data_ptr()
        assert kept.net[1].num_batches_tracked.item() == n
        torch.set_rng_state(state)
        F.dropout(torch.ones(3, 8))
        assert torch.equal(got["noise"], torch.rand(3))
    assert _hits(captured) == 3, captured.refusals


def test_another_number_is_told_with_the_launch_that_differs() -> None:
    captured = _recorded(lambda x: ((x + 1).relu() * 2).sum(), torch.ones(3))
    _broken(captured, lambda x: ((x + 1).relu() * 3).sum())
    with pytest.raises(ReplayDiffers, match=r"_another_number.*result has other bits in 1 of 1 .*launch 3 of 4"):
        captured(torch.ones(3))


def test_another_operator_is_told() -> None:
    captured = _recorded(lambda x: (x + 1).relu(), torch.ones(3))
    _broken(captured, lambda x: (x + 1).sigmoid())
    with pytest.raises(ReplayDiffers, match=r"launch 2 of 2 is .*where the function launches"):
        captured(torch.ones(3))


def test_a_kernel_that_computes_something_else_is_told_and_what_it_wrote_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        x.add_(1)
        return x * 2, x.exp()

    captured = _recorded(f, torch.ones(3))
    call = Replay.__call__

    def spoiled(self: Any, *arguments: Any) -> Any:
        made = call(self, *arguments)
        made[0].view(torch.int32).bitwise_xor_(1)
        return made

    monkeypatch.setattr(Replay, "__call__", spoiled)
    x = torch.zeros(3)
    with pytest.raises(ReplayDiffers, match=r"the result\[0\] has other bits in 3 of 3 elements"):
        captured(x)
    assert x.tolist() == [1, 1, 1]  # what the function wrote, once


def _differs(recorded: Any, now: Any, told: str, *args: Any) -> None:
    captured = _recorded(recorded, *args)
    _broken(captured, now)
    with pytest.raises(ReplayDiffers, match=told):
        captured(*args)


def test_structure_layouts_and_aliasing_are_compared() -> None:
    x = torch.ones(2, 3)
    _differs(lambda x: (x + 1, 2), lambda x: [x + 1, 2], "is a tuple, and not a list", x)
    _differs(lambda x: (x + 1, 2), lambda x: (x + 1, 2.0), r"\[1\] is a int, and not a float", x)
    _differs(lambda x: (x + 1, 0.0), lambda x: (x + 1, -0.0), r"\[1\] is 0.0, and not -0.0", x)
    _differs(lambda x: {"a": x + 1}, lambda x: {"b": x + 1}, "has other parts", x)
    _differs(lambda x: (x + 1).t(), lambda x: (x + 1).view(3, 2), "has the layout", x)
    _differs(lambda x: [x + 1] * 2, lambda x: [x + 1, x + 1], r"\[1\] is, or shares memory with, another tensor", x)
    _differs(lambda x: x.view(6) * 1, lambda x: x.view(6), "shares memory with", x)


def test_writes_are_compared() -> None:
    x = torch.ones(2, 3)
    _differs(lambda x: x.mul_(1).sum(), lambda x: x.sum(), "counts 1 writes|counts . writes", x)
    _differs(lambda x: x.mul_(1).sum() * 0, lambda x: x.mul_(2).sum() * 0, "that is written to has other bits", x)
    _differs(lambda x: F.dropout(x) * 0, lambda x: x * 0 * F.dropout(x[:1]).sum(), "random generators have other states", x)
    kept = types.SimpleNamespace(n=0)
    _differs(lambda x: (setattr(kept, "n", 1), x + 1)[1], lambda x: (setattr(kept, "n", 2), x + 1)[1], "kept as 'n' is 1", x)


def test_an_error_of_the_function_is_told() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no")

    captured = _recorded(lambda x: x + 1, torch.ones(2))
    _broken(captured, fails)
    with pytest.raises(ReplayDiffers, match=r"raises ValueError.*, but a replay gave a result"):
        captured(torch.ones(2))


def test_off_runs_functions_as_they_are() -> None:
    flags.compile = "off"
    compiled = torch.compile(lambda x: x + torch.compiler.is_compiling())
    for _ in range(4):
        assert compiled(torch.ones(1)).item() == 2
    captured = Captured(lambda x: x + 1)
    for _ in range(4):
        captured(torch.ones(2))
    assert not captured.entries
    flags.compile = "on"
    assert _recorded(captured.function, torch.ones(2)).entries


def test_the_switch_is_read_from_the_environment() -> None:
    from flambeau.base.flags import Flags

    with pytest.MonkeyPatch.context() as patch:
        for text, wanted in (("check", "check"), ("0", "off"), ("off", "off"), ("1", "on"), ("", "on")):
            patch.setenv("FLAMBEAU_COMPILE", text)
            assert Flags().compile == wanted
        patch.setenv("FLAMBEAU_COMPILE", "perhaps")
        with pytest.raises(ValueError, match="FLAMBEAU_COMPILE must be on, off or check, got 'perhaps'"):
            Flags()
