"""A signal's handler that raises ends a kernel in the middle of its chunk, on whatever thread that runs."""

import signal
import time
from collections.abc import Callable, Iterator

import pytest

import flambeau as torch
from flambeau.codegen import jit
from flambeau.codegen.builder import kernel, module
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered


class Stop(Exception):
    pass


@pytest.fixture
def stopped() -> Iterator[Callable]:
    """stopped(work, seconds): the CPU time that this thread has used when `work`, stopped after so many seconds, has ended."""

    def handler(*_: object) -> None:
        raise Stop

    def run(work: Callable, seconds: float) -> float:
        start = time.thread_time()
        with pytest.raises(Stop):
            signal.setitimer(signal.ITIMER_REAL, seconds)
            work()
        return time.thread_time() - start

    before, threads = signal.signal(signal.SIGALRM, handler), torch.get_num_threads()
    yield run
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    torch.set_num_threads(threads)


@pytest.mark.parametrize("endless", [0, 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_chunk_without_end(stopped: Callable, threads: int, endless: int) -> None:
    """Chunk 0 or 1 never ends by itself: with two threads, the caller works on it or waits for the one that does."""
    f = kernel()
    with f.loop(f["begin"], f["end"]) as chunk:
        length = f.select(chunk.equals(endless), f.i64(1 << 62), f.i64(1))
        with f.stretches(0, length, 1 << 10) as (first, last), f.loop(first, last) as i:
            f.store(i, f.buffer(0), chunk)
    torch.set_num_threads(threads)
    out = torch.zeros(2, dtype=torch.int64)
    run = lowered(Plan([Phase(jit.kernel_of_text(module(f)), 2, 1, [])], [out._layout], release=True))
    stopped(lambda: run(out), 0.05)
    assert out[endless] > 0
    assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum() == 300**3  # all threads are there


def test_a_kernel_is_left_only_by_the_launch_that_is_to_end(stopped: Callable) -> None:
    """Operators that the handler runs meanwhile, by launches of their own, do all their work."""
    done = []

    def handler(*_: object) -> None:
        done.append(torch.arange(600_000).flip(0).sort()[0].diff().unique().tolist())
        raise Stop

    signal.signal(signal.SIGALRM, handler)
    x = torch.arange(3_000_000, dtype=torch.float64).flip(0)

    def work() -> None:
        while True:
            x.sort()

    torch.set_num_threads(2)
    stopped(work, 0.05)
    assert done == [[1]]


def test_a_long_row_is_not_sorted_to_its_end(stopped: Callable) -> None:
    torch.set_num_threads(1)
    x = torch.arange(6_000_000).mul_(0x9E3779B97F4A7C15 - (1 << 64))
    start = time.thread_time()
    x.sort()
    whole = time.thread_time() - start
    assert stopped(x.sort, 0.01) < 0.8 * whole
