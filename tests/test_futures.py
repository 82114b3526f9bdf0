"""torch.futures: results, errors and callbacks, in one thread and between threads."""

from __future__ import annotations

import pickle
import threading

import pytest

from flambeau.futures import Future, collect_all, wait_all
from flambeau.jit import fork, wait


def test_a_result_and_what_waits_for_it() -> None:
    first: Future[int] = Future()
    seen: list[int] = []
    twice = first.then(lambda future: future.wait() * 2)
    first.add_done_callback(lambda future: seen.append(future.value()))
    assert not first.done() and not twice.done()
    with pytest.raises(RuntimeError):
        first.value()
    first.set_result(3)
    assert (first.wait(), twice.wait(), seen, first.done()) == (3, 6, [3], True)
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        first.set_result(4)
    assert first.then(lambda future: future.value() + 1).value() == 4


def test_errors() -> None:
    failed: Future[int] = Future()
    with pytest.raises(AssertionError, match="4 is of type <class 'int'>, not an Exception"):
        failed.set_exception(4)  # type: ignore[arg-type]
    failed.set_exception(ValueError("bad"))
    assert failed.done()
    for call in (failed.wait, failed.value):
        with pytest.raises(ValueError, match="bad"):
            call()
    with pytest.raises(RuntimeError, match="running the callback: ValueError: bad"):
        failed.then(lambda future: future.wait()).wait()


def test_an_error_in_a_callback_goes_no_further(capsys: pytest.CaptureFixture[str]) -> None:
    future: Future[int] = Future()
    future.add_done_callback(lambda future: 1 // 0)  # type: ignore[arg-type, return-value]
    future.set_result(1)
    assert future.wait() == 1 and "ZeroDivisionError" in capsys.readouterr().err


def test_several() -> None:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    every = collect_all(futures)
    for number, future in enumerate(futures):
        assert not every.done()
        future.set_result(number)
    assert every.value() == futures and wait_all(futures) == [0, 1, 2] and wait_all([]) == []
    bad: Future[int] = Future()
    bad.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        wait_all([futures[0], bad])


def test_another_thread_brings_the_result() -> None:
    future: Future[str] = Future()
    threading.Timer(0.02, lambda: future.set_result("late")).start()
    assert future.wait() == "late"
    assert wait(fork(lambda x: x + 1, 1)) == 2


def test_devices_must_have_numbers() -> None:
    with pytest.raises(ValueError, match="Expected devices to have indices, got cpu"):
        Future(devices=["cpu"])


def test_a_future_cannot_be_pickled():
    with pytest.raises(RuntimeError, match=r"Can not pickle torch\.futures\.Future"):
        pickle.dumps(Future())
    with pytest.raises(RuntimeError, match="Future can't be None"):
        wait(None)
    for gather in (wait_all, collect_all):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            gather((Future(), None))
    with pytest.raises(TypeError, match="sequence of Futures"):
        collect_all([3])
