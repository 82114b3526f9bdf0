"""Weights that replays find packed: from the third replay on, never stale, the same bits, given back with what is kept."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.capture.entry import Captured
from flambeau.codegen.programs import native
from flambeau.codegen.runtime import guards, weight_cache
from tests.codegen.test_weight_cache import TAKEN, USES, WRITES, fresh, operands

pytestmark = [
    pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know"),
    pytest.mark.filterwarnings("ignore:TypedStorage"),
]


@pytest.fixture(autouse=True)
def _kept_by_itself() -> Iterator[None]:
    before = torch.get_weight_cache()
    torch.set_weight_cache("auto")
    with torch.no_grad():
        yield
    torch.set_weight_cache(before)


def _constants(captured: Captured) -> list[Any]:
    entries = [entry for kind in captured.entries.values() for entry in kind]
    return [one for entry in entries for frames in entry.replay.form.free for one in frames.constants]


def _packed(captured: Captured) -> list[bool]:
    return [one.words[native.MARK] > 0 and one.packed is not None for one in _constants(captured)]


def _taken(captured: Captured) -> bool:
    """Whether the last replay packed nothing."""
    entries = [entry for kind in captured.entries.values() for entry in kind]
    return not any(frames.words[native.PACKS] for entry in entries for frames in entry.replay.form.free)


def _same(a: Any, b: Any) -> bool:
    return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8)))


def _captured(name: str = "product") -> tuple[Captured, Any, Any, Callable[[], bool]]:
    """A captured use of a weight, what it is of, and whether a call has the bits of the function's own."""
    use, x, w = operands(name)
    captured = Captured(lambda x: use(x, w))
    for _ in range(5):
        captured(x)
    assert captured.entries, captured.refusals
    return captured, x, w, lambda: all(_same(captured(x), fresh(use, x, w)) for _ in range(4))


@pytest.mark.parametrize("name", list(USES))
def test_a_weight_is_packed_once(name: str) -> None:
    captured, x, _, right = _captured(name)
    assert _packed(captured) == [True]
    captured(x)
    assert _taken(captured)
    assert right()
    x.mul_(3)
    assert right()


@pytest.mark.parametrize("name", list(WRITES))
def test_no_write_goes_unseen(name: str) -> None:
    captured, _, w, right = _captured()
    assert _packed(captured) == [True]
    before = w.clone()
    WRITES[name](w)
    assert not torch.equal(w, before), "nothing was written"
    assert right()
    WRITES[name](w)  # what it did may be there still
    assert right()


@pytest.mark.parametrize("name", list(TAKEN))
def test_what_was_taken_before_a_write(name: str) -> None:
    _, _, w, right = _captured()
    take, write = TAKEN[name]
    for _ in range(2):
        held = take(w)
        assert right()
        write(held)
        assert right()


def test_a_weight_that_is_an_argument() -> None:
    use, x, w = operands()
    captured = Captured(use)
    for weight in (w, torch.randn_like(w), w, w * 2):
        for _ in range(5):
            assert _same(captured(x, weight), fresh(use, x, weight))
    assert _packed(captured) == [True]


def test_another_tensor_in_the_weight_s_place() -> None:
    use, x, w = operands()
    layer = nn.Linear(w.shape[1], w.shape[0], bias=False)
    captured = Captured(lambda x: layer(x))
    for number in range(3):
        for _ in range(6):
            assert _same(captured(x), fresh(use, x, layer.weight))
        assert any(_packed(captured)), captured.refusals
        layer.weight = nn.Parameter(w * number)


def test_a_step_before_that_writes_to_the_weight() -> None:
    use, x, w = operands()
    captured = Captured(lambda x: use(x, w.mul_(0.5)))
    for _ in range(6):
        wanted = fresh(use, x, w * 0.5)
        assert _same(captured(x), wanted)
    assert captured.entries
    assert not _constants(captured)


def test_what_is_packed_is_shared_with_eager_calls_and_given_back_with_it() -> None:
    weight_cache.clear()
    captured, x, w, right = _captured()
    once = weight_cache.total()
    assert 0 < once <= 2 * w.nbytes
    use = USES["product"][0]
    use(x, w)
    use(x, w)
    assert weight_cache.total() == once
    weight_cache.clear()
    assert _packed(captured) == [False]
    assert [one.packed for one in _constants(captured)] == [None]
    assert right()
    assert _packed(captured) == [True]
    torch.set_weight_cache("never")
    assert right()
    assert _packed(captured) == [False]
    assert weight_cache.total() == 0


def test_a_function_that_is_dropped_leaves_nothing_behind() -> None:
    weight_cache.clear()
    captured, _, w, right = _captured()
    kept = next(iter(weight_cache._kept.values()))
    assert len(kept.dropped) == 1
    del captured, right
    gc.collect()
    assert len(kept.dropped) == 0
    del kept, w
    gc.collect()
    assert weight_cache.total() == 0


def test_threads_that_replay_while_the_cache_is_emptied() -> None:
    captured, x, w, _ = _captured()
    wanted = fresh(USES["product"][0], x, w)
    wrong: list[int] = []

    def work() -> None:
        with torch.no_grad():
            for _ in range(60):
                if not _same(captured(x), wanted):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        weight_cache.clear()
    for thread in threads:
        thread.join()
    assert not wrong
