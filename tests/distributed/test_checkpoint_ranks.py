"""What several ranks save together in safetensors files, by processes of their own or each for itself, and load again."""

import os

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau import nn
from flambeau.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_state_dict,
)
from flambeau.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
from flambeau.distributed.fsdp import StateDictType, fully_shard
from flambeau.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

pytestmark = needs_mpi


def whole(state):
    return {key: value.full_tensor() if isinstance(value, DTensor) else value for key, value in state.items()}


def cut(dim=0):
    mesh = init_device_mesh("cpu", (2,))
    return {
        "w": distribute_tensor(torch.arange(20.0).reshape(5, 4), mesh, [Shard(dim)]),
        "v": distribute_tensor(torch.arange(24).reshape(2, 3, 4), mesh, [Shard(1)]),
        "r": torch.arange(3.0, dtype=torch.bfloat16),
    }


def blank(state):
    return {key: torch.zeros_like(value) for key, value in state.items()}


def equal(found, wanted):
    return all(torch.equal(a, b) for a, b in zip(whole(found).values(), whole(wanted).values(), strict=True))


def in_safetensors(folder):
    state, files = cut(), {"w": 1, "v": 2, "r": 2}
    writer = dcp.HuggingFaceStorageWriter(folder, files, save_distributed=True, enable_consolidation=True)
    dcp.save(state, storage_writer=writer)
    for place in (folder, os.path.join(folder, "sharded")):
        for like in (state, cut(1)):
            found = blank(like)
            dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(place))
            assert equal(found, state)
    names = sorted(os.listdir(os.path.join(folder, "sharded")))
    assert names[0] == "shard-00001-model-00001-of-00002.safetensors"
    assert len(names) == 4


def by_processes(folder):
    state = cut()
    for k in range(2):
        future = dcp.async_save(state, checkpoint_id=folder, async_checkpointer_type=AsyncCheckpointerType.PROCESS)
        state["w"].add_(1.0)
        future.result()
        found = blank(state)
        dcp.load(found, checkpoint_id=folder)
        assert whole(found)["w"][0, 0] == k


def each_for_itself(folder):
    state = cut()
    dcp.save(state, checkpoint_id=folder, use_collectives=False)
    found = blank(state)
    dcp.load(found, checkpoint_id=folder)
    assert equal(found, state)
    dist.barrier()
    dcp.save(state, checkpoint_id=folder + "2")
    with pytest.raises(RuntimeError, match="save each rank's elsewhere"):
        dcp.save(state, checkpoint_id=folder + "2", use_collectives=False)


def one_file_for_all(path):
    state = cut()
    values = whole(state)
    if dist.get_rank() == 0:
        torch.save({"m": values}, path)
    dist.barrier()
    found = {"m": blank(cut(1))}
    dcp.load(found, storage_reader=BroadcastingTorchSaveReader(), planner=DynamicMetaLoadPlanner(), checkpoint_id=path)
    assert equal(found["m"], state)


def model_of(seed, wrap):
    torch.manual_seed(seed)
    model = wrap(nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def the_first_ranks(rank):
    """Whole state dicts that only the first rank has, in a model that is divided."""
    model, optimizer = model_of(rank, lambda module: module)
    own = get_state_dict(model, optimizer) if rank == 0 else ({}, {})
    other, its = model_of(7, fully_shard)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_state_dict(other, its, model_state_dict=own[0], optim_state_dict=own[1], options=options)
    on_first = StateDictOptions(full_state_dict=True, cpu_offload=True)
    found, states = get_state_dict(other, its, options=on_first)
    assert bool(found) is (rank == 0)
    for name in own[0]:
        assert torch.equal(found[name], own[0][name])
        assert torch.equal(states["state"][name]["exp_avg"], own[1]["state"][name]["exp_avg"])


def states_of_a_wrapper(folder):
    model, optimizer = model_of(1, FSDP)
    with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        state = {"model": model.state_dict(), "optimizer": FSDP.optim_state_dict(model, optimizer)}
        dcp.save(state, checkpoint_id=folder)
    other, its = model_of(2, FSDP)
    with FSDP.state_dict_type(other, StateDictType.SHARDED_STATE_DICT):
        names = other.state_dict()
        found = dcp.load_sharded_optimizer_state_dict(names, "optimizer", dcp.FileSystemReader(folder))
        assert isinstance(found["optimizer"]["state"]["0.weight"]["exp_avg"], DTensor)
        its.load_state_dict(FSDP.optim_state_dict_to_load(other, its, found["optimizer"]))
    wanted, got = (get_optimizer_state_dict(m, o)["state"] for m, o in ((model, optimizer), (other, its)))
    assert all(equal(got[name], wanted[name]) for name in wanted)
    assert set(get_model_state_dict(other)) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    with pytest.raises(NotImplementedError, match="optim_input"):
        FSDP.full_optim_state_dict(model, optimizer, model.parameters())
    with pytest.raises(ValueError, match="leave it out"):
        FSDP.full_optim_state_dict(model, optimizer, group=dist.new_group([dist.get_rank()], use_local_synchronization=True))
    with pytest.raises(KeyError, match="nothing under"):
        dcp.load_sharded_optimizer_state_dict(names, "other", dcp.FileSystemReader(folder))


def body(rank, folder):
    in_safetensors(os.path.join(folder, "hf"))
    by_processes(os.path.join(folder, "process"))
    each_for_itself(os.path.join(folder, "alone"))
    one_file_for_all(os.path.join(folder, "one.pt"))
    the_first_ranks(rank)
    states_of_a_wrapper(os.path.join(folder, "wrapper"))


def test_of_two_ranks(tmp_path):
    on_ranks(2, body, str(tmp_path), seconds=60)
