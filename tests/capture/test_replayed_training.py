"""Captured training gives what the functions themselves give, whatever changes between calls: compared bit by bit."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.entry import Captured
from tests.capture.test_never_stale import _same
from tests.capture.trained_programs import CHANGES, KINDS, NETS, OPTIMIZERS, Training, _option, _written_option


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def _call(t: Training, function: Any, seed: int, x: Any, y: Any) -> Any:
    torch.manual_seed(seed)
    try:
        result = t.call(function, x, y)
    except Exception as error:
        result = type(error), str(error)
    return [result, t.seen(), torch.get_rng_state()]


def run(net: Any, optimizer: str, kind: str, seed: int, steps: int, changes: Any = CHANGES) -> dict[str, int]:
    """Random changes and calls of two trainings; gives how often a program answered and the reasons where it didn't."""
    made = []
    for _ in range(2):
        torch.manual_seed(seed)
        made.append(Training(net, OPTIMIZERS[optimizer], kind))
    plain, other = made
    captured = Captured(other.function)
    r = random.Random(seed)
    for step in range(steps):
        for _ in range(r.choice([1, 1, 3])):
            torch.manual_seed(r.randrange(1 << 30))
            batch = r.choice([5, 5, 5, 5, 3])
            x, y, number = torch.randn(batch, 4), torch.randn(batch, 3), r.randrange(1 << 30)
            wanted, got = _call(plain, plain.function, number, x, y), _call(other, captured, number, x.clone(), y.clone())
            assert _same(wanted, got), f"step {step}: {wanted} but {got}; {captured.refusals}"
        if changes:
            change, choice = r.choice(changes), r.randrange(1 << 30)
            for each in made:
                torch.manual_seed(choice)
                change(each, random.Random(choice))
    hits = sum(entry.hits for entries in captured.entries.values() for entry in entries)
    return {"hits": hits, **captured.refusals}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_never_stale(net: Any, kind: str) -> None:
    run(net, random.Random(f"{net.__name__} {kind}").choice(list(OPTIMIZERS)), kind, 0, 25)


@pytest.mark.parametrize(
    ("net", "kind", "optimizer"),
    [*itertools.product(NETS, KINDS, ["adamw"]), *itertools.product(NETS[:1], ["step", "update"], OPTIMIZERS)],
)
def test_steps_are_replayed(net: Any, kind: str, optimizer: str) -> None:
    change = _written_option if optimizer == "tensors" else _option("lr", lambda r: r.random() * 0.1)
    told = run(net, optimizer, kind, 1, 6, [change])
    assert told["hits"] >= 3, told
    assert "the entry 'lr' of a dict" not in told


@pytest.mark.parametrize("first", [True, False])
def test_a_step_that_writes_to_its_learning_rate(first: bool) -> None:
    """Before the optimizer reads it, which isn't replayed, or afterwards."""
    made = []
    for wrap in (lambda f: f, Captured):
        p = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([p], lr=torch.tensor(1.0))

        def step(optimizer: Any = optimizer, p: Any = p) -> None:
            p.grad = p * 1
            if first:
                optimizer.param_groups[0]["lr"].mul_(0.5)
            optimizer.step()
            if not first:
                optimizer.param_groups[0]["lr"].mul_(0.5)

        function = wrap(torch.no_grad()(step))
        made.append([(function(), p.detach().clone())[1] for _ in range(6)])
    assert _same(*made)
    assert bool(function.entries) is not first, function.refusals
