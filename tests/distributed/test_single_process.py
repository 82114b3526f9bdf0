"""torch.distributed on one process: the state in which libraries run alone, and what is refused."""

from __future__ import annotations

import functools
import importlib

import pytest

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from flambeau.distributed.fsdp import MixedPrecision, ShardingStrategy
from flambeau.distributed.fsdp.wrap import (
    ModuleWrapPolicy,
    enable_wrap,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from flambeau.distributed.mpi import library
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard

MODULES = """_composable.fsdp _composable.fsdp.fully_shard _functional_collectives _shard.sharded_tensor _tensor
_tensor.device_mesh _tensor.experimental _tensor.placement_types algorithms.ddp_comm_hooks.default_hooks
algorithms.ddp_comm_hooks.post_localSGD_hook algorithms.ddp_comm_hooks.powerSGD_hook algorithms.join
algorithms.model_averaging.averagers autograd checkpoint._consolidate_hf_safetensors checkpoint._fsspec_filesystem
checkpoint.default_planner checkpoint.filesystem checkpoint.format_utils checkpoint.hf_storage checkpoint.optimizer
checkpoint.state_dict checkpoint.state_dict_loader checkpoint.state_dict_saver constants elastic.multiprocessing.errors
fsdp.sharded_grad_scaler launch launcher.api nn.functional optim pipelining rpc run tensor._utils tensor.device_mesh
tensor.experimental._attention tensor.parallel utils"""


@pytest.mark.parametrize("name", MODULES.split())
def test_modules_import(name: str) -> None:
    importlib.import_module(f"flambeau.distributed.{name}")


def test_the_state_of_a_process_alone() -> None:
    assert not dist.is_initialized() and not dist.is_torchelastic_launched()
    assert dist.group.WORLD is None and not dist.is_nccl_available()
    assert dist.is_available() == dist.is_backend_available("gloo") == dist.is_gloo_available()
    assert not isinstance(torch.ones(1), DTensor) and dist.rpc.is_available()
    for call in (
        lambda: dist.all_reduce(torch.ones(1)),
        dist.barrier,
        dist.get_rank,
        dist.get_world_size,
        dist.get_backend,
        lambda: dist.new_group([0]),
        lambda: dist.nn.functional.all_gather(torch.ones(1)),
        lambda: dist.fsdp.FullyShardedDataParallel(torch.nn.Linear(1, 1)),
    ):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        dist.rpc.init_rpc("worker")
    with pytest.raises(AttributeError, match="has no attribute 'surely_not'"):
        dist.surely_not


def test_without_mpi_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "is_available", lambda: False)
    assert not dist.is_available() and not dist.is_gloo_available()
    with pytest.raises(RuntimeError, match=r"pip install 'flambeau\[dist\]'"):
        dist.init_process_group("gloo", rank=0, world_size=1, init_method="tcp://127.0.0.1:1")


def test_values() -> None:
    assert dist.Backend("GLOO") == "gloo" and dist.ReduceOp.SUM == 0 and isinstance(dist.ReduceOp.MAX, dist.ReduceOp)
    assert [str(p) for p in (Shard(1), Replicate(), Partial())] == ["S(1)", "R", "P(sum)"]
    assert Shard(0) == Shard(0) != Shard(1) and Shard(0).is_shard(0) and not Shard(0).is_shard(1)
    assert len({Shard(0), Shard(0), Partial("sum"), Partial()}) == 2
    assert ShardingStrategy["HYBRID_SHARD"].value == 4 and MixedPrecision().cast_root_forward_inputs


def test_policies_of_wrapping() -> None:
    linear = torch.nn.Linear(4, 4)
    assert ModuleWrapPolicy({torch.nn.Linear})(linear, recurse=False) and not ModuleWrapPolicy([torch.nn.ReLU])(linear, False)
    assert transformer_auto_wrap_policy(linear, True, 0, transformer_layer_cls={torch.nn.ReLU})
    sizes = functools.partial(size_based_auto_wrap_policy, nonwrapped_numel=200, min_num_params=100)
    assert [
        sizes(m, recurse) for m in (torch.nn.ModuleList(), torch.nn.MultiheadAttention(4, 2)) for recurse in (True, False)
    ] == [True, False, False, True]
    with enable_wrap(wrapper_cls=lambda module, width: torch.nn.Sequential(module, *[torch.nn.ReLU()] * width), width=1):
        assert len(wrap(linear)) == 2 and len(wrap(linear, width=3)) == 4
    assert wrap(linear) is linear


def stack() -> torch.nn.Sequential:
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
    return torch.nn.Sequential(torch.nn.Linear(3, 3), inner)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activations_are_computed_again(reentrant: bool) -> None:
    plain, model = stack(), stack()
    calls = []
    model[1][1].register_forward_pre_hook(lambda *_: calls.append(1))
    implementation = CheckpointImpl.REENTRANT if reentrant else CheckpointImpl.NO_REENTRANT
    apply_activation_checkpointing(
        model,
        functools.partial(checkpoint_wrapper, checkpoint_impl=implementation),
        check_fn=lambda m: isinstance(m, torch.nn.Sequential),
    )
    assert list(model.state_dict()) == list(plain.state_dict()) and type(model[1][0]) is torch.nn.Linear
    assert [name for name, _ in model[1].named_parameters()] == ["0.weight", "0.bias"]
    model.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, requires_grad=True)
    for net in (plain, model):
        net(x).sum().backward()
    assert len(calls) == 2
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])


def test_wrapping_by_a_policy_leaves_out_what_is_wrapped_inside() -> None:
    model = stack()
    apply_activation_checkpointing(model, auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=12))
    assert type(model[1]) is torch.nn.Sequential
    assert type(model[0]).__name__ == type(model[1][0]).__name__ == "CheckpointWrapper"
    x = torch.randn(2, 3)
    torch.testing.assert_close(offload_wrapper(stack())(x), stack()(x))


def test_a_debug_level_prints_its_name() -> None:
    assert str(dist.DebugLevel.INFO) == f"{dist.DebugLevel.INFO}" == "DebugLevel.INFO"


def test_tensors_as_the_results_of_collectives() -> None:
    import flambeau.distributed._functional_collectives as functional

    x = torch.ones(2, requires_grad=True)
    wrapped = torch.ops._c10d_functional._wrap_tensor_autograd(x)
    assert isinstance(wrapped, functional.AsyncCollectiveTensor)
    (wrapped * 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]
