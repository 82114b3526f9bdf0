"""What libraries import of torch.distributed beside its main parts: replicate and checkpoint, collective_utils, the older state
dicts of FSDP's optimizers, profiles of collectives, remote devices, options from the environment.
"""

from __future__ import annotations

import argparse

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed import _symmetric_memory, argparse_util, collective_utils
from flambeau.distributed._composable import checkpoint, replicate
from flambeau.distributed.fsdp import FullyShardedDataParallel, OptimStateKeyType
from flambeau.distributed.fsdp._common_utils import clean_tensor_name


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def replicated(rank: int) -> None:
    plain, net = network(), network()
    if rank:  # which becomes rank 0's
        with torch.no_grad():
            net[0].weight.zero_()
    assert replicate(net) is net and type(net) is nn.Sequential and list(net.state_dict()) == list(plain.state_dict())
    data = torch.arange(16.0).view(4, 4)
    for _ in range(2):
        for each in (plain, net):
            each.zero_grad()
        plain(data).mean().backward()
        net(data[2 * rank : 2 * rank + 2]).mean().backward()
        for mine, theirs in zip(net.parameters(), plain.parameters()):
            torch.testing.assert_close(mine.grad, theirs.grad)
    with pytest.raises(RuntimeError, match="was called on this module before"):
        replicate(net)


def optimizers(rank: int) -> None:
    kind = FullyShardedDataParallel
    model = kind(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    whole = kind.full_optim_state_dict(model, optimizer)
    assert bool(whole) == (rank == 0)
    other = torch.optim.AdamW(model.parameters(), lr=0.1)
    other.load_state_dict(kind.scatter_full_optim_state_dict(whole or None, model, optim=other))
    third = torch.optim.AdamW(model.parameters(), lr=0.1)
    third.load_state_dict(kind.flatten_sharded_optim_state_dict(kind.sharded_optim_state_dict(model, optimizer), model, third))
    for parameter in model.parameters():
        for each in (other, third):
            torch.testing.assert_close(each.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg"])
    if rank == 0:
        numbered = kind.rekey_optim_state_dict(whole, OptimStateKeyType.PARAM_ID, model, optim=optimizer)
        assert sorted(numbered["state"]) == [0, 1, 2, 3]
        named = kind.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, model, optim=optimizer)
        assert named["state"].keys() == whole["state"].keys() and "0.weight" in named["state"]


def profiles(rank: int) -> None:
    x = torch.ones(4)
    with torch.profiler.profile() as profile:
        dist.all_reduce(x)
        with torch.profiler.record_function("mine"):
            works = [dist.broadcast(x, 0, async_op=True), dist.all_gather_single(torch.empty(8), x, async_op=True)]
        for work in works:
            work.wait()
        dist.barrier()
    events = [event for event in profile.events() if event.name.startswith("gloo:") or event.name == "mine"]
    assert [event.name for event in events] == ["gloo:all_reduce", "mine", "gloo:broadcast", "gloo:all_gather", "gloo:barrier"]
    assert all(event.cpu_time_total > 0 for event in events)


def together(rank: int) -> None:
    group = dist.group.WORLD
    assert collective_utils.broadcast(lambda: "made" if rank == 0 else 1 / 0, pg=group) == "made"
    assert collective_utils.all_gather(lambda: rank, pg=group) == [0, 1]
    with pytest.raises(RuntimeError, match="Rank 1 failed: stage reading: exception division by zero"):
        collective_utils.all_gather(lambda: 1 / (1 - rank), "reading", group)
    with pytest.raises(TypeError, match="Object type at index 0 is <class 'int'>, while object type at index 1"):
        collective_utils.all_gather_object_enforce_type(group, [None, None], "a" if rank else 1)
    assert dist.distributed_c10d._pg_map[group][0] == "gloo" and dist._get_process_group_name(group) == group.group_name


def everything(rank: int) -> None:
    for part in (replicated, optimizers, profiles, together):
        part(rank)


@needs_mpi
def test_parts_of_several_processes() -> None:
    on_ranks(2, everything)


def test_a_module_that_computes_again() -> None:
    plain, net, calls = network(), network(), []
    assert checkpoint(net) is net
    net[1].register_forward_hook(lambda *_: calls.append(1))
    x = torch.ones(3, 4)
    for each in (plain, net):
        each(x).sum().backward()
    assert len(calls) == 2
    torch.testing.assert_close([p.grad for p in net.parameters()], [p.grad for p in plain.parameters()])
    with pytest.raises(NotImplementedError, match="use_reentrant=True is not supported in composable checkpoint"):
        checkpoint(network(), use_reentrant=True)


def test_devices_of_other_processes() -> None:
    device = dist._remote_device("worker1/cpu")
    assert (device.worker_name(), device.rank(), str(device.device()), repr(device)) == ("worker1", None, "cpu", "worker1/cpu")
    assert dist._remote_device("rank:3/cpu").rank() == 3 and repr(dist._remote_device("cpu")) == "cpu"
    for wrong in ("a/b/c", "rank:x/cpu", "rank:-1/cpu", "/cpu"):
        with pytest.raises(ValueError, match="Could not parse remote_device"):
            dist._remote_device(wrong)


def test_options_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_SIZE", "3")
    monkeypatch.setenv("PET_LOUD", "1")
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", action=argparse_util.env, type=int, required=True)
    parser.add_argument("--loud", action=argparse_util.check_env)
    assert vars(parser.parse_args([])) == {"size": 3, "loud": True} and parser.parse_args(["--size", "4"]).size == 4


def test_what_is_not_there_says_so() -> None:
    assert not _symmetric_memory.is_symm_mem_enabled_for_group("0") and _symmetric_memory.get_backend("cuda") is None
    with pytest.raises(NotImplementedError, match="enable_symm_mem_for_group"):
        _symmetric_memory.enable_symm_mem_for_group("0")
    assert clean_tensor_name("_fsdp_wrapped_module.0.weight") == "0.weight"
