"""What captured functions keep: a bounded part of memory, nothing once they are gone; and what several threads do with them."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._dynamo.compiled import units
from flambeau.capture import entry as entries
from flambeau.capture import instrument, source
from flambeau.capture.entry import Captured
from flambeau.codegen.programs.program import Program
from flambeau.codegen.programs.replay import Replay, _Frames
from flambeau.codegen.runtime import guards
from flambeau.core.tensor.storage import memory_statistics

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def _entries(captured: Captured) -> list[Any]:
    return [entry for kind in captured.entries.values() for entry in kind]


def _deep(x: Any) -> Any:
    return ((x + 1).exp() * 2).sum(0) + x.cos().sum(1)


# ---------------------------------------------------------------- memory


def test_programs_that_are_used_least_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = Captured(_deep)
    small, often, large = torch.randn(40, 40), torch.randn(50, 50), torch.randn(60, 60)
    for x in (small, often):
        for _ in range(4):
            captured(x)
    captured(often)
    first, second = (entry.replay.nbytes for entry in _entries(captured))
    assert second > first > 40 * 40 * 4
    monkeypatch.setattr(entries, "MOST_BYTES", 3 * second)
    for _ in range(4):
        captured(large)  # there is room for two of them
    assert [entry.replay.program.inputs[0].layout.shape[0] for entry in _entries(captured)] == [50, 60]
    for x in (small, often, large, small, often):
        for _ in range(3):
            assert torch.equal(captured(x), _deep(x))


def test_a_program_that_is_larger_than_what_is_kept_is_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = Captured(_deep)
    monkeypatch.setattr(entries, "MOST_BYTES", 1)
    for n in (3, 4, 5):
        for _ in range(4):
            captured(torch.randn(n, n))
    assert [entry.hits for entry in _entries(captured)] == [2]


def _living() -> dict[str, int]:
    for _ in range(3):
        gc.collect()
    counts = dict.fromkeys(("Captured", "Entry", "Replay", "_Frames", "Program", "Guards"), 0)
    for each in gc.get_objects():
        name = type(each).__name__
        if name in counts and type(each) in (Captured, entries.Entry, Replay, _Frames, Program, guards.Guards):
            counts[name] += 1
    return counts


def test_functions_that_are_compiled_and_dropped_leave_nothing(tmp_path: Path) -> None:
    """As a service does that compiles a function for each of its users; each has a source of its own."""

    def serve(count: int) -> list[Any]:
        gone: list[Any] = []
        for n in range(count):
            file = tmp_path / f"made_{count}_{n}.py"
            file.write_text(f"def forward(net, x):\n    return net(x) * {n}.5 + len(x)\n")
            names: dict[str, Any] = {}
            exec(compile(file.read_text(), str(file), "exec"), names)
            net = nn.Sequential(nn.Linear(8, 40), nn.ReLU(), nn.Linear(40, 3)).eval()
            compiled = torch.compile(names["forward"])
            for _ in range(4):
                compiled(net, torch.randn(4, 8))
            assert any(entry.hits for unit in units if type(unit) is Captured for entry in _entries(unit))
            gone += [weakref.ref(net), weakref.ref(names["forward"]), weakref.ref(compiled), weakref.ref(net[0].weight)]
        return gone

    serve(3)
    before = _living(), len(source._sources), len(instrument._instrumented)
    used = memory_statistics()["allocated_bytes"]
    gone = serve(40)
    del gone[-1]
    assert (_living(), len(source._sources), len(instrument._instrumented)) == before
    assert not [each for each in gone if each() is not None]
    assert memory_statistics()["allocated_bytes"] <= used


# ---------------------------------------------------------------- threads


def test_threads_that_call_one_function_and_one_that_writes_to_its_inputs() -> None:
    """What is written meanwhile may be seen or not, element by element, as in an eager call; nothing else may come out."""
    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU()).eval()
    nn.init.eye_(net[0].weight)
    nn.init.zeros_(net[0].bias)
    captured = Captured(lambda x: net(x) + 1)
    shared = torch.full((64, 16), 1.0)
    for _ in range(3):
        captured(shared)
    ended, wrong = threading.Event(), []

    def write() -> None:
        n = 0
        while not ended.is_set():
            n += 1
            shared.fill_(float(1 + n % 2))

    def call() -> None:
        with torch.no_grad():
            for _ in range(200):
                found = captured(shared)
                if not bool(((found == 2) | (found == 3)).all()):
                    wrong.append(found)

    writer = threading.Thread(target=write)
    callers = [threading.Thread(target=call) for _ in range(3)]
    for thread in (writer, *callers):
        thread.start()
    for thread in callers:
        thread.join()
    ended.set()
    writer.join()
    assert not wrong
    assert sum(entry.hits for entry in _entries(captured)) > 0


def test_threads_that_record_replay_and_change_what_is_around() -> None:
    kept = {"scale": 1.0}
    captured = Captured(lambda x, k: x * kept["scale"] + k)
    wrong: list[Any] = []

    def work(number: int) -> None:
        with torch.no_grad():
            for n in range(150):
                x = torch.full((4 + n % 3,), float(number))
                found = captured(x, number)
                if found[0].item() not in (2 * number, 3 * number):
                    wrong.append(found)
                kept["scale"] = float(1 + n % 2)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
