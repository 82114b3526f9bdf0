"""Modules divided over ranks learn what the undivided module learns: tensor parallel, fully sharded, both, in stages.

Their checkpoints are read by any number of ranks.
"""

from __future__ import annotations

import copy
import functools

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP
from flambeau.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, StateDictType, fully_shard
from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from flambeau.distributed.fsdp.wrap import transformer_auto_wrap_policy
from flambeau.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    pipe_split,
    pipeline,
)
from flambeau.distributed.pipelining.schedules import _PipelineScheduleRuntime
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from flambeau.distributed.tensor.debug import CommDebugMode
from flambeau.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from flambeau.utils.checkpoint import checkpoint

pytestmark = needs_mpi


class Block(nn.Module):
    def __init__(self, width=8, hidden=13):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Embeddings that are also the last weights, and blocks."""

    def __init__(self, again=False):
        super().__init__()
        self.again = again
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.head(x)


def two(make):
    torch.manual_seed(0)
    whole, divided = make(), make()
    divided.load_state_dict(whole.state_dict())
    return whole, divided


def tokens(step, count):
    torch.manual_seed(step)
    return torch.randint(0, 11, (count, 5)), torch.randint(0, 11, (count, 5))


def train(module, optimizer, x, y, parts=1):
    for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
        (F.cross_entropy(module(a).flatten(0, 1), b.flatten()) / parts).backward()
    norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def close(module, whole, tolerance=1e-5):
    found = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))
    for name, value in whole.state_dict().items():
        assert torch.allclose(found[name], value, atol=tolerance), name


def fully(rank, size, mesh_shape, again, reshard, parts):
    names = ("replicate", "shard")[-len(mesh_shape) :]
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names)
    whole, module = two(functools.partial(Net, again))
    for block in module.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(module, mesh=mesh, reshard_after_forward=reshard)
    assert type(module).__name__ == "FSDPNet" and isinstance(module.embed.weight, DTensor)
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (whole, module)]
    for step in range(3):
        x, y = tokens(step, 2 * size)
        own = slice(2 * rank, 2 * rank + 2)
        wanted = train(whole, optimizers[0], x, y)
        if parts == 1:
            norm = train(module, optimizers[1], x[own], y[own])
        else:
            module.set_requires_gradient_sync(False)
            (F.cross_entropy(module(x[own][:1]).flatten(0, 1), y[own][:1].flatten()) / 2).backward()
            module.set_requires_gradient_sync(True)
            (F.cross_entropy(module(x[own][1:]).flatten(0, 1), y[own][1:].flatten()) / 2).backward()
            norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0).full_tensor()
            optimizers[1].step()
            optimizers[1].zero_grad()
        assert torch.allclose(norm, wanted, rtol=1e-4)
    close(module, whole)


def lower(rank):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    seen = []
    module[1].register_forward_hook(lambda m, given, made: seen.append(made.dtype))
    fully_shard(module, mp_policy=policy)
    module(torch.ones(2, 4)).float().sum().backward()
    assert seen == [torch.bfloat16]
    assert module[0].weight.dtype == torch.float32 and module[0].weight.grad.dtype == torch.float32
    with pytest.raises(ValueError, match="support scalar parameters"):
        broken = nn.Module()
        broken.a = nn.Parameter(torch.tensor(1.0))
        broken.forward = lambda x: x
        fully_shard(broken)
    with pytest.raises(ValueError, match="containers that do not implement forward"):
        fully_shard(nn.ModuleList([nn.Linear(1, 1)]))
    with pytest.raises(AssertionError, match="FSDP does not support deepcopy"):
        copy.deepcopy(module)


@pytest.mark.parametrize(
    ("size", "shape", "again", "reshard", "parts"),
    [(2, (2,), False, None, 1), (2, (2,), True, True, 2), (3, (3,), False, True, 1), (4, (2, 2), False, False, 1)],
)
def test_fully_sharded(size, shape, again, reshard, parts):
    on_ranks(size, fully, size, shape, again, reshard, parts, seconds=60)


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))


def hooked_and_counted(rank):
    """Hooks of the parts run when these have their gradients; a norm over all is whole; what can't be cut is said."""
    mesh = init_device_mesh("cpu", (2,))
    module = net()
    fully_shard(module[0], mesh=mesh, reshard_after_forward=2)  # of all ranks: as True
    fully_shard(module, mesh=mesh)
    assert fully_shard.state(module)._is_root is None and fully_shard.state(module[1]) is None
    seen = []
    for name, parameter in module.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((name, tuple(p.grad.to_local().shape))))
    mode = CommDebugMode()
    with mode:
        module(torch.ones(2, 4)).sum().backward()
    assert seen == [("2.weight", (2, 8)), ("2.bias", (2,)), ("0.weight", (4, 4)), ("0.bias", (4,))]
    assert fully_shard.state(module)._is_root and not fully_shard.state(module[0])._is_root
    # the root stays whole between forward and backward, the other is gathered twice
    assert mode.get_comm_counts() == {torch.ops.c10d._allgather_base_: 3, torch.ops.c10d._reduce_scatter_base_: 2}
    whole = net()
    whole(torch.ones(2, 4)).sum().backward()
    expected = torch.nn.utils.clip_grad_norm_(whole.parameters(), 1.0)
    found = torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    assert found.placements == (Replicate(),) and torch.allclose(found.to_local(), expected)
    # gradients that aren't reduced yet are summed in the dtype of the reduction
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    module, total = fully_shard(net(), mesh=mesh, mp_policy=policy), 0
    alone = net().to(torch.bfloat16)
    for step in range(3):
        module.set_requires_gradient_sync(step == 2)
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(step))  # alike on both ranks
        module(x).float().square().sum().backward()
        alone(x.to(torch.bfloat16)).float().square().sum().backward()
        total = total + alone[0].weight.grad.float()
        alone.zero_grad()
    assert torch.allclose(module[0].weight.grad.full_tensor(), total, rtol=1e-6)
    cut_otherwise = torch.nn.Linear(4, 6)
    cut_otherwise.weight = torch.nn.Parameter(torch.ones(4, 6).t())
    with pytest.raises(NotImplementedError, match="non-contiguous parameters yet"):
        fully_shard(cut_otherwise, mesh=mesh)
    with pytest.raises(AssertionError, match="Shard dim 1 is invalid for 1D tensor"):
        fully_shard(net(), mesh=mesh, shard_placement_fn=lambda parameter: Shard(1))
    with pytest.raises(ValueError, match="should be a factor of 2, not 3"):
        fully_shard(net(), mesh=mesh, reshard_after_forward=3)
    with pytest.raises(AssertionError, match=r"only be applied to a module once\. fully_shard has already"):
        fully_shard(module, mesh=mesh)
    with torch.device("meta"):
        module = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with pytest.raises(RuntimeError, match=r"still on meta device: \['0.weight', '0.bias'\]"):
        fully_shard(module, mesh=mesh)(torch.ones(1, 4))
    module = net()
    fully_shard(module[0], mesh=mesh)
    fully_shard(module, mesh=mesh)
    module[0](torch.ones(1, 4))
    with pytest.raises(RuntimeError, match="lazily initialized for 0\n"):
        module(torch.ones(1, 4))


def scaled(rank):
    model = fully_shard(torch.nn.Linear(3, 1, bias=False))  # one process has all of it
    before = model.weight.full_tensor()
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    scaler = ShardedGradScaler("cpu", init_scale=4.0)
    scaler.scale(model(torch.full((1, 3), float("inf"))).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0 and torch.equal(model.weight.full_tensor(), before)
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(1, 3)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    torch.testing.assert_close(model.weight.full_tensor(), before - 1)
    # parameters that every process has, and an infinity of one of them
    own = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([own], 1.0)
    scaler.scale((own * (float("inf") if rank == 1 else 1.0)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1.0 and own.tolist() == [1, 1]
    assert scaler.scale(torch.ones((), dtype=torch.float16)).dtype == torch.float16


def lower_and_hooked(rank):
    scaled(rank)
    lower(rank)
    hooked_and_counted(rank)


def test_lower_precision_and_mistakes():
    on_ranks(2, lower_and_hooked)


class Tower(nn.Sequential):
    def __init__(self):
        super().__init__(Block(8, 12), Block(8, 12))


def both_ways(rank):
    """Tensor parallel with sequence parallel norms, then fully sharded along the other dimension of the mesh."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dp, tp = mesh.get_local_rank("dp"), mesh.get_local_rank("tp")
    whole, module = two(Tower)
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    for block in module:
        parallelize_module(block, mesh["tp"], plan)
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(module, mesh=mesh["dp"])
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (whole, module)]
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(4, 6, 8)
        whole(x).square().mean().backward()
        (module(x[2 * dp : 2 * dp + 2, 3 * tp : 3 * tp + 3]).square().mean() / 2).backward()
        for m, optimizer in zip((whole, module), optimizers, strict=True):
            nn.utils.clip_grad_norm_(m.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
    close(module, whole)


def head_cut(rank):
    """The head's classes are cut, and stay so in the loss."""
    mesh = init_device_mesh("cpu", (2,))
    whole, module = two(lambda: nn.Sequential(Block(8, 12), nn.Linear(8, 11)))
    plan = {"0.up": ColwiseParallel(), "0.down": RowwiseParallel(), "1": ColwiseParallel(use_local_output=False)}
    parallelize_module(module, mesh, plan)
    torch.manual_seed(1)
    x, y, weight = torch.randn(6, 8), torch.tensor([0, 10, 5, -100, 7, 6]), torch.rand(11)
    for reduction in ("mean", "sum", "none"):
        for factors in (None, weight):
            wanted = F.cross_entropy(whole(x), y, factors, reduction=reduction)
            wanted.sum().backward()
            with loss_parallel():
                target = distribute_tensor(y, mesh, [Replicate()])
                given = None if factors is None else distribute_tensor(factors, mesh, [Replicate()])
                found = F.cross_entropy(module(x), target, given, reduction=reduction)
                assert torch.allclose(found.full_tensor(), wanted, atol=1e-5)
                found.sum().backward()
    for (name, a), b in zip(module.named_parameters(), whole.parameters(), strict=True):
        gradient = a.grad.full_tensor() if isinstance(a.grad, DTensor) else a.grad
        assert torch.allclose(gradient, b.grad, atol=1e-4), name
    with pytest.warns(UserWarning, match="could not be resolved"):
        parallelize_module(module, mesh, {"nothing": ColwiseParallel()})
    with pytest.raises(NotImplementedError, match="currently only support"):
        parallelize_module(nn.GELU(), mesh, ColwiseParallel())


def test_tensor_parallel():
    on_ranks(4, both_ways, seconds=60)
    on_ranks(2, head_cut, seconds=60)


def wrapped(rank):
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        whole, inner = two(Net)
        if rank:
            nn.init.zeros_(inner.blocks[0].up.weight)  # the first rank's counts
        module = FSDP(inner, auto_wrap_policy=policy, sharding_strategy=strategy, sync_module_states=True)
        assert len(FSDP.fsdp_modules(module)) == 3 and FSDP.fsdp_modules(module, root_only=True) == [module]
        optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (whole, module)]
        for step in range(2):
            x, y = tokens(step, 4)
            train(whole, optimizers[0], x, y)
            own = slice(2 * rank, 2 * rank + 2)
            with module.no_sync():
                (F.cross_entropy(module(x[own][:1]).flatten(0, 1), y[own][:1].flatten()) / 2).backward()
            (F.cross_entropy(module(x[own][1:]).flatten(0, 1), y[own][1:].flatten()) / 2).backward()
            module.clip_grad_norm_(1.0)
            optimizers[1].step()
            optimizers[1].zero_grad()
        state = module.state_dict()
        assert list(state) == list(whole.state_dict())
        for name, value in whole.state_dict().items():
            assert torch.allclose(state[name], value, atol=1e-5), (strategy, name)
        with FSDP.summon_full_params(module), torch.no_grad():
            assert all(torch.allclose(p, q, atol=1e-5) for p, q in zip(module.parameters(), whole.parameters(), strict=True))
            module.blocks[0].up.bias.fill_(3.0)
        assert torch.all(module.state_dict()["blocks.0.up.bias"] == 3)
        states = FSDP.optim_state_dict(module, optimizers[1])
        other = FSDP(Net(), auto_wrap_policy=policy, sharding_strategy=strategy)
        other.load_state_dict(module.state_dict())
        its = torch.optim.AdamW(other.parameters(), lr=0.01)
        its.load_state_dict(FSDP.optim_state_dict_to_load(other, its, states))
        for m, optimizer in ((module, optimizers[1]), (other, its)):
            train(m, optimizer, *tokens(9, 2))
        a, b = module.state_dict(), other.state_dict()
        assert all(torch.equal(a[name], b[name]) for name in a)
        with FSDP.state_dict_type(module, StateDictType.SHARDED_STATE_DICT):
            assert isinstance(module.state_dict()["embed.weight"], DTensor)
    # functions on modules write to whole parameters, of wrappers inside too; blocks may be in each other
    module.apply(lambda part: nn.init.constant_(part.weight, 2.0) if isinstance(part, nn.Linear) else None)
    with FSDP.summon_full_params(module):
        with FSDP.summon_full_params(module):
            assert torch.all(module.blocks[1].up.weight == 2)
        assert torch.all(module.blocks[1].up.weight == 2)
        with pytest.raises(ValueError, match="expected to be in states"):
            module.apply(print)
    assert torch.all(module.state_dict()["blocks.0.up.weight"] == 2)
    with pytest.raises(RuntimeError, match="only be called on the root"):
        module.blocks[0].clip_grad_norm_(1.0)
    module.zero_grad()
    with pytest.warns(UserWarning, match=f"on rank {rank} with no gradients"):
        assert module.clip_grad_norm_(1.0) == 0


def test_wrapper():
    on_ranks(2, wrapped, seconds=60)


SCHEDULES = [
    (ScheduleGPipe, 1), (Schedule1F1B, 1), (ScheduleLoopedBFS, 2), (ScheduleInterleaved1F1B, 2),
    (ScheduleInterleavedZeroBubble, 2), (ScheduleZBVZeroBubble, 2), (ScheduleDualPipeV, 2),
]  # fmt: skip


def stages(rank, size):
    for schedule, per_rank in SCHEDULES:
        count = size * per_rank
        torch.manual_seed(0)
        whole = nn.Sequential(*[Block(6) for _ in range(count)])
        in_a_v = schedule in (ScheduleZBVZeroBubble, ScheduleDualPipeV)
        own = {i: copy.deepcopy(whole[i]) for i in ((rank, count - 1 - rank) if in_a_v else range(rank, count, size))}
        made = [PipelineStage(module, i, count, "cpu") for i, module in own.items()]
        runs = schedule(made[0] if per_rank == 1 else made, 2 * size, loss_fn=F.mse_loss)
        optimizers = [
            torch.optim.SGD(parameters, lr=0.1)
            for parameters in (list(whole.parameters()), [p for m in own.values() for p in m.parameters()])
        ]
        for step in range(2):
            torch.manual_seed(step)
            x, y = torch.randn(4 * size, 6), torch.randn(4 * size, 6)
            wanted = F.mse_loss(whole(x), y)
            wanted.backward()
            losses = []
            last = count - 1 in own
            runs.step(*([] if rank else [x]), target=y if last else None, losses=losses)
            if last:
                assert torch.allclose(torch.stack(losses).mean(), wanted, rtol=1e-5)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        for i, module in own.items():
            for a, b in zip(module.parameters(), whole[i].parameters(), strict=True):
                assert torch.allclose(a, b, atol=1e-6), (schedule, i)
        found = runs.eval(*([] if rank else [x]))
        assert found is None if not last else torch.allclose(found, whole(x), atol=1e-4)


class Skipping(nn.Module):
    """Values and a parameter that several stages use, statistics, arguments by name."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6)
        self.factor = nn.Parameter(torch.linspace(0.5, 1.5, 6))

    def forward(self, x, shift=None):
        y = self.second(self.first(x) * self.factor)
        pipe_split()
        z = self.third(y) + x
        pipe_split()
        return torch.tanh(z * self.factor + y) + shift


def traced_stages(rank):
    """A model that is cut along its trace, by a schedule with one stage per rank."""
    torch.manual_seed(0)
    whole = Skipping()
    module = copy.deepcopy(whole)
    x, shift, y = torch.randn(8, 6), torch.randn(8, 6), torch.randn(8, 6)
    pipe = pipeline(module, (x[:2],), {"shift": shift[:2]})
    assert pipe.num_stages == 3
    stage = pipe.build_stage(rank, "cpu")
    schedule = Schedule1F1B(stage, 4, loss_fn=F.mse_loss)
    first, last = rank == 0, rank == 2
    found = schedule.step(*([x] if first else []), **({"shift": shift} if first else {}), target=y if last else None)
    wanted = [whole(x[k : k + 2], shift=shift[k : k + 2]) for k in range(0, 8, 2)]
    sum(F.mse_loss(each, y[2 * k : 2 * k + 2]) for k, each in enumerate(wanted)).div(4).backward()
    if last:
        assert torch.allclose(found, torch.cat(wanted), atol=1e-6)
    gradients = {name: parameter.grad for name, parameter in whole.named_parameters()}
    for name, parameter in stage.submod.named_parameters():
        assert torch.allclose(parameter.grad, gradients[name], atol=1e-6), name
    for name, buffer in stage.submod.named_buffers():
        assert torch.allclose(buffer, whole.get_buffer(name), atol=1e-6), name


def in_three_stages(rank):
    stages(rank, 3)
    traced_stages(rank)


def test_stages():
    on_ranks(2, stages, 2, seconds=60)
    on_ranks(3, in_three_stages, seconds=60)


def _made(divided):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.BatchNorm1d(7), nn.Linear(7, 3))
    if divided:
        fully_shard(module[0])
        fully_shard(module)
    weights = [p for name, p in module.named_parameters() if "weight" in name]
    others = [p for name, p in module.named_parameters() if "bias" in name]
    return module, torch.optim.AdamW([{"params": weights, "lr": 0.1}, {"params": others, "lr": 0.2}])


def _step(module, optimizer, seed):
    torch.manual_seed(seed)
    module(torch.randn(8, 5)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def written(rank, folder, background):
    module, optimizer = _made(True)
    for seed in range(3):
        _step(module, optimizer, seed)
    model, optim = get_state_dict(module, optimizer)
    from_rank_0(rank, module)
    state = {"model": model, "optim": optim, "step": 3}
    if background:
        future = dcp.async_save(state, checkpoint_id=folder)
        _step(module, optimizer, 5)  # meanwhile
        future.result()
    else:
        dcp.save(state, checkpoint_id=folder)


def from_rank_0(rank, module):
    """A model without memory takes a whole state dict that only rank 0 has."""
    state = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))
    with torch.device("meta"):
        made, _ = _made(True)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(made, state if rank == 0 else {}, options=options)
    x = torch.randn(4, 5)
    assert torch.equal(made.eval()(x), module.eval()(x))
    module.train()


def read(rank, folder):
    module, optimizer = _made(dist.is_initialized())
    model, optim = get_state_dict(module, optimizer)
    state = {"model": model, "optim": optim, "step": 0}
    dcp.load(state, checkpoint_id=folder)
    assert state["step"] == 3
    set_state_dict(module, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    _step(module, optimizer, 9)
    whole = get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))
    return {name: value.tolist() for name, value in whole.items()}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_checkpoint_is_read_by_any_number_of_ranks(tmp_path):
    module, optimizer = _made(False)
    for seed in (0, 1, 2, 9):
        _step(module, optimizer, seed)
    wanted = module.state_dict()
    for writers, readers, background in ((3, 2, False), (2, 0, True)):
        folder = str(tmp_path / str(writers))
        on_ranks(writers, written, folder, background, seconds=60)
        found = on_ranks(readers, read, folder, seconds=60)[0] if readers else read(0, folder)
        for name, value in wanted.items():
            assert torch.allclose(torch.tensor(found[name], dtype=value.dtype), value, atol=1e-5), name


def unpicklable(rank, folder):
    state = {"a": torch.ones(2), "b": (lambda: None) if rank else 1}
    with pytest.raises(dcp.CheckpointException) as raised:
        dcp.save(state, checkpoint_id=folder)
    assert list(raised.value.failures) == [1]


def test_a_failure_is_raised_by_all(tmp_path):
    on_ranks(2, unpicklable, str(tmp_path))


def own_order(rank, path):
    """An order that a program has written down, of three stages on two ranks."""
    torch.manual_seed(0)
    whole = nn.Sequential(*[Block(6) for _ in range(3)])
    own = {i: copy.deepcopy(whole[i]) for i in ((0, 2) if rank == 0 else (1,))}
    schedule = _PipelineScheduleRuntime([PipelineStage(m, i, 3, "cpu") for i, m in own.items()], 2, loss_fn=F.mse_loss)
    if rank == 0:
        with open(path, "w") as file:
            file.write("0F0,0F1,2F0,2I0,2W0,2F1,2B1,0B0,0B1\n1F0,1SEND_F0,1F1,,1I0,1B1,1W0\n")
    dist.barrier()
    schedule._load_csv(path, format="compute_comms")
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    found = schedule.step(*([x] if rank == 0 else []), target=y if rank == 0 else None)
    F.mse_loss(whole(x), y).backward()
    if rank == 0:
        assert torch.allclose(found, whole(x), atol=1e-6)
    for i, module in own.items():
        for a, b in zip(module.parameters(), whole[i].parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, atol=1e-6), i


def test_an_order_from_a_file(tmp_path):
    on_ranks(2, own_order, str(tmp_path / "order.csv"))
