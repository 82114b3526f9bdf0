"""Has calls answered by replays, and every replay compared with the function: samples of all operators, and modules in tests.

    python tests/check_replays.py samples [REGEX]             # those of tests/conformance, in each form
    python tests/check_replays.py tests tests/nn [-k WORDS]   # the outermost call of every module in these tests

Each call is made some times more, compiled, on copies of its arguments (and of the module), without gradients. Prints what
differed, how many calls were replayed, and why others were not. Ends with 1 if anything differed. Stands on flambeau.capture.
"""

from __future__ import annotations

import collections
import copy
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import flambeau as torch
from flambeau import nn
from flambeau.base.flags import flags
from flambeau.capture.check import ReplayDiffers
from flambeau.capture.entry import Captured

CALLS = 4  # of each kind: one as it is, one recorded, two replayed


class Checks:
    """What was found so far; `differs` are the errors."""

    def __init__(self) -> None:
        self.calls = self.replayed = 0
        self.differs: list[str] = []
        self.refusals: collections.Counter[str] = collections.Counter()
        self._inside = False

    def call(self, function: Callable[..., Any], args: Any, kwargs: Any, what: str) -> None:
        """Call a compiled form of a function on copies of these arguments; whatever it raises is no matter here."""
        if self._inside:
            return
        self._inside, before = True, flags.compile
        state = torch.get_rng_state()
        flags.compile = "check"
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._call(function, args, kwargs, what)
        finally:
            self._inside, flags.compile = False, before
            torch.set_rng_state(state)

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any, what: str) -> None:
        try:
            captured = Captured(copy.deepcopy(function) if isinstance(function, nn.Module) else function)
            for _ in range(CALLS):
                ours, named = _copied((args, kwargs))
                captured(*ours, **named)
        except ReplayDiffers as error:
            self.differs.append(f"{what}: {error}")
            print(self.differs[-1], flush=True)
        except Exception:  # the test's own call will raise it, too
            return
        self.calls += 1
        self.replayed += any(entry.hits for entries in captured.entries.values() for entry in entries)
        self.refusals.update(captured.refusals.keys())

    def told(self) -> int:
        """Print the sums; the process's status."""
        print(f"{self.calls} calls, {self.replayed} replayed, {len(self.differs)} differ")
        for reason, count in self.refusals.most_common(25):
            print(f"  {count:6} {reason}")
        return bool(self.differs)


def _copied(value: Any) -> Any:
    """A deep copy, in which tensors that were computed with gradients are leaves."""
    memo: dict[int, Any] = {}

    def visit(part: Any) -> None:
        if isinstance(part, torch.Tensor):
            if part._node is not None and not part.is_leaf:
                memo[id(part)] = copy.deepcopy(part.detach())
        elif isinstance(part, (list, tuple, dict)):
            for each in part.values() if isinstance(part, dict) else part:
                visit(each)

    visit(value)
    return copy.deepcopy(value, memo)


def samples(pattern: str) -> int:
    """Check the samples whose family or line matches."""
    from conformance.forms import Sample
    from conformance.record import read

    checks = Checks()
    called = Sample._called

    def checked(self: Any, room: str, name: str, args: Any, named: Any) -> Any:
        checks.call(lambda *args, **named: called(self, room, name, args, named), args, named, f"{self.line} ({room}.{name})")
        return called(self, room, name, args, named)

    Sample._called = checked  # type: ignore[method-assign]
    for recorded in read():
        if re.search(pattern, f"{recorded.family} {recorded.line}"):
            sample = Sample(torch, recorded.line)
            for form in recorded.outcomes:
                if form not in ("gradient", "tangent", "batched", "meta"):
                    sample.outcome(form)
    return checks.told()


def tests(arguments: list[str]) -> int:
    """Run tests whose modules' calls are checked."""
    import pytest

    checks = Checks()
    call = nn.Module.__call__

    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        checks.call(self, args, kwargs, type(self).__name__)
        inside, checks._inside = checks._inside, True
        try:
            return call(self, *args, **kwargs)
        finally:
            checks._inside = inside

    nn.Module.__call__ = checked  # type: ignore[method-assign, assignment]
    pytest.main(["-q", "-p", "no:xdist", *arguments])
    return checks.told()


if __name__ == "__main__":
    how, *given = sys.argv[1:] or ["samples"]
    sys.exit(samples(" ".join(given)) if how == "samples" else tests(given))
