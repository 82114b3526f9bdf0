"""Hooks, averagers and optimizers around DistributedDataParallel. Figures were printed by PyTorch with Gloo and two processes."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks import (
    DDPCommHookType,
    post_localSGD_hook,
    powerSGD_hook,
    register_ddp_comm_hook,
)
from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from flambeau.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from flambeau.distributed.optim import PostLocalSGDOptimizer, _apply_optimizer_in_backward, _get_in_backward_optimizers
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.nn.parallel.distributed import _MixedPrecision

pytestmark = needs_mpi
PLAIN = [1.7053444, 1.5818380, 1.6861033, 1.5966482, 1.6521325, 1.5858982, 1.6013396, 1.6117251]
MATRICES = [0.0221667, 0.0228627, 0.0207703, 0.0170823, 0.0193360, 0.0197686]
POWER = [  # settings, losses from step 4 on, how many times less travelled
    ({}, [1.6516747, 1.5812438, 1.6082276, 1.6100705, 1.5830406], 9.944444),
    ({"batch_tensors_with_same_shape": True}, [1.6516747, 1.5812438, 1.6082276, 1.6100705, 1.5830406], 9.944444),
    ({"matrix_approximation_rank": 2}, [1.6516714, 1.5843381, 1.6039626, 1.6118315, 1.5859163], 5.901099),
]  # fmt: skip


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 5))


def loss_of(model: Any, rank: int, step: int) -> Any:
    generator = torch.Generator().manual_seed(100 * step + rank)
    x, y = torch.randn(8, 20, generator=generator), torch.randint(0, 5, (8,), generator=generator)
    return nn.functional.cross_entropy(model(x).float(), y)


def losses(model: Any, rank: int, steps: int, optimizer: Any = None, then: Any = None) -> list[float]:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, rank, step)
        loss.backward()
        optimizer.step()
        if then is not None:
            then(model.parameters())
        found.append(loss.item())
    return found


def seen(rank: int, found: Any, wanted: Any, close: float = 3e-6) -> None:
    """Rank 0's figures are what was recorded."""
    if rank == 0:
        assert found == pytest.approx(wanted, abs=close)


def hooks(rank: int) -> None:
    for kind, close in (
        (DDPCommHookType.ALLREDUCE, 3e-6),
        (DDPCommHookType.FP16_COMPRESS, 1e-4),
        (DDPCommHookType.BF16_COMPRESS, 1e-3),
        (DDPCommHookType.QUANTIZE_PER_TENSOR, 1e-3),
        (DDPCommHookType.QUANTIZE_PER_CHANNEL, 1e-3),
    ):
        model = DistributedDataParallel(network())
        register_ddp_comm_hook(kind, model)
        seen(rank, losses(model, rank, 5), PLAIN[:5], close)
    model = DistributedDataParallel(network())
    register_ddp_comm_hook(DDPCommHookType.NOOP, model)
    seen(rank, losses(model, rank, 4), [1.7053444, 1.5750340, 1.6878854, 1.6145773])
    model = DistributedDataParallel(network())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    seen(rank, losses(model, rank, 4), [1.7053444, 1.5818400, 1.6861047, 1.5966460])

    def wrong(state: object, bucket: int) -> None:
        pass

    with pytest.raises(ValueError, match="bucket annotation should be"):
        model.register_comm_hook(None, wrong)


def power(rank: int) -> None:
    for settings, wanted, rate in POWER:
        model = DistributedDataParallel(network())
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=3, **settings)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        seen(rank, losses(model, rank, 9), PLAIN[:4] + wanted)
        assert state.iter == 9 and state.compression_stats()[0] == pytest.approx(rate, abs=1e-5)
    again = pickle.loads(pickle.dumps(state))
    assert again.iter == 9 and again.process_group is dist.group.WORLD
    # Full rank approximates nothing away: the mean, by either hook, in any number of buckets.
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        model = DistributedDataParallel(network(), bucket_cap_mb=0.002)
        whole = {"min_compression_rate": 0.001, "matrix_approximation_rank": 64}
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, **whole), hook)
        seen(rank, losses(model, rank, 8), PLAIN, 2e-5)
    with pytest.raises(ValueError, match="Expect `start_powerSGD_iter` > 1"):
        powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=1)


def matrices_by_shape(rank: int) -> None:
    """Random numbers go to matrices sorted by shape; all gradients travel together until their order is known."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)]), bucket_cap_mb=0.03)
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=3, min_compression_rate=0.5)
    buckets: list[int] = []

    def hook(state: Any, bucket: Any) -> Any:
        buckets.append(bucket.index())
        return powerSGD_hook.powerSGD_hook(state, bucket)

    model.register_comm_hook(state, hook)
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.1), []
    torch.manual_seed(rank)
    for _ in range(6):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 64)).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    assert buckets == [0, *[0, 1] * 5]
    if rank == 0:
        torch.testing.assert_close(found, MATRICES, atol=2e-6, rtol=0)


def local(rank: int) -> None:
    alone = [dist.new_group([each]) for each in range(2)][rank]
    for reduces in (True, False):
        model = DistributedDataParallel(network())
        state = post_localSGD_hook.PostLocalSGDState(None, alone, 3, reduces)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), PeriodicModelAverager(2, 3))
        seen(rank, losses(model, rank, 9, optimizer), PLAIN[:5] + [1.5765579, 1.6014793, 1.5919564, 1.5851649])
        kept = optimizer.state_dict()
        assert kept["step"] == 9
        optimizer.load_state_dict(kept)
        del kept["step"]
        with pytest.warns(UserWarning, match="Setting step counter to 0"):
            optimizer.load_state_dict(kept)
        assert optimizer.averager.step == 0
    averager = HierarchicalModelAverager(OrderedDict([(2, 1), (4, 2)]), 1)
    wanted = [1.7053444, 1.5750341, 1.6878853, 1.6145772, 1.6621051, 1.5839946, 1.6038944, 1.5701596, 1.5620618]
    seen(rank, losses(network(), rank, 9, then=averager.average_parameters), wanted)
    with pytest.raises(ValueError, match="must be equal to the size of arg ``process_group`` 2"):
        HierarchicalModelAverager(OrderedDict([(2, 2), (4, 1)]))


def in_backward(rank: int) -> None:
    for views in (True, False):
        module = network()
        _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.1, "momentum": 0.9})
        assert len(_get_in_backward_optimizers(module)) == 6
        model, found = DistributedDataParallel(module, gradient_as_bucket_view=views), []
        for step in range(5):
            loss = loss_of(model, rank, step)
            loss.backward()
            found.append(loss.item())
        seen(rank, found, PLAIN[:5])
        assert all(each.grad is None for each in module.parameters())


class Rows(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.rows, self.out = nn.EmbeddingBag(10, 4, mode="sum", sparse=sparse), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.rows(x))


def settings(rank: int) -> None:
    named = list((module := network()).named_parameters())
    model = DistributedDataParallel(module, delay_all_reduce_named_params=named[-2:], param_to_hook_all_reduce=module[0].weight)
    seen(rank, losses(model, rank, 5), PLAIN[:5])
    for dtype, reduce in ((torch.bfloat16, None), (torch.float16, torch.float32)):
        model = DistributedDataParallel(network(), mixed_precision=_MixedPrecision(dtype, reduce))
        dtypes = []
        model.module[1].register_forward_hook(lambda module, inputs, output, dtypes=dtypes: dtypes.append(output.dtype))
        seen(rank, losses(model, rank, 5), PLAIN[:5], 2e-3)
        assert set(dtypes) == {dtype} and model.module[0].weight.grad.dtype == model.module[0].weight.dtype == torch.float32
    gradients = []
    for sparse in (True, False):
        model = DistributedDataParallel(Rows(sparse))
        model(torch.tensor([[1, 2], [3 + rank, 3 + rank]])).square().sum().backward()
        assert model.module.rows.weight.grad.is_sparse == sparse
        gradients.append(model.module.rows.weight.grad.to_dense() if sparse else model.module.rows.weight.grad)
    torch.testing.assert_close(*gradients)
    for static in (False, True):  # rank 0 has two steps more
        model = DistributedDataParallel(network(), static_graph=static)
        with model.join():
            found = losses(model, rank, 5 + 2 * (rank == 0), torch.optim.SGD(model.parameters(), lr=0.1))
        seen(rank, found, [1.7053444, 1.5818380, 1.6928957, 1.5883424, 1.6736667, 1.6391454, 1.6007633])
    copied = copy.deepcopy(model)
    assert copied._get_ddp_logging_data()["total_parameter_size_bytes"] == 10740


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.a(x), self.b(x)


def searching(rank: int) -> None:
    model = DistributedDataParallel(Two(), find_unused_parameters=True)
    for _ in range(2):  # an output that isn't part of the loss is none that is missing
        model(torch.ones(1, 2))[0].sum().backward()
    assert model.module.b.weight.grad is None and model.module.a.weight.grad is not None
    model = DistributedDataParallel(network(), find_unused_parameters=True)
    with pytest.warns(UserWarning, match="did not find any unused parameters"):
        losses(model, rank, 3)


def everything(rank: int) -> None:
    for each in (hooks, power, matrices_by_shape, local, in_backward, settings, searching):
        each(rank)


def test_gradients_are_exchanged_as_by_pytorch() -> None:
    on_ranks(2, everything, seconds=60)
