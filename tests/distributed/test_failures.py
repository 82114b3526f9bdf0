"""What goes wrong: ranks that die, fail, leave, are missing or disagree. Each is an error that names the rank, soon, and leaves
nothing behind.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import pytest
from distributed.ranks import HANG, free_port, needs_mpi, on_ranks, outcomes, shared_memory, start

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.mpi import ending, library
from flambeau.distributed.stores.frames import packed

pytestmark = needs_mpi


def until_it_fails(rank: int, how: str, both: Any) -> str:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(0)
    with pytest.raises(RuntimeError) as caught:
        for _ in range(1000):
            dist.all_reduce(torch.ones(1))
    with pytest.raises(RuntimeError, match="rank 1"):  # the group is of no use any more, and says so
        dist.barrier()
    both.wait(HANG)  # a survivor that ended before the other one looks would be a second loss
    return str(caught.value)


@pytest.mark.parametrize(
    ("how", "words"), [("killed", "rank 1 is gone: its process ended without a word"), ("left", "rank 1 has ended")]
)
def test_a_rank_is_gone(how: str, words: str) -> None:
    before = shared_memory()
    found = outcomes(*start(3, until_it_fails, how, multiprocessing.get_context("fork").Barrier(2)))
    assert shared_memory() <= before
    for rank in (0, 2):
        good, message = found[rank]
        assert good, message[2]
        assert "all_reduce(float32[1]) of group default_pg: " + words in message


def killed_at_the_end(rank: int) -> str:
    dist.barrier()
    dist.destroy_process_group()
    if rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return "through"


def test_a_rank_is_killed_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other doesn't wait for its MPI_Finalize."""
    monkeypatch.setattr(ending, "_FINALIZE_TAKES", 10 * HANG)
    before = shared_memory()
    first, second = outcomes(*start(2, killed_at_the_end))
    assert first == (True, "through") and second is None
    assert shared_memory() <= before


def late_message(rank: int) -> str:
    """Rank 2 ends at once, and nobody but who waits for it is disturbed."""
    x = torch.zeros(2)
    if rank == 1:
        time.sleep(2.5)
        dist.send(x + 1, 0)
    elif rank == 0:
        dist.recv(x, 1)
        with pytest.raises(dist.DistBackendError, match="rank 2 has ended after 0 calls of this group"):
            dist.recv(x, 2)
    return str(x.tolist())


def test_a_message_comes_after_another_rank_has_ended() -> None:
    assert on_ranks(3, late_message) == ["[1.0, 1.0]", "[0.0, 0.0]", "[0.0, 0.0]"]


def killed_in_the_beginning(rank: int) -> str:
    if rank == 1:
        library.initialize = lambda: os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError) as caught:
        dist.init_process_group("gloo", timeout=timedelta(seconds=10 * HANG))
    return str(caught.value)


def test_a_rank_is_killed_while_mpi_begins() -> None:
    before = shared_memory()
    first, _, third = outcomes(*start(3, killed_in_the_beginning, begin=False))
    # the third may hear of the first one's end too before it looks
    assert all(
        any(
            words in message
            for words in (
                "MPI_Init: rank 1 is gone",
                "MPI_Init: ranks 0 and 1 are gone",
                "rank 0 is gone, it failed with PeerError",
            )
        )
        for _, message in (first, third)
    ), (first, third)
    assert shared_memory() <= before


def missing(rank: int) -> str:
    with pytest.raises(RuntimeError) as caught:
        dist.init_process_group(
            "gloo",
            timeout=timedelta(seconds=5),
            rank=rank,
            world_size=3,
            init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}",
        )
    return str(caught.value)


def test_a_rank_does_not_come() -> None:
    texts = on_ranks(2, missing, begin=False)  # the other may see it leave
    assert any("rank 2 of a world of 3 did not come in time (2 of 3 are here)" in text for text in texts), texts


def missing_in_a_file(rank: int, path: str) -> str:
    with pytest.raises(RuntimeError) as caught:
        dist.init_process_group("gloo", timeout=timedelta(seconds=5), rank=2 * rank, world_size=3, init_method=f"file://{path}")
    return str(caught.value)


def test_a_missing_rank_is_named(tmp_path: Any) -> None:
    texts = on_ranks(2, missing_in_a_file, str(tmp_path / "store"), begin=False)
    assert all("rank 1 of a world of 3 did not come in time (2 of 3 are here)" in text for text in texts)


def disagreeing(rank: int, path: str) -> str:
    with pytest.raises(RuntimeError) as caught:
        dist.init_process_group(
            "gloo", timeout=timedelta(seconds=60), rank=rank, world_size=2 + rank, init_method=f"file://{path}"
        )
    return str(caught.value)


def test_world_sizes_disagree(tmp_path: Any) -> None:
    first, second = on_ranks(2, disagreeing, str(tmp_path / "store"), begin=False)
    assert "rank 0 was told a world size of 2, and rank 1 one of 3" in first
    assert "rank 1 was told a world size of 3, and rank 0 one of 2" in second


def twice(rank: int, path: str) -> str:
    with pytest.raises(RuntimeError) as caught:
        dist.init_process_group("gloo", timeout=timedelta(seconds=5), rank=1, world_size=2, init_method=f"file://{path}")
    return str(caught.value)


def test_two_processes_are_the_same_rank(tmp_path: Any) -> None:
    texts = on_ranks(2, twice, str(tmp_path / "store"), begin=False)
    assert any("two processes say that they are rank 1" in text for text in texts)


def test_the_port_is_taken() -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"failed to listen on any local network address. port: {port}"):
            dist.init_process_group("gloo", rank=0, world_size=2, init_method=f"tcp://127.0.0.1:{port}")
    assert not dist.is_initialized()


def test_nobody_answers() -> None:
    port = free_port()
    with pytest.raises(RuntimeError, match=rf"timed out after 300ms while trying to connect to \(127.0.0.1, {port}\)"):
        dist.init_process_group(
            "gloo", rank=1, world_size=2, init_method=f"tcp://127.0.0.1:{port}", timeout=timedelta(milliseconds=300)
        )


def _outward() -> str:
    """An address of this machine that isn't the loopback's; one of nobody's where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])


def slow(rank: int) -> str:
    short = dist.new_group([0, 1, 2], timeout=timedelta(seconds=3), group_desc="short")
    if rank == 1:  # strangers at the port of the lifelines
        host, port = next(iter(ending.lifelines))._socket.getpeername()[:2]
        for sent in (
            b"GET / HTTP/1.1\r\n\r\n",
            packed(7),
            packed([]),
            packed(["lost", 2, "nonsense", False]),
            packed(["here", []]),
            packed(["ask"]),
            b"x" * 48 + packed(["here", 2]) + packed(["lost", 2, "x", False]),
        ):
            with socket.create_connection((host, port)) as stranger:
                number = stranger.recv(100)
                stranger.sendall(sent)
                assert len(number) == 16 and (len(sent) < 48 or stranger.recv(100) == b"")  # nothing that helps
        with pytest.raises(OSError):  # nobody else's machine gets that far
            socket.create_connection((_outward(), port), timeout=1)
    dist.all_reduce(torch.ones(1), group=short)
    message = ""
    if rank != 2:
        with pytest.raises(RuntimeError) as caught:
            dist.broadcast(torch.ones(5), 0, group=short) if rank else dist.all_reduce(torch.ones(5), group=short)
        message = str(caught.value)
    dist.monitored_barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"\[Rank 0\]: Ranks 1, 2 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(milliseconds=200), wait_all_ranks=True)
    return message


def test_a_timeout_says_who_did_not_call() -> None:
    first, second, _ = on_ranks(3, slow)
    assert "Timed out waiting 3000ms for all_reduce(float32[5]) of group short to complete on rank 0: " in first
    assert (
        "rank 2 has made 1 calls, the last all_reduce(float32[1]); rank 1 called broadcast(float32[5], root 0) instead"
    ) in first
    assert "rank 0 called all_reduce(float32[5]) instead" in second


def lengths_differ(rank: int) -> str:
    x = torch.zeros(60000 + 1000 * rank)
    with pytest.raises(RuntimeError) as caught:
        dist.recv(x[: 3 + rank], 0) if rank else dist.send(x[:9], 1)
        dist.barrier()
    return str(caught.value)


def test_a_message_that_is_too_long() -> None:
    sender, receiver = on_ranks(2, lengths_differ)
    assert "recv from rank 0(float32[4]) on rank 1: MPI failed: Message truncated" in receiver
    assert "Is what was sent longer than the tensor that receives it?" in receiver
    assert "barrier() of group default_pg: rank 1" in sender


def test_a_rank_that_is_none_is_refused_at_once() -> None:
    for rank, size, words in ((5, 3, "rank 5 is not one of a world of 3"), (0, 0, "a world has at least one rank, not 0")):
        with pytest.raises(ValueError, match=words):
            dist.init_process_group("gloo", rank=rank, world_size=size, init_method=f"tcp://127.0.0.1:{free_port()}")


def refused(rank: int) -> None:
    for call, kind, words in (
        (lambda: dist.init_process_group("nccl"), RuntimeError, "Distributed package doesn't have NCCL built in"),
        (lambda: dist.init_process_group("foo"), AssertionError, "Unknown backend type foo"),
        (lambda: dist.init_process_group(3), ValueError, "Backend constructor parameter must be string-ish"),
        (lambda: dist.init_process_group("gloo", timeout=3), TypeError, "Expected timeout argument to be of type datetime.timed"),
        (lambda: dist.init_process_group("gloo", init_method="foo://x"), RuntimeError, "No rendezvous handler for foo://"),
        (
            lambda: dist.init_process_group("gloo", init_method="env://", store=dist.HashStore()),
            AssertionError,
            "Cannot specify both init_method and store.",
        ),
        (lambda: dist.init_process_group("gloo", store=dist.HashStore()), AssertionError, "world_size must be positive if using"),
        (lambda: dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1"), ValueError, "rank parameter missing"),
        (
            lambda: dist.init_process_group("gloo", device_id=torch.device("cpu")),
            ValueError,
            "device_id parameter must be an accelerator with an index",
        ),
        (
            lambda: dist.init_process_group("gloo", device_id=torch.device("cuda:0")),
            ValueError,
            "device_id cuda:0 does not match the current compilation's accelerator support: None",
        ),
        (lambda: dist.init_process_group("gloo", device_id=0), ValueError, "device_id is an int, but no accelerator support"),
        (lambda: dist.destroy_process_group(), AssertionError, "Process group cannot be None"),
        (lambda: dist.all_reduce(torch.ones(1)), ValueError, "Default process group has not been initialized"),
    ):
        with pytest.raises(kind, match=words):
            call()
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        value = os.environ.pop(name)
        with pytest.raises(ValueError, match=f"environment variable {name} expected, but not set"):
            dist.init_process_group("gloo")
        os.environ[name] = value
    dist.init_process_group("gloo")
    with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
        dist.init_process_group("gloo")


def test_calls_that_cannot_be() -> None:
    on_ranks(1, refused, begin=False)


FIRST = """
import flambeau.distributed as dist
from mpi4py import MPI
assert MPI.COMM_WORLD.Get_size() == MPI.COMM_WORLD.size == 1 and not MPI.Is_initialized()
"""


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1); print('made')", "made"),
        ("print(MPI.COMM_WORLD.allreduce(3), MPI.Is_initialized())", "3 True"),
    ],
)
def test_a_library_that_asks_mpi_for_its_size_does_not_start_it(code, answer):
    made = subprocess.run([sys.executable, "-c", FIRST + code], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == answer
