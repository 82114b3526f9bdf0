"""Captured functions: when they are recorded and replayed, and what they give."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.capture.entry import MOST_REFUSALS, Captured
from flambeau.codegen.runtime import guards

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def _hits(captured: Captured) -> int:
    return sum(entry.hits for entries in captured.entries.values() for entry in entries)


def test_the_first_call_runs_the_second_is_recorded_the_third_is_replayed() -> None:
    class Counting(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x) * 2

    module = Counting()
    captured = Captured(lambda x: module(x))
    for n in range(5):
        x = torch.randn(3, 4)
        assert torch.equal(captured(x), module(x))
        assert _hits(captured) == max(0, n - 1)
    assert captured(torch.randn(2)).shape == (2,)  # of another kind: runs
    assert _hits(captured) == 3


def test_layers_of_all_kinds_are_replayed_with_the_same_bits() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.rnn = nn.GRU(8, 8, batch_first=True)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.convolution = nn.Sequential(nn.Conv1d(5, 4, 3, padding=1), nn.BatchNorm1d(4), nn.GELU(), nn.AdaptiveAvgPool1d(3))
            self.head = nn.Linear(3, 2)

        def forward(self, tokens: Any) -> Any:
            x = self.embed(tokens)
            y, _ = self.rnn(x)
            return {"out": self.head(self.convolution(self.layer(y))), "hidden": [y, x]}

    net = Net().eval()
    captured = Captured(net)
    for _ in range(4):
        tokens = torch.randint(0, 10, (2, 5))
        got, wanted = captured(tokens), net(tokens)
        assert torch.equal(got["out"], wanted["out"])
        assert torch.equal(got["hidden"][0], wanted["hidden"][0])
    assert _hits(captured) == 2, captured.refusals


class _Pair(NamedTuple):
    first: Any
    second: Any


class _Output:
    def __init__(self, logits: Any, note: str) -> None:
        self.logits, self.note = logits, note


def test_results_are_made_anew_with_their_classes_and_identities() -> None:
    weight = torch.randn(4)

    def f(x: Any) -> Any:
        y = x + weight
        return _Pair(y, [y, weight, x]), _Output(y * 2, "note"), None, 3.5

    captured = Captured(f)
    for _ in range(4):
        x = torch.randn(4)
        pair, output, nothing, number = captured(x)
        assert type(pair) is _Pair
        assert pair.second[0] is pair.first
        assert pair.second[1] is weight
        assert pair.second[2] is x
        assert type(output) is _Output
        assert output.note == "note"
        assert torch.equal(output.logits, (x + weight) * 2)
        assert (nothing, number) == (None, 3.5)
    first, second = captured(x)[0].first, captured(x)[0].first
    assert first.data_ptr() != second.data_ptr()
    assert _hits(captured) >= 4, captured.refusals


def test_what_is_refused_is_told_and_left_alone() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x * 3

    captured = Captured(f)
    for sign in (1, -1, 1, -1, 1, -1, 1):
        x = torch.full((3,), float(sign))
        assert torch.equal(captured(x), f(x))
    assert _hits(captured) == 0
    assert sum(captured.refusals.values()) == MOST_REFUSALS
    assert "value is read" in next(iter(captured.refusals))


def test_an_exception_is_the_function_s_own() -> None:
    limit = [3]

    def f(x: Any) -> Any:
        if len(x) > limit[0]:
            raise ValueError(f"longer than {limit[0]}")
        return x + 1

    captured = Captured(f)
    for _ in range(6):
        with pytest.raises(ValueError, match="longer than 3"):
            captured(torch.ones(4))
    limit[0] = 5
    assert torch.equal(captured(torch.ones(4)), torch.full((4,), 2.0))


def test_with_gradients_a_call_runs_as_it_is() -> None:
    layer = nn.Linear(3, 2)
    captured = Captured(layer)
    with torch.enable_grad():
        for _ in range(4):
            x = torch.randn(4, 3)
            captured(x).sum().backward()
            assert layer.weight.grad is not None
            wanted = torch.autograd.grad(layer(x).sum(), layer.weight)[0]
            assert torch.equal(layer.weight.grad, wanted)
            layer.weight.grad = None


def test_threads_share_a_captured_function() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).eval()
    captured = Captured(net)
    inputs = [torch.randn(5, 8) for _ in range(40)]
    wanted = [net(x) for x in inputs]
    for x in inputs[:3]:
        captured(x)
    failed: list[int] = []

    def work(part: int) -> None:
        with torch.no_grad():
            for _ in range(20):
                for i in range(part, len(inputs), 4):
                    if not torch.equal(captured(inputs[i]), wanted[i]):
                        failed.append(i)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_what_a_call_writes_into_its_surroundings_is_written_again() -> None:
    class Counting:
        def __init__(self) -> None:
            self.last: Any = None
            self.depth, self.table = 0, {"n": 0}

    kept = Counting()

    def f(x: Any) -> Any:
        before = kept.depth
        kept.depth = before + 1
        y = x * kept.depth
        kept.depth = before
        kept.last = y
        kept.table["shape"] = y.shape
        return y

    captured = Captured(f)
    for _ in range(5):
        x = torch.randn(3)
        y = captured(x)
        assert torch.equal(y, x)
        assert kept.last is y
        assert kept.depth == 0
        assert kept.table.pop("shape") == (3,)
    assert _hits(captured) == 3, captured.refusals
    kept.depth = 4
    assert torch.equal(captured(x), x * 5)
    assert kept.depth == 4


def test_a_counter_in_the_surroundings_counts() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    net = Net()
    captured = Captured(net)
    for n in range(1, 50):
        assert torch.equal(captured(torch.ones(2)), torch.full((2,), float(n)))
    assert captured.retired  # no call could ever be replayed


def test_a_variable_around_the_function_is_set_in_every_call() -> None:
    last: Any = None

    def f(x: Any) -> Any:
        nonlocal last
        last = x * 2
        return x + 1

    captured = Captured(f)
    kept = []
    for n in range(5):
        captured(torch.full((2,), float(n)))
        kept.append(last)
    assert [x[0].item() for x in kept] == [0, 2, 4, 6, 8]
