"""Special modes concern the thread that entered them: others find their plans, and ask nobody."""

from __future__ import annotations

import contextlib
import threading

import pytest

import flambeau as torch
from flambeau.codegen.runtime import state
from flambeau.core.modes import looking, modes
from flambeau.utils._python_dispatch import TorchDispatchMode


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def in_another_thread(mode):
    """Meanwhile another thread is inside of `mode`."""
    entered, done = threading.Event(), threading.Event()

    def stay():
        with mode:
            entered.set()
            done.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def marked():
    """How many threads, and modes of all threads, are marked."""
    return state.words[state.SPECIAL], state.words[state.SPECIAL_EVERYWHERE]


@pytest.mark.parametrize(
    "made", [Names, lambda: torch.autocast("cpu"), torch.overrides.BaseTorchFunctionMode, torch._subclasses.FakeTensorMode]
)
def test_a_mode_is_its_threads_own(made):
    before = marked()
    with in_another_thread(made()):
        assert modes.active.count and not modes.special(None)
        with made():
            assert modes.special(None)
        assert not modes.special(None)
    assert marked() == before


def test_calls_of_other_threads_ask_nobody(monkeypatch):
    x = torch.ones(3)
    x + x, torch.relu(x), x.add_(0), x.sum()
    other = Names()
    with in_another_thread(other):
        monkeypatch.setattr(looking, "ask", lambda *call: pytest.fail(f"asked for {call}"))
        assert (x + x).tolist() == [2, 2, 2]
        assert torch.relu(x).tolist() == x.add_(0).tolist() == [1, 1, 1] and x.sum().item() == 3
    assert other.names == []


def test_a_thread_that_ends_inside_a_mode_is_forgotten():
    before = marked()
    thread = threading.Thread(target=lambda: Names().__enter__())
    thread.start()
    thread.join()
    assert marked() == before


def test_more_threads_than_are_counted_one_by_one(monkeypatch):
    monkeypatch.setattr(state, "MAX_SPECIAL_THREADS", state.words[state.SPECIAL])
    before = marked()
    with in_another_thread(Names()):
        assert modes.special(None)  # every thread is taken for one
        assert (torch.ones(2) + 1).tolist() == [2, 2]
    assert marked() == before


def test_the_arguments_are_the_schemas():
    """What a mode sees of a generated function: defaults left out, names by position as far as they go."""
    seen = []

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), args[1:], kwargs))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Calls():
        torch.add(x, other=2, alpha=3)
        x.sum(dim=1, keepdim=True)
        x.sum()
        torch.relu_(x)
        torch.sigmoid(x, out=torch.empty(0))
    assert seen == [
        ("aten.add.Tensor", (2,), {"alpha": 3}), ("aten.sum.dim_IntList", ([1], True), {}), ("aten.sum.default", (), {}),
        ("aten.relu_.default", (), {}), ("aten.empty.memory_format", (), {"device": torch.device("cpu"), "pin_memory": False}),
        ("aten.sigmoid.out", (), {"out": seen[-1][2]["out"]}),
    ]  # fmt: skip
