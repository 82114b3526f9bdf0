"""Backends that programs define, and the fake one: what their groups are asked, and what collectives give with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.testing._internal.distributed.fake_pg import FakeStore


class Adding(dist.ProcessGroup):
    """all_reduce adds the group's size; broadcast gives a Work of its own."""

    def getBackendName(self) -> str:
        return "adding"

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        for tensor in tensors:
            tensor.add_(self.size())
        return dist._Work()


class Operations:
    """No ProcessGroup, but an object with an operation of one."""

    def __init__(self, told: Any, options: Any) -> None:
        self.told, self.options = told, options

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        tensors[0].mul_(10)
        return dist._Work()


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
    for name in ("ADDING", "OBJECTS"):
        dist.Backend._plugins.pop(name, None)
        if hasattr(dist.Backend, name):
            delattr(dist.Backend, name)


def test_a_group_that_a_program_defines() -> None:
    dist.Backend.register_backend("adding", lambda store, rank, size, timeout: Adding(rank, size), devices=["cpu"])
    assert dist.Backend.ADDING == "adding" and dist.is_backend_available("adding")
    with pytest.raises(AssertionError, match="ADDING c10d backend already exist"):
        dist.Backend.register_backend("adding", Adding)
    dist.init_process_group("adding", store=dist.HashStore(), rank=1, world_size=3)
    assert (dist.get_backend(), dist.get_rank(), dist.get_world_size()) == ("adding", 1, 3)
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [4, 4]
    work = dist.all_reduce(x, async_op=True)
    assert work is not None and work.wait() and work.is_completed() and x.tolist() == [7, 7]
    pair = dist.new_group([1, 2])
    assert isinstance(pair, Adding) and pair.size() == 2 and dist.get_process_group_ranks(pair) == [1, 2]
    assert dist.new_group([0, 2]) is dist.GroupMember.NON_GROUP_MEMBER
    with pytest.raises(NotImplementedError, match="Adding has no broadcast"):
        dist.broadcast(x, 0)
    with pytest.raises(TypeError, match="shrink_group"):
        dist.shrink_group([0])


def test_an_object_with_operations() -> None:
    with pytest.warns(UserWarning, match="Device capability of objects unspecified"):
        dist.Backend.register_backend("objects", Operations, extended_api=True)
    dist.init_process_group("cpu:objects,cuda:nccl", store=dist.HashStore(), rank=0, world_size=2, pg_options="options")
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == 10
    made = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert made.options == "options" and made.told.global_ranks_in_group == [0, 1] and made.told.group_size == 2


def test_the_fake_backend_is_one_rank_of_many() -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=8)
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    assert list(mesh.get_coordinate() or ()) == [1, 1] and mesh["tp"].size() == 4
    x = torch.arange(2.0)
    out = torch.empty(16)
    dist.all_gather_single(out, x)
    assert out.tolist() == [0, 1] * 8
    part = torch.empty(2)
    dist.reduce_scatter_single(part, torch.arange(16.0))
    assert part.tolist() == [10, 11]
    dist.all_reduce(x)
    assert x.tolist() == [0, 1] and dist.recv(x, 0) == 0
    everyone: list[Any] = [None] * 8
    dist.all_gather_object(everyone, {"a": 1})
    assert everyone == [{"a": 1}] * 8
    with pytest.raises(ValueError, match="monitored_barrier is only implemented for GLOO"):
        dist.monitored_barrier()
    dist.barrier()


def test_backends_by_device() -> None:
    texts = {"gloo": "cpu:gloo,cuda:gloo", "nccl": "cuda:nccl", "cpu:gloo,cuda:nccl": "cpu:gloo,cuda:nccl"}
    assert {name: str(dist.BackendConfig(name)) for name in texts} == texts
    for wrong in ("cpu:gloo,", "cpu:gloo,cpu:mpi", ":gloo"):
        with pytest.raises(ValueError, match=r"cpu|device"):
            dist.BackendConfig(wrong)
