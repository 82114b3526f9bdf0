"""A captured function gives what the function gives, whatever has changed around it: random changes, compared bit by bit."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.capture.entry import Captured
from tests.capture.generated_programs import program
from tests.capture.mutated_programs import CASES, Case


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return (
            type(a) is type(b)
            and (a.shape, a.stride(), a.dtype, a.requires_grad) == (b.shape, b.stride(), b.dtype, b.requires_grad)
            and bytes(a.detach().contiguous().numpy()) == bytes(b.detach().contiguous().numpy())
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return type(a) is type(b) and list(a) == list(b) and all(_same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


def _outcome(function: Any, args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def run(case: Any, seed: int, steps: int) -> dict[str, int]:
    """Random changes and calls; gives how often the program answered and the reasons where it didn't."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    try:
        return _run(case(), r, steps)
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.use_deterministic_algorithms(False)


def _run(made: Case, r: random.Random, steps: int) -> dict[str, int]:
    captured = Captured(made.function)
    with torch.no_grad():
        for step in range(steps):
            for _ in range(r.choice([1, 3])):
                args = made.arguments()
                twin = copy.deepcopy(args)
                state = torch.get_rng_state()
                wanted = _outcome(made.function, args)
                after = torch.get_rng_state()
                torch.set_rng_state(state)
                got = _outcome(captured, twin)
                assert _same(wanted, got), f"step {step}: {wanted} but {got}; {captured.refusals}"
                assert _same(args, twin), f"step {step}: arguments"
                assert torch.equal(after, torch.get_rng_state())
            r.choice(made.changes)(r)
    hits = sum(entry.hits for entries in captured.entries.values() for entry in entries)
    return {"hits": hits, **captured.refusals}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_never_stale(case: Any) -> None:
    told = run(case, 0, 60)
    assert told["hits"] > 0, told


def test_never_stale_in_generated_programs(tmp_path: Path) -> None:
    """Some of those that `make fuzz-replays` runs."""
    hits = [run(lambda seed=seed: program(seed, tmp_path), seed, 25)["hits"] for seed in range(8)]
    assert sum(hits) > 40, hits
