"""torch.multiprocessing.spawn: processes that a program starts itself, which meet at an address or by a file."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from distributed.ranks import HANG, free_port, needs_mpi, shared_memory

import flambeau as torch
import flambeau.distributed as dist
import flambeau.multiprocessing as mp

pytestmark = needs_mpi


def train(rank: int, size: int, address: str, fails: bool, folder: str) -> None:
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size, timeout=timedelta(seconds=HANG))
    dist.all_reduce(x := torch.tensor([float(rank)]))
    Path(folder, str(rank)).write_text(f"{x.item()}")
    if fails and rank == 1:
        raise ValueError("the reason")
    if fails:
        with pytest.raises(RuntimeError, match=r"barrier.* of group default_pg: rank 1"):
            dist.barrier()
        time.sleep(10 * HANG)  # until it is ended
    dist.barrier()
    dist.destroy_process_group()


def test_processes_meet_at_an_address(tmp_path: Path) -> None:
    before = shared_memory()
    mp.spawn(train, args=(3, f"tcp://127.0.0.1:{free_port()}", False, str(tmp_path)), nprocs=3)
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == ["3.0"] * 3
    assert shared_memory() <= before


def test_processes_meet_by_a_file_and_one_fails(tmp_path: Path) -> None:
    before, begin = shared_memory(), time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="ValueError: the reason") as caught:
        mp.spawn(train, args=(2, f"file://{tmp_path / 'store'}", True, str(tmp_path)), nprocs=2)
    assert caught.value.error_index == 1 and time.monotonic() - begin < HANG
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["1.0"] * 2
    assert shared_memory() <= before
