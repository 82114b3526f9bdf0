"""Ranks that make different calls: each pair of calls is an error that says who called what, before data move, and the group goes
on; ranks that wait for each other are told so.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from distributed.ranks import needs_mpi, on_ranks, outcomes, start

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.mpi import waits

pytestmark = needs_mpi
DTYPES = {"": torch.float32, "d": torch.float64}


def calls_of(rank: int, size: int) -> dict[str, Callable[[], Any]]:
    """Calls of a few elements, by names."""
    found: dict[str, Callable[[], Any]] = {"barrier": dist.barrier}
    for count, (suffix, dtype) in itertools.product((4, 20000), DTYPES.items()):

        def x(times: int = 1, count: int = count, dtype: Any = dtype) -> torch.Tensor:
            return torch.ones(times * count, dtype=dtype)

        def xs(x: Any = x) -> list[torch.Tensor]:
            return [x() for _ in range(size)]

        for name, call in {
            "all_reduce": lambda x=x: dist.all_reduce(x()),
            "max": lambda x=x: dist.all_reduce(x(), dist.ReduceOp.MAX),
            "broadcast": lambda x=x: dist.broadcast(x(), 0),
            "broadcast from 1": lambda x=x: dist.broadcast(x(), 1),
            "all_gather": lambda x=x, xs=xs: dist.all_gather(xs(), x()),
            "gather": lambda x=x, xs=xs: dist.gather(x(), xs() if rank == 0 else None),
            "scatter": lambda x=x, xs=xs: dist.scatter(x(), xs() if rank == 0 else None),
            "reduce_scatter": lambda x=x, xs=xs: dist.reduce_scatter(x(), xs()),
            "all_to_all": lambda xs=xs: dist.all_to_all(xs(), xs()),
            "all_to_all_single": lambda x=x: dist.all_to_all_single(x(size), x(size)),
        }.items():
            found[f"{name} {count}{suffix}"] = call
    return found


def every_pair(rank: int, size: int) -> str:
    calls = calls_of(rank, size)
    text = ""
    for first, second in itertools.combinations(calls, 2):
        if {first, second} in ({"all_to_all 4", "all_to_all 20000"}, {"all_to_all 4d", "all_to_all 20000d"}):
            continue  # whose sizes are compared piece by piece
        with pytest.raises(dist.DistBackendError, match="the ranks of group default_pg disagree on") as caught:
            calls[second if rank == 1 else first]()
        text = str(caught.value)
    dist.all_reduce(x := torch.ones(3))
    assert x.tolist() == [size] * 3
    return text


@pytest.mark.parametrize("size", [2, 3])
def test_every_pair_of_calls(size: int) -> None:
    (text,) = set(on_ranks(size, every_pair, size, seconds=30))
    who = "rank 0" if size == 2 else "ranks 0 and 2"
    call, other = ("all_to_all(" + ", ".join(["float64[20000]"] * size) + ")", f"all_to_all_single(float64[{20000 * size}])")
    assert text == (f"the ranks of group default_pg disagree on which call to make: {who} called {call}; rank 1 called {other}")


def aspects(rank: int) -> list[str]:
    found = []
    half = torch.ones(4, dtype=torch.bfloat16)
    for call in (
        lambda: dist.all_reduce(torch.ones(4 + 2 * rank)),
        lambda: dist.all_reduce(half if rank else torch.ones(4)),
        lambda: dist.broadcast(torch.ones(2), rank),
        lambda: dist.all_gather([torch.empty(2 + rank)] * 2, torch.ones(2 + rank)),
        lambda: dist.all_to_all_single(torch.zeros(4), torch.ones(4), [2, 2], [2, 2] if rank else [3, 1]),
        lambda: dist.all_to_all([torch.zeros(2)] * 2, [torch.ones(2 + rank)] * 2),
        lambda: [work.wait() for work in [dist.all_reduce(torch.ones(rank + k), async_op=True) for k in (1, 2)]],
    ):
        with pytest.raises(dist.DistBackendError) as caught:
            call()
        found.append(str(caught.value).removeprefix("the ranks of group default_pg disagree on "))
    dist.all_reduce(torch.ones(2, 2) if rank else torch.ones(4))  # a shape isn't what moves
    return found


def test_what_differs_is_said() -> None:
    first, second = on_ranks(2, aspects)
    assert (
        first[:4]
        == second[:4]
        == [
            "the number of elements of a call: rank 0 called all_reduce(float32[4]); rank 1 called all_reduce(float32[6])",
            "the dtype of a call: rank 0 called all_reduce(float32[4]); rank 1 called all_reduce(bfloat16[4])",
            "the root, reduction or form of a call: rank 0 called broadcast(float32[2], root 0); rank 1 called "
            "broadcast(float32[2], root 1)",
            "the number of elements of a call: rank 0 called all_gather(float32[2], float32[2], float32[2]); rank 1 called "
            "all_gather(float32[3], float32[3], float32[3])",
        ]
    )
    assert "the ranks disagree on sizes: on rank 1, rank 0 sends 4 bytes where 8 are expected" in second[4]
    assert "rank 0 sends 12 bytes where 8 are expected" in first[4] and "rank 1 sends 12 bytes where 8 are expected" in first[5]


def uneven_steps(rank: int, then: str) -> str:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
    for _ in range(2 + rank):
        model(torch.ones(2, 3)).sum().backward()
    if rank == 0 and then == "goes on":
        dist.all_reduce(torch.ones(5))
    return "through"


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("goes on", "rank 0 called all_reduce(float32[5]); rank 1 called all_reduce(float32[12])"),
        ("ends", "all_reduce(float32[12]) of group default_pg: rank 0 has ended after"),
    ],
)
def test_one_rank_makes_a_step_more(then: str, words: str) -> None:
    (_, first), (through, second) = outcomes(*start(2, uneven_steps, then))
    assert not through and words in second[1]
    assert first == "through" if then == "ends" else words in first[1]


def entangled(rank: int, how: str) -> str:
    waits._FIRST, waits._APART = 0.3, 0.4
    groups = [dist.new_group([0, 1]), dist.new_group([1, 2]), dist.new_group([0, 2])]
    begin = time.monotonic()
    with pytest.raises(dist.DistBackendError, match="these ranks wait for each other and would for ever") as caught:
        if how == "groups":
            dist.barrier(group=groups[rank])
        elif rank == 0:
            dist.recv(torch.ones(3), 1)
        else:
            dist.all_reduce(torch.ones(3))
    assert time.monotonic() - begin < 10
    return str(caught.value).partition("would for ever: ")[2]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("groups", "rank 0 in barrier() of group 1; rank 1 in barrier() of group 2; rank 2 in barrier() of group 3"),
        (
            "message",
            "rank 0 in recv from rank 1(float32[3]) of group default_pg; rank 1 in all_reduce(float32[3]) of group "
            "default_pg; rank 2 in all_reduce(float32[3]) of group default_pg",
        ),
    ],
)
def test_ranks_that_wait_for_each_other(how: str, words: str) -> None:
    assert on_ranks(3, entangled, how) == [words] * 3


def patient(rank: int) -> float:
    """Waits that end, though those who wait have asked: for a rank that computes, for one whose thread will call."""
    waits._FIRST, waits._APART = 0.1, 0.1
    one, other = dist.new_group([0, 1]), dist.new_group([0, 1])
    x = torch.ones(1)
    if rank:
        time.sleep(1)
        dist.all_reduce(x, group=one)
        dist.send(x, 0)
        dist.all_reduce(x, group=other)
    else:
        dist.all_reduce(x, group=one)
        work = dist.irecv(y := torch.zeros(1), 1)
        dist.all_reduce(x, group=other)
        work.wait()
        assert y.item() == 2
    return x.item()


def test_waits_that_end() -> None:
    assert on_ranks(2, patient) == [4.0, 4.0]


def other_members(rank: int) -> str:
    with pytest.raises(RuntimeError if rank == 0 else ValueError) as caught:
        if rank == 0:
            dist.new_group([0, 1], timeout=timedelta(seconds=1))
        else:
            time.sleep(0.5)
            dist.new_group([1, 2] if rank == 1 else [0, 1, 2])
    return str(caught.value)


def test_groups_of_other_members() -> None:
    _, second, third = on_ranks(3, other_members)
    assert second == "rank 1 makes a group of the ranks [1, 2], and another rank one of [0, 1] instead"
    assert "rank 2 makes a group of the ranks [0, 1, 2], and another" in third
