"""DTensor: whatever the placements, values, layouts and gradients are those of the whole tensor."""

from __future__ import annotations

import contextlib
import io
import itertools

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
import flambeau.nn.functional as F
from flambeau.distributed import _functional_collectives as functional
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
    zeros,
)
from flambeau.distributed.tensor.debug import CommDebugMode, visualize_sharding
from flambeau.distributed.tensor.experimental import implicit_replication, local_map, register_sharding
from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

pytestmark = needs_mpi
PLACES = [Replicate(), Shard(0), Shard(1), Shard(2)]


def meshes(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert repr(mesh) == "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))"
    assert mesh.get_coordinate() == divmod(rank, 2)
    assert mesh["tp"].mesh.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert mesh["dp"].mesh.tolist() == [rank % 2, rank % 2 + 2]
    assert mesh["dp"].get_local_rank() == rank // 2 and mesh.get_local_rank("tp") == rank % 2
    assert dist.get_process_group_ranks(mesh.get_group("dp")) == [rank % 2, rank % 2 + 2]
    flat = mesh._flatten("all")
    assert flat.mesh.tolist() == [0, 1, 2, 3] and flat.shape == (4,)
    assert mesh._unflatten("tp", (2, 1), ("a", "b")).shape == (2, 2, 1)
    with pytest.raises(KeyError, match="Invalid mesh_dim_names"):
        mesh["pp"]
    with pytest.raises(RuntimeError, match="Mesh should not be bigger than default world size 4"):
        init_device_mesh("cpu", (8,))
    with pytest.raises(RuntimeError, match="Optional kwarg `mesh_dim` needs to be specified"):
        mesh.get_group()


def moved(rank):
    whole = torch.arange(6 * 7 * 5.0).view(6, 7, 5)
    for mesh in (init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))):
        for before in itertools.product(PLACES[:3], repeat=mesh.ndim):
            for after in itertools.product(PLACES, repeat=mesh.ndim):
                made = distribute_tensor(whole, mesh, before).redistribute(placements=after)
                assert made.placements == after
                assert torch.equal(made.to_local(), distribute_tensor(whole, mesh, after).to_local())
                assert torch.equal(made.full_tensor(), whole)
        for before in itertools.product([Partial(), Shard(0)], repeat=mesh.ndim):
            for after in itertools.product(PLACES, repeat=mesh.ndim):
                made = distribute_tensor(whole, mesh, before).redistribute(placements=after)
                assert torch.allclose(made.full_tensor(), whole)


def test_meshes_and_redistribution():
    on_ranks(4, meshes)
    on_ranks(4, moved, seconds=60)


def _pairs(x):
    return torch.view_as_complex(x.unflatten(-1, (4, 2)))


def _heads(x):
    return x.view(*x.shape[:-1], 2, -1).transpose(1, 2)


A, B = (4, 8), (8, 4)
INDEX = "index"
#: What is computed, of tensors of these shapes; INDEX: of small numbers.
CALLS = {
    "add": (lambda x, y: x + y, A, (8,)),
    "mul": (lambda x, y: x * y - x / 2, (4, 1, 8), A),
    "where": (lambda x, y: torch.where(x > 0, x, y).clamp(-1, 1), A, A),
    "matmul": (lambda x, y: x @ y, (2, 4, 8), B),
    "linear": (F.linear, (2, 4, 8), (4, 8), (4,)),
    "addmm": (torch.addmm, (4,), A, B),
    "attention": (lambda q, k: F.scaled_dot_product_attention(_heads(q), _heads(k), _heads(k)), (4, 4, 8), (4, 4, 8)),
    "reductions": (lambda x: (x.sum(0), x.mean(), x.amax(1, keepdim=True), x.var(1), x.norm(), x.logsumexp(0)), A),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0)), A),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (8,), w, b), (2, 4, 8), (8,), (8,)),
    "rms norm": (lambda x, w: F.rms_norm(x, (8,), w), (2, 4, 8), (8,)),
    "views": (lambda x: (x.view(4, 2, 4), x.t().flatten(), x[1:3, ::2], x.unsqueeze(0).expand(3, 4, 8), x[-1]), A),
    "rotations": (lambda x, y: torch.view_as_real(_pairs(x) * _pairs(y).conj()).flatten(1), A, A),
    "joined": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], 1), *x.split(2, 1)), A, A),
    "embedding": (lambda w, i: F.embedding(i, w), (8, 4), (INDEX, 4, 4)),
    "gather": (lambda x, i: (x.gather(1, i), x[i[:, 0]], x.index_select(0, i[0])), A, (INDEX, 4, 8)),
    "cross entropy": (lambda x, t: (F.cross_entropy(x, t), F.cross_entropy(x, t, reduction="none")), A, (INDEX, 4)),
    "losses": (lambda x, y: (F.mse_loss(x, y), F.binary_cross_entropy_with_logits(x, y.sigmoid())), A, A),
    "convolution": (lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1), 2), (4, 4, 4, 4), (4, 4, 3, 3)),
    "scans": (lambda x: (x.cumsum(1), x.topk(2, 1)[0], x.flip(0), x.roll(1, 0), x.tril()), A),
}


def computed(rank, names):
    mesh = init_device_mesh("cpu", (2,))
    for name in names:
        function, *shapes = CALLS[name]
        torch.manual_seed(0)
        whole = [torch.randint(0, 4, s[1:]) if s[0] == INDEX else torch.randn(s, requires_grad=True) for s in shapes]
        wanted = function(*whole)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        sum(x.sin().sum() for x in wanted).backward()
        for placements in itertools.product(*[[Replicate(), *map(Shard, range(x.ndim))] for x in whole]):
            parts = [
                distribute_tensor(x.detach(), mesh, [p]).requires_grad_(x.requires_grad)
                for x, p in zip(whole, placements, strict=True)
            ]
            found = function(*parts)
            found = found if isinstance(found, tuple) else (found,)
            for x, y in zip(found, wanted, strict=True):
                assert isinstance(x, DTensor) and x.shape == y.shape and x.stride() == y.stride(), (name, placements)
                assert torch.allclose(x.full_tensor(), y, rtol=1e-4, atol=1e-5), (name, placements)
            sum(x.sin().sum() for x in found).backward()
            for x, y in zip(parts, whole, strict=True):
                if y.grad is not None:
                    assert torch.allclose(x.grad.full_tensor(), y.grad, rtol=1e-4, atol=1e-4), (name, placements)


def test_operators_on_parts():
    names = list(CALLS)
    on_ranks(2, computed, names[::2], seconds=60)
    on_ranks(2, computed, names[1::2], seconds=60)


def refused(rank):
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    with pytest.raises(RuntimeError, match=r"got mixed torch\.Tensor and DTensor"):
        x + torch.ones(4, 4)
    with pytest.raises(RuntimeError, match="the local_tensor argument only accepts"):
        DTensor.from_local(x, mesh)
    with pytest.raises(RuntimeError, match="redistributing to Partial is for internal"):
        x.redistribute(placements=[Partial()])
    with pytest.raises(ValueError, match="must have the same length"):
        distribute_tensor(torch.ones(2), mesh, [Shard(0), Shard(0)])
    with pytest.raises(NotImplementedError, match="does not have a sharding strategy registered"):
        x.unfold(0, 2, 2)
    partial = DTensor.from_local(torch.ones(2), mesh, [Partial()])
    with pytest.raises(RuntimeError, match="can't change where that lies"):
        partial.exp_()


def further(rank):
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.arange(8.0).view(4, 2), mesh, [Shard(0)])
    with implicit_replication():
        assert torch.equal((x + torch.ones(2)).full_tensor(), torch.arange(8.0).view(4, 2) + 1)
    doubled = local_map(lambda t: t * 2, out_placements=[Shard(0)], in_placements=([Shard(0)],))
    assert torch.equal(doubled(x).full_tensor(), torch.arange(8.0).view(4, 2) * 2)
    with pytest.raises(ValueError, match="mismatched placements"):
        doubled(x.redistribute(placements=[Replicate()]))
    with pytest.raises(AssertionError, match="expects placements but received None"):
        local_map(torch.add, out_placements=[Shard(0)], in_placements=([Shard(0)], None))(x, x)
    with pytest.raises(AssertionError, match="received 1 out_placements but 2 is expected"):
        local_map(lambda t: (t, t), out_placements=[Shard(0)])(x)
    total = local_map(lambda t: functional.all_reduce(t.sum(0), "sum", mesh), out_placements=[Replicate()])(x)
    assert type(total.to_local()) is torch.Tensor and total.full_tensor().tolist() == [12, 16]
    assert x.sum().item() == 28 and torch.equal(x, x.clone())
    # a sum that is left stays one through linear operators
    left = x.sum(0) * 2
    assert left.placements == (Partial(),) and torch.equal(left.full_tensor(), torch.tensor([24.0, 32.0]))
    made = zeros(5, 3, device_mesh=mesh, placements=[Shard(0)])
    assert made.shape == (5, 3) and made.to_local().shape == ((3, 3) if rank == 0 else (2, 3))
    module = distribute_module(torch.nn.Linear(3, 2), mesh)
    assert module.weight.placements == (Replicate(),)

    # gradients of parts that went through plain code
    y = distribute_tensor(torch.ones(4), mesh, [Shard(0)]).requires_grad_()
    (y.to_local() * (rank + 1)).sum().backward()
    assert y.grad.full_tensor().tolist() == [1, 1, 2, 2]
    local = torch.ones(2, requires_grad=True)
    DTensor.from_local(local, mesh, [Shard(0)]).redistribute(placements=[Replicate()]).sum().backward()
    assert local.grad.tolist() == [1, 1]


def registered(rank):
    """Rules are an overload's alone: not another namespace's operator of that name, nor another overload."""
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.arange(8.0).view(2, 4), mesh, [Shard(1)])
    whole = x.full_tensor()

    @torch.library.custom_op("shard_test::cumsum", mutates_args=())
    def scaled_cumsum(x: torch.Tensor, dim: int, *, scale: float = 1.0) -> torch.Tensor:
        return x.cumsum(dim) * scale

    scaled_cumsum.register_fake(lambda x, dim, *, scale=1.0: torch.empty_like(x))
    with pytest.raises(NotImplementedError, match=r"shard_test.cumsum.default does not have a sharding strategy registered"):
        scaled_cumsum(x, 0)
    asked = []

    @register_sharding(torch.ops.shard_test.cumsum.default)
    def _(x, dim, **named):
        asked.append((tuple(x.shape), x.placements, dim, named))
        return [([Shard(1)], [Shard(1), None, None])]

    made = scaled_cumsum(x, 0, scale=2.0)
    assert made.placements == (Shard(1),) and torch.equal(made.full_tensor(), whole.cumsum(0) * 2)
    assert asked == [((2, 4), (Shard(1),), 0, {"scale": 2.0})]  # nothing that wasn't given
    # a later rule holds for calls that were made before
    register_sharding(torch.ops.shard_test.cumsum.default)(lambda x, dim, **named: [([Shard(0)], [Shard(0), None])])
    made = scaled_cumsum(x.redistribute(placements=[Shard(0)]), 1, scale=2.0)
    assert made.placements == (Shard(0),)
    assert scaled_cumsum(x, 0, scale=2.0).placements != (Shard(1),)
    # aten's rule is as it was, until it is replaced, for one overload
    assert x.cumsum(0).placements == (Shard(1),)
    register_sharding(torch.ops.aten.cumsum.default)(lambda x, dim, dtype=None: [])
    assert x.cumsum(0).placements == (Replicate(),) and torch.equal(x.cumsum(0).to_local(), whole.cumsum(0))
    assert x.cumsum_(0).placements == (Shard(1),)
    with pytest.raises(TypeError, match="overloads of operators"):
        register_sharding("aten::cumsum")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


def counted(rank):
    """CommDebugMode counts collectives by the namespace of who makes them, by module, and by pass."""
    mesh = init_device_mesh("cpu", (2,))
    ops = torch.ops.c10d_functional
    net = parallelize_module(Net(), mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})
    mode = CommDebugMode()
    with mode:
        dist.all_reduce(torch.ones(2))
        dist.barrier()
        net(torch.ones(2, 4, requires_grad=True)).sum().backward()
        x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
        x.redistribute(placements=[Shard(1)]).full_tensor()
        x.sum(0).redistribute(placements=[Shard(0)])
    x.full_tensor()
    counts = mode.get_comm_counts()
    assert mode.get_total_counts() == 7 and repr(mode) == "CommDebugMode(get_total_counts()=7)"
    assert counts[torch.ops.c10d.allreduce_] == counts[torch.ops.c10d.scatter_] == 1
    assert counts[ops.all_reduce] == 2  # of the outputs in the forward pass, of the input's gradient in the backward pass
    assert counts[ops.all_gather_into_tensor] == counts[ops.reduce_scatter_tensor] == 1
    assert counts[torch.ops._dtensor.shard_dim_alltoall] == 1
    by_module = mode.comm_module_counts
    assert by_module["Net.second"]["forward"] == by_module["Net"]["forward"] == {ops.all_reduce: 1}
    assert by_module["Net.first"]["backward"] == by_module["Global"]["backward"] == {ops.all_reduce: 1}
    assert not by_module["Net.first"]["forward"] and not by_module["Net.second"]["backward"]
    assert mode.get_sharding_info()["Net.second.weight"] == (Shard(1),)
    assert mode.get_parameter_info()["Net.first"]["bias"] is net.first.bias
    table = mode.generate_comm_debug_tracing_table(noise_level=0).splitlines()
    at = table.index("        Net.first")
    assert table[at + 1 : at + 3] == ["          BACKWARD PASS", "\x1b[1;33m            *c10d_functional.all_reduce: 1\x1b[0m"]
    with mode:
        made = torch.ops._c10d_functional.all_gather_into_tensor(torch.full((1,), float(rank)), 2, dist.group.WORLD.group_name)
    assert made.tolist() == [0, 1] and mode.get_comm_counts() == {ops.all_gather_into_tensor: 1}


def kept_and_written(rank):
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.arange(6.0).view(3, 2), mesh, [Shard(0)])
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    loaded = torch.load(file)["x"]  # which takes weights only
    assert loaded.placements == x.placements and loaded.device_mesh == mesh and torch.equal(loaded.full_tensor(), x.full_tensor())
    for place in (Shard(0), Shard(1), Replicate()):  # out= stays where it is
        out = distribute_tensor(torch.zeros(3, 2), mesh, [place])
        assert torch.add(x, 1, out=out) is out and out.placements == (place,)
        assert torch.equal(out.full_tensor(), x.full_tensor() + 1)
    with pytest.raises(RuntimeError, match="aren't resized"):
        torch.add(x, 1, out=distribute_tensor(torch.zeros(2, 2), mesh, [Shard(0)]))
    with pytest.raises(ValueError, match="Inconsistent tensor metadata"):
        DTensor.from_local(torch.ones(2 + rank), mesh, [Shard(0)], run_check=True)
    with pytest.warns(UserWarning, match="non-scalar tensor with numel=1"):
        assert torch.equal((x + torch.ones(1)).full_tensor(), x.full_tensor() + 1)
    with pytest.raises(NotImplementedError, match=r"aten.index.Tensor: its result depends on values"):
        x[x > 1]
    # what cuts the batch alone stays cut, and gradients come back so
    images = torch.randn(4, 6, 5)
    norm = torch.nn.GroupNorm(3, 6)
    whole, parts = images.clone().requires_grad_(), distribute_tensor(images, mesh, [Shard(0)]).requires_grad_()
    norm(whole).square().sum().backward()
    expected, norm = norm.weight.grad, distribute_module(torch.nn.GroupNorm(3, 6), mesh)
    norm(parts).square().sum().backward()
    assert parts.grad.placements == (Shard(0),) and norm.weight.grad.placements == (Partial(),)
    assert torch.allclose(parts.grad.full_tensor(), whole.grad, atol=1e-5)
    assert torch.allclose(norm.weight.grad.full_tensor(), expected, atol=1e-4)
    labels = distribute_tensor(torch.tensor([[0, 1, 2, -100, 5]] * 4), mesh, [Replicate()])
    for reduction, placed in (("none", Shard(0)), ("sum", Partial())):
        loss = F.cross_entropy(parts, labels, reduction=reduction)
        assert loss.placements == (placed,)
        assert torch.allclose(loss.full_tensor(), F.cross_entropy(images, labels.to_local(), reduction=reduction))
    for operator in (torch.fft.rfft, torch.linalg.svdvals, lambda x: F.interpolate(x, scale_factor=2)):
        made = operator(parts.detach())
        assert made.placements == (Shard(0),) and torch.allclose(made.full_tensor(), operator(images), atol=1e-4)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        visualize_sharding(distribute_tensor(torch.ones(3, 4), mesh, [Shard(1)]), header="two")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.getvalue().splitlines()[2::2]]
    assert rows == ([["", "Col 0-1", "Col 2-3"], ["Row 0-2", "cpu:0", "cpu:1"]] if rank == 0 else [])
    # a dimension that stays stays cut, with parts of one rank only or of different sizes
    for size in (1, 3):
        uneven = distribute_tensor(torch.arange(size * 4.0).view(size, 2, 2), mesh, [Shard(0)])
        made = uneven.view(size, 4)
        assert made.placements == (Shard(0),) and made.to_local().data_ptr() == uneven.to_local().data_ptr()


def mistakes_and_further_ways(rank):
    for body in (refused, further, counted, kept_and_written, registered):  # the last one changes rules
        body(rank)


def test_mistakes_and_further_ways():
    on_ranks(2, mistakes_and_further_ways)
