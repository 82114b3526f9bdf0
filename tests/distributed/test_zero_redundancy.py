"""ZeroRedundancyOptimizer: the same parameters as of one optimizer, with the states of some on each rank."""

from __future__ import annotations

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.join import Join
from flambeau.distributed.optim import ZeroRedundancyOptimizer
from flambeau.distributed.utils import _sync_module_states

pytestmark = needs_mpi


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 5), nn.Linear(5, 2))


def groups(module):
    return [
        {"params": [p for p in module.parameters() if p.ndim > 1], "lr": 0.01},
        {"params": [p for p in module.parameters() if p.ndim == 1], "weight_decay": 0.5},
    ]


def learns(rank):
    whole, module = made(), made()
    alone = torch.optim.AdamW(groups(whole), lr=0.02)
    shared = ZeroRedundancyOptimizer(groups(module), torch.optim.AdamW, lr=0.02)
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9) for optimizer in (alone, shared)]
    own = sum(p.numel() for group in shared.optim.param_groups for p in group["params"])
    assert 0 < own < sum(p.numel() for p in module.parameters())

    def step(steps):
        for seed in steps:
            torch.manual_seed(seed)
            x = torch.randn(6, 4)
            for m, optimizer, schedule in zip((whole, module), (alone, shared), schedules, strict=True):
                optimizer.zero_grad()
                m(x).square().mean().backward()
                optimizer.step()
                schedule.step()
        assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), module.parameters(), strict=True))

    step(range(3))
    with pytest.raises(RuntimeError, match="Optimizer state has not been consolidated on this rank"):
        shared.state_dict()
    for to in (0, 1):
        shared.consolidate_state_dict(to)
        if rank == to:
            found, wanted = shared.state_dict(), alone.state_dict()
            assert found["state"].keys() == wanted["state"].keys()
            for index, state in wanted["state"].items():
                assert all(torch.equal(found["state"][index][key], value) for key, value in state.items())
            assert [g["lr"] for g in found["param_groups"]] == [g["lr"] for g in wanted["param_groups"]]
    other = ZeroRedundancyOptimizer(groups(module), torch.optim.AdamW, lr=0.02)
    other.load_state_dict(alone.state_dict())
    shared.optim.state, shared.optim.param_groups = other.optim.state, other.optim.param_groups
    step(range(3, 5))
    extra = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    alone.add_param_group({"params": [extra[0]]})
    shared.add_param_group({"params": [extra[1]]})
    for parameter in extra:
        parameter.grad = torch.ones(3)
    alone.step()
    shared.step()
    assert torch.equal(*extra)


def refused(rank):
    with pytest.raises(ValueError, match="got an empty parameter list"):
        ZeroRedundancyOptimizer([], torch.optim.SGD, lr=0.1)
    with pytest.raises(TypeError, match="should be an iterable of Tensors"):
        ZeroRedundancyOptimizer(torch.ones(1), torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match="only supports using the same dense type"):
        both = [nn.Parameter(torch.ones(1)), torch.ones(1, dtype=torch.float64).requires_grad_()]
        ZeroRedundancyOptimizer(both, torch.optim.SGD, lr=0.1)
    # a rank may have nothing to do
    only = nn.Parameter(torch.ones(2))
    optimizer = ZeroRedundancyOptimizer([only], torch.optim.SGD, lr=0.1)
    only.grad = torch.ones(2)
    optimizer.step()
    assert torch.allclose(only, torch.full((2,), 0.9))


def test_states_are_divided():
    on_ranks(2, learns)
    on_ranks(3, learns)


def test_mistakes_and_idle_ranks():
    on_ranks(2, refused)


def joined(rank):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 2))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer], others_keyword=3):
        for i in range(5 + rank):
            model(torch.tensor([[1.0 + i]])).sum().backward()
            optimizer.step()
    return model.module.weight.flatten().tolist()


def test_ranks_may_have_different_numbers_of_steps():
    first, second = on_ranks(2, joined)
    assert first == second
    torch.testing.assert_close(first, [-0.06284622, 0.48108420], atol=1e-6, rtol=0)


def shared_states(rank):
    module = nn.BatchNorm1d(3)
    with torch.no_grad():
        module.weight.fill_(rank)
        module.bias.fill_(rank)
        module.running_mean.fill_(rank)
    _sync_module_states(module, dist.group.WORLD, 1 << 20, 1, {"bias"})
    return [module.weight[0].item(), module.bias[0].item(), module.running_mean[0].item()]


def test_states_are_sent():
    assert on_ranks(2, shared_states) == [[1, 0, 1], [1, 1, 1]]
