"""DistributedDataParallel: what several processes train is what one trains on all of the batch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.nn.parallel.gradient_buckets import assigned

pytestmark = needs_mpi
STEPS = 4


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))


def batches(size: int) -> list[tuple[Any, Any]]:
    generator = torch.Generator().manual_seed(5)
    return [
        (torch.randn(4 * size, 6, generator=generator), torch.randint(0, 3, (4 * size,), generator=generator))
        for _ in range(STEPS)
    ]


def trained(model: nn.Module, data: list[tuple[Any, Any]], step: Any = None) -> list[Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for x, y in data:
        optimizer.zero_grad()
        if step is None:
            nn.functional.cross_entropy(model(x), y).backward()
        else:
            step(model, x, y)
        optimizer.step()
    return [each.detach().clone() for each in model.parameters()]


def part(data: list[tuple[Any, Any]], rank: int, size: int) -> list[tuple[Any, Any]]:
    return [(x[rank::size], y[rank::size]) for x, y in data]


def same_everywhere(parameters: list[Any]) -> None:
    """Bit for bit, between ranks."""
    for each in parameters:
        everyone = [torch.empty_like(each) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, each)
        assert all(torch.equal(other, each) for other in everyone)


def accumulating(model: Any, x: Any, y: Any) -> None:
    with model.no_sync():
        (nn.functional.cross_entropy(model(x[:2]), y[:2]) / 2).backward()
    (nn.functional.cross_entropy(model(x[2:]), y[2:]) / 2).backward()


def checkpointed(model: Any, x: Any, y: Any) -> None:
    output = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
    nn.functional.cross_entropy(output, y).backward()


def equal_to_one_process(rank: int, size: int) -> None:
    data = batches(size)
    wanted = trained(network(), data)
    mine = part(data, rank, size)
    for settings in (
        {},
        {"gradient_as_bucket_view": True},
        {"bucket_cap_mb": 0.0002},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"bucket_cap_mb_list": [0.0001, 0.0003]},
    ):
        torch.manual_seed(rank)  # parameters come from rank 0
        model = network() if rank == 0 else nn.Sequential(*copy.deepcopy(list(network())))
        if rank:
            for each in model.parameters():
                nn.init.zeros_(each)
        found = trained(DistributedDataParallel(model, **settings), mine)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
        same_everywhere(found)
    for step in (accumulating, checkpointed):
        found = trained(DistributedDataParallel(network(), gradient_as_bucket_view=step is checkpointed), mine, step)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    for hook, close in (
        (default_hooks.allreduce_hook, 1e-6),
        (default_hooks.fp16_compress_hook, 0.02),
        (default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook), 0.02),
    ):
        model = DistributedDataParallel(network(), bucket_cap_mb=0.0004)
        model.register_comm_hook(None, hook)
        torch.testing.assert_close(trained(model, mine), wanted, rtol=1e-5, atol=close)


@pytest.mark.parametrize("size", [2, 3])
def test_training_equals_that_of_one_process(size: int) -> None:
    on_ranks(size, equal_to_one_process, size)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.never = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Any, both: bool = True) -> Any:
        y = self.a(x)
        return {"out": (self.b(y) if both else y, 1)}


def of_parts(rank: int) -> None:
    x = torch.ones(3, 2) * (rank + 1)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    model(x, both=rank == 0)["out"][0].sum().backward()
    assert model.module.never.weight.grad is None
    b = [torch.empty(2) for _ in range(2)]
    dist.all_gather(b, model.module.b.bias.grad)
    assert b[0].tolist() == b[1].tolist() == [1.5, 1.5]  # 3 from rank 0, none from rank 1, and the mean
    # a static graph learns what is used
    model = DistributedDataParallel(Branches(), static_graph=True)
    for _ in range(3):
        model.zero_grad()
        model(x)["out"][0].sum().backward()
        assert model.module.b.bias.grad.tolist() == [3, 3] and model.module.never.weight.grad is None
    model = DistributedDataParallel(Branches())
    model(x)["out"][0].sum().backward()
    with pytest.raises(RuntimeError, match=r"Expected to have finished reduction in the prior iteration") as caught:
        model(x)
    assert "did not receive grad for rank" in str(caught.value) and ": 4 5" in str(caught.value)
    model = DistributedDataParallel(network())
    with torch.no_grad():
        model(torch.ones(1, 6))
    model(torch.ones(1, 6))  # without a backward pass: nothing to finish
    model(torch.ones(1, 6)).sum().backward()


def states(rank: int) -> None:
    model = Branches()
    model.seen.fill_(rank + 5.0)
    wrapped = DistributedDataParallel(model)
    assert model.seen.item() == 5 and all(name.startswith("module.") for name in wrapped.state_dict())
    model.seen.fill_(rank + 7.0)
    wrapped(torch.ones(1, 2))
    assert model.seen.item() == 7
    with torch.no_grad():
        wrapped(torch.ones(1, 2))
    model.seen.fill_(rank + 8.0)
    wrapped(torch.ones(1, 2))
    assert model.seen.item() == 8 + rank  # the pass before was not for training
    again = copy.deepcopy(wrapped)
    again.load_state_dict(wrapped.state_dict())
    assert isinstance(again.module, Branches) and again.process_group is dist.group.WORLD
    seen: list[Any] = []

    def hook(state: Any, bucket: Any) -> Any:
        assert isinstance(bucket, dist.GradBucket) and state == "state"
        assert bucket.buffer().numel() == sum(each.numel() for each in bucket.gradients())
        seen.append((bucket.index(), bucket.is_last(), [tuple(each.shape) for each in bucket.parameters()]))
        return default_hooks.allreduce_hook(None, bucket)

    model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5)), bucket_cap_mb=0.00001)
    model.register_comm_hook("state", hook)
    model(torch.ones(2, 3)).sum().backward()
    assert seen == [(0, True, [(5,), (5, 4), (4,), (4, 3)])]  # until the order is known in which gradients come
    model(torch.ones(2, 3)).sum().backward()
    assert [each[0] for each in seen[1:]] == list(range(len(seen) - 1)) and len(seen) > 2
    assert sorted(shape for each in seen[1:] for shape in each[2]) == [(4,), (4, 3), (5,), (5, 4)]
    with pytest.raises(RuntimeError, match="can only be called once"):
        model.register_comm_hook(None, hook)
    with pytest.raises(TypeError, match="must be callable"):
        DistributedDataParallel(network()).register_comm_hook(None, 3)
    # half precision: the scaler finds the same scale everywhere, since gradients are the same
    model, scaler = DistributedDataParallel(network()), torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(4, 6) * rank).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    same_everywhere([each.detach() for each in model.parameters()])


def refused(rank: int) -> None:
    with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameter that requires a gradient"):
        DistributedDataParallel(nn.ReLU())
    words = f"Rank {rank} has {1 + rank} params, while rank {1 - rank} has inconsistent {2 - rank} params"
    with pytest.raises(RuntimeError, match=words):
        DistributedDataParallel(nn.Linear(2, 2, bias=bool(rank)))
    with pytest.raises(RuntimeError, match=rf"params\[0\] in this process with sizes \[{2 + rank}, 2\] appears not to match"):
        DistributedDataParallel(nn.Linear(2, 2 + rank))
    with pytest.raises(ValueError, match="only work with single-device"):
        DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])


def uneven(rank: int) -> None:
    """Rank 1 has twice as many batches: the mean is over both processes, and over one later."""
    for by_all in (True, False):
        model = DistributedDataParallel(nn.Linear(2, 1, bias=False), broadcast_buffers=False)
        nn.init.zeros_(model.module.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        with model.join(divide_by_initial_world_size=by_all):
            for _ in range(2 + 2 * rank):
                optimizer.zero_grad()
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
        assert model.module.weight.tolist() == [[-3.0, -3.0] if by_all else [-4.0, -4.0]]  # on both
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), find_unused_parameters=True)
    with model.join():
        for _ in range(3 - rank):
            model(torch.randn(4, 2)).sum().backward()
    same_everywhere([each.detach().float() for each in model.state_dict().values()])
    with pytest.raises(RuntimeError, match="exhausted"), model.join(throw_on_early_termination=True):
        for _ in range(1 + rank):
            model(torch.randn(4, 2)).sum().backward()


def normalised(rank: int) -> None:
    """Statistics over both processes' batches, which differ in size."""
    torch.manual_seed(1)
    x = torch.randn(7, 3, 2, 2, dtype=torch.float64)
    mine = x[:2] if rank == 0 else x[2:]
    whole = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, momentum=0.3)).double()
    part = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole))
    assert type(part[1]) is nn.SyncBatchNorm and part.state_dict().keys() == whole.state_dict().keys()
    part = DistributedDataParallel(part)
    for _ in range(2):
        out = part(mine)
        wanted = whole(x)
        torch.testing.assert_close(out, wanted[:2] if rank == 0 else wanted[2:])
    weights = torch.randn(7, 4, 2, 2, dtype=torch.float64)
    (out * (weights[:2] if rank == 0 else weights[2:])).sum().backward()
    (wanted * weights).sum().backward()
    for mean, sum in zip(part.parameters(), whole.parameters()):
        torch.testing.assert_close(mean.grad * 2, sum.grad, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(list(part.module.buffers()), list(whole.buffers()))
    part.eval()
    whole.eval()
    torch.testing.assert_close(part(x), whole(x))


def everything(rank: int) -> None:
    for each in (of_parts, states, uneven, normalised, refused):
        each(rank)


def test_parts_states_and_refusals() -> None:
    on_ranks(2, everything)


def values(count: int, first: int) -> Any:
    return torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + first) * 0.5


def filled(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for number, each in enumerate(module.double().parameters()):
            each.copy_(values(each.numel(), number).view(each.shape))
    return module


def switched(way: str, module: Any, on: bool) -> None:
    """Freeze or unfreeze a module's parameters."""
    if way == "module":
        module.requires_grad_(on)
        return
    for each in module.parameters():
        if way == "attribute":
            each.requires_grad = on
        elif way == "detach" and not on:
            each.detach_()
        else:
            each.requires_grad_(on)
        if way == "data":
            each.data = each.data.clone()


#: What is frozen before the steps 1 and 3 and not any more before 2 and 4, and the sum of all parameters after each of five
#: steps of two processes, by PyTorch over Gloo.
FROZEN: dict[str, tuple[Any, list[float]]] = {
    "first": (lambda net: net[0], [0.437475134, 0.324620318, 0.335230886, 0.273575121, 0.250567595]),
    "middle": (lambda net: net[2], [0.437475134, 0.308935908, 0.26496735, 0.237710499, 0.198859904]),
    "last": (lambda net: net[4], [0.437475134, 0.459641747, 0.393037431, 0.39023474, 0.344338551]),
    "all but the last": (lambda net: net[:4], [0.437475134, 0.305694806, 0.257613688, 0.229824605, 0.190489]),
    "one weight": (
        lambda net: nn.ParameterList([net[2].weight]),
        [0.437475134, 0.325076261, 0.327586706, 0.27724258, 0.251313326],
    ),
}
ADVERSARIAL = [0.07372603, -0.541781079, -1.128030575, -1.671436255]


def frozen_in_turns(rank: int, way: str, chosen: Any, **settings: Any) -> list[float]:
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    model, optimizer = DistributedDataParallel(net, **settings), torch.optim.SGD(net.parameters(), lr=0.1)
    sums = []
    for step in range(5):
        if step:
            switched(way, chosen(net), step % 2 == 0)
        optimizer.zero_grad()
        x, y = values(18, 10 + step).view(6, 3)[rank::2], values(12, 20 + step).view(6, 2)[rank::2]
        ((model(x) - y) ** 2).sum().backward()
        optimizer.step()
        sums.append(sum(each.sum().item() for each in net.parameters()))
    return sums


def adversaries(rank: int) -> list[float]:
    plain = filled(nn.Linear(3, 3)), filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    generator, judge = map(DistributedDataParallel, plain)
    steps = [torch.optim.SGD(each.parameters(), lr=0.1) for each in plain]
    sums = []
    for step in range(4):
        x = values(18, 10 + step).view(6, 3)[rank::2]
        judge.requires_grad_(True)
        steps[1].zero_grad()
        judge(torch.cat([generator(x).detach(), -x])).sum().backward()
        steps[1].step()
        judge.requires_grad_(False)
        steps[0].zero_grad()
        (-judge(generator(x)).sum()).backward()
        steps[0].step()
        sums.append(sum(p.sum().item() for each in plain for p in each.parameters()))
    return sums


def freezing(rank: int) -> None:
    for settings in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.0001}):
        for chosen, wanted in FROZEN.values():
            for way in ("attribute", "method", "module", "detach", "data"):
                found = frozen_in_turns(rank, way, chosen, find_unused_parameters=True, **settings)
                assert found == pytest.approx(wanted, abs=1e-7)
    assert adversaries(rank) == pytest.approx(ADVERSARIAL, abs=1e-7)
    for settings in ({}, {"static_graph": True}):
        with pytest.raises(RuntimeError, match="Expected to have finished reduction"):
            frozen_in_turns(rank, "method", FROZEN["middle"][0], **settings)


def test_freezing_and_unfreezing_between_steps() -> None:
    on_ranks(2, freezing)


def test_buckets_are_filled_in_order() -> None:
    parameters = [
        torch.empty(n, dtype=dtype)
        for n, dtype in ((10, torch.float32), (10, torch.float64), (10, torch.float32), (1, torch.float32))
    ]
    assert assigned(parameters, [3, 2, 1, 0], [40, 100]) == [[3, 2], [1], [0]]
    assert assigned(parameters, [3, 2, 1, 0], [4]) == [[3], [2], [1], [0]]
