"""A call that does to memory what its launches don't tell has no program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.programs import Refusal, record
from flambeau.codegen.runtime import state

weight = torch.ones(3)


def _branch(x: Any) -> Any:
    return x + 1 if x.sum() > 0 else x - 1


def _in_another_thread(x: Any) -> Any:
    worker = threading.Thread(target=lambda: x.add_(1))
    worker.start()
    worker.join()
    return x * 2


def _caught(x: Any) -> Any:
    try:
        torch.embedding(x[:, None], torch.tensor([9]))
    except IndexError:
        pass
    return x + 1


def _rebinds(x: Any) -> Any:
    y = weight.clone()
    weight.data = y
    return x + y


def _resizes(x: Any) -> Any:
    x.resize_(2)
    return x + 1


def _by_numpy(x: Any) -> Any:
    np.add(x.numpy(), 1, out=x.numpy())
    return x * 2


def _written_late(x: Any) -> Any:
    made = torch.tensor([1.0, 2.0, 3.0])
    y = x + made
    made.numpy()[0] = 5
    return y + made


def _seeds(x: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.functional.dropout(x)


CASES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x + x.sum().item(), "value is read"),
    (lambda x: x + float(x[0]), "value is read"),
    (_branch, "value is read"),
    (lambda x: x[x > 0], "value is read"),
    (lambda x: x + x.tolist()[0], "shown"),
    (lambda x: torch.from_numpy(x.numpy() + 1) * 2, "shown"),
    (lambda x: x + x.data_ptr() % 2, "shown"),
    (_by_numpy, "shown"),
    (_written_late, "between"),
    (_in_another_thread, "another thread"),
    (_caught, "raised"),
    (_rebinds, "other memory"),
    (_resizes, "layout"),
    (lambda x: x.t_() + 1, "layout"),
    (_seeds, "random"),
    (lambda x: x + torch.get_rng_state().sum(), "random"),
    (lambda x: torch.empty(3) + x, "nothing wrote"),
    (lambda x: torch.empty(3), "nothing wrote"),
    (lambda x: (x.untyped_storage().resize_(64), x + 1)[1], "exchanged"),
    (lambda x: torch.randn(3) + torch.randn(3) + x, "one by one"),
]


@pytest.mark.parametrize(("fn", "words"), CASES)
def test_refused(fn: Callable[[Any], Any], words: str) -> None:
    fn(torch.ones(3))
    wanted = fn(torch.ones(3)) if words not in ("random", "one by one", "nothing wrote") else None
    result, why = record(fn, torch.ones(3))
    assert isinstance(why, Refusal)
    assert words in why.reason
    assert wanted is None or result.equal(wanted)
    assert not state.words[state.TAPE]


def test_what_is_gone_after_the_call_is_refused() -> None:
    kept = {"h": torch.zeros(3)}

    def fn(x: Any) -> Any:
        kept["h"] = kept["h"] + x
        return kept["h"] * 2

    fn(torch.ones(3))
    why = record(fn, torch.ones(3))[1]
    assert isinstance(why, Refusal)
    assert "gone" in why.reason


def test_one_call_is_recorded_at_a_time() -> None:
    def fn(x: Any) -> Any:
        inner = record(lambda y: y + 1, x)[1]
        assert isinstance(inner, Refusal)
        return x + 1

    record(fn, torch.ones(3))
    assert not state.words[state.TAPE]


def test_an_exception_ends_the_recording() -> None:
    def fn(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        record(fn, torch.ones(3))
    assert not state.words[state.TAPE]
