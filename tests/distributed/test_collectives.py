"""Collectives and messages: what each rank has afterwards, for every dtype, layout and way to call them."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import _functional_collectives as functional

pytestmark = needs_mpi
SUM, MAX, MIN, PRODUCT, AVG = (getattr(dist.ReduceOp, name) for name in "SUM MAX MIN PRODUCT AVG".split())
WHOLE = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def reduced(rank: int, size: int) -> None:
    for dtype in (*WHOLE, *FLOATS, torch.complex64, torch.complex128):
        x = torch.full((5,), rank + 1).to(dtype)
        dist.all_reduce(x)
        assert x.tolist() == [size * (size + 1) / 2] * 5, dtype
        if dtype.is_complex:
            continue
        for op, wanted in ((MAX, size), (MIN, 1), (PRODUCT, [2, 6][size - 2])):
            x = torch.full((3,), rank + 1).to(dtype)
            dist.all_reduce(x, op)
            assert x.tolist() == [wanted] * 3, (dtype, op)
    for op, wanted in ((dist.ReduceOp.BAND, 0), (dist.ReduceOp.BOR, [3, 7][size - 2]), (dist.ReduceOp.BXOR, [3, 7][size - 2])):
        x = torch.tensor([1 << rank])
        dist.all_reduce(x, op)
        assert x.item() == wanted
    with pytest.raises(RuntimeError, match=r"Cannot use ReduceOp\.BAND with non-integral dtype"):
        dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND)
    with pytest.warns(FutureWarning, match="please use `torch.distributed.ReduceOp` instead"):
        assert dist.reduce_op.SUM is SUM
    with pytest.raises(ValueError, match=r"all_reduce does not support RedOpType\.MAX on complex tensors"):
        dist.all_reduce(torch.ones(1, dtype=torch.complex64), MAX)
    truth = torch.tensor([rank == 0, True, False])
    dist.all_reduce(truth)
    assert truth.tolist() == [True, True, False]
    x = torch.full((4,), float(rank))
    dist.all_reduce(x, AVG)
    assert x.tolist() == [(size - 1) / 2] * 4
    x = torch.full((2,), 1.0)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    assert x.tolist() == [size / 2] * 2
    # a tie of bfloat16 goes to even, as in every operator
    x = torch.tensor([1.0 if rank == 0 else 2.0**-8 if rank == 1 else 0.0], dtype=torch.bfloat16)
    dist.all_reduce(x)
    assert x.item() == 1.0


def layouts(rank: int, size: int) -> None:
    base = torch.zeros(4, 6)
    part = base[1:3, ::2].t()
    part.fill_(rank + 1.0)
    dist.all_reduce(part)
    total = size * (size + 1) / 2
    assert base[1:3, ::2].eq(total).all() and base.sum() == 6 * total
    large = torch.arange(3_000_001, dtype=torch.float32) * (rank + 1)  # several parts
    dist.all_reduce(large)
    assert torch.equal(large, torch.arange(3_000_001, dtype=torch.float32) * total)
    dist.broadcast(large.fill_(rank), size - 1)
    assert large.eq(size - 1).all()
    empty, scalar = torch.empty(0, 3), torch.tensor(rank + 1)
    dist.all_reduce(empty)
    dist.all_reduce(scalar)
    assert scalar.item() == total
    leaf = torch.ones(2, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.tolist() == [size] * 2 and leaf.grad_fn is None
    conjugate = torch.tensor([1j * (rank + 1)]).conj()
    dist.all_reduce(conjugate)
    assert conjugate.item() == -1j * total
    dist.broadcast(column := torch.full((3, 2), rank)[:, 1], 0)
    assert column.tolist() == [0, 0, 0]


def copies(rank: int, size: int) -> None:
    own = torch.tensor([rank, -rank])
    got = [torch.empty(2, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(got, own)
    assert [each.tolist() for each in got] == [[r, -r] for r in range(size)]
    flat, stacked = torch.empty(2 * size, dtype=torch.int64), torch.empty(size, 2, dtype=torch.int64)
    with pytest.warns(FutureWarning, match=r"all_gather_into_tensor` is deprecated. Please use `.*all_gather_single"):
        dist.all_gather_into_tensor(flat, own)
    dist.all_gather_single(stacked, own)
    assert flat.view(size, 2).tolist() == stacked.tolist() == [[r, -r] for r in range(size)]
    lists = [[torch.empty(2, dtype=torch.int64), torch.empty(1, dtype=torch.int64)] for _ in range(size)]
    with pytest.warns(FutureWarning, match=r"all_gather_coalesced` will be deprecated"):
        dist.all_gather_coalesced(lists, [own, torch.tensor([7 * rank])])
    assert [pair[1].item() for pair in lists] == [7 * r for r in range(size)]
    got = [torch.empty(2, dtype=torch.int64) for _ in range(size)] if rank == 1 else None
    dist.gather(own, got, dst=1)
    assert got is None or [each.tolist() for each in got] == [[r, -r] for r in range(size)]
    made = torch.empty(2)
    dist.scatter(made, [torch.full((2,), 10.0 + r) for r in range(size)] if rank == 0 else None)
    assert made.tolist() == [10.0 + rank] * 2
    dist.reduce(total := torch.ones(3) * rank, 1, MAX)
    assert rank != 1 or total.tolist() == [size - 1] * 3
    wide = torch.full((5000, 3), float(rank)).t()  # pieces that go in messages of their own, from and to any layout
    got = [torch.empty(5000, 3).t() for _ in range(size)]
    dist.all_gather(got, wide)
    assert all(each.eq(r).all() for r, each in enumerate(got))
    dist.all_to_all(got, [wide + 10 * r for r in range(size)])
    assert all(each.eq(r + 10 * rank).all() for r, each in enumerate(got))
    dist.scatter(wide, [torch.full((3, 5000), 7.0 + r) for r in range(size)] if rank == 1 else None, src=1)
    assert wide.eq(7 + rank).all()
    dist.gather(wide, got if rank == 0 else None)
    assert rank or all(each.eq(7 + r).all() for r, each in enumerate(got))
    flat = torch.arange(9000.0 * size) + rank
    dist.all_to_all_single(large := torch.empty(9000 * size), flat)
    assert torch.equal(large, torch.cat([flat[9000 * rank : 9000 * (rank + 1)] - rank + r for r in range(size)]))
    made = torch.empty(2)
    dist.reduce_scatter(made, [torch.full((2,), float(r)) for r in range(size)])
    assert made.tolist() == [rank * size] * 2
    dist.reduce_scatter_single(made, torch.arange(2.0 * size), AVG)
    assert made.tolist() == [2.0 * rank, 2.0 * rank + 1]
    made = torch.empty(size, 2)
    dist.all_to_all_single(made, torch.arange(2.0 * size).view(size, 2) + 100 * rank)
    assert made.tolist() == [[2 * rank + 100 * r, 2 * rank + 1 + 100 * r] for r in range(size)]
    # rank r sends r + 1 rows to everybody
    made = torch.empty(sum(range(1, size + 1)), 2)
    dist.all_to_all_single(made, torch.full(((rank + 1) * size, 2), float(rank)), list(range(1, size + 1)), [rank + 1] * size)
    assert made[:, 0].tolist() == [r for r in range(size) for _ in range(r + 1)]
    made = [torch.empty(r + 1) for r in range(size)]
    dist.all_to_all(made, [torch.full((rank + 1,), float(rank)) for _ in range(size)])
    assert [each.tolist() for each in made] == [[float(r)] * (r + 1) for r in range(size)]
    with pytest.raises(RuntimeError, match="Split sizes doesn't match total dim 0 size"):
        dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1] * size, [1] * size)
    with pytest.raises(RuntimeError, match=rf"expected length {size}, got 1"):
        dist.all_gather([torch.ones(2)], torch.ones(2))
    with pytest.raises(ValueError, match="must be specified on source rank"):
        dist.scatter(made[0], None, src=rank)


def objects(rank: int, size: int) -> None:
    dist.all_gather_object(got := [None] * size, {"rank": rank, "text": "x" * rank})
    assert got == [{"rank": r, "text": "x" * r} for r in range(size)]
    dist.broadcast_object_list(things := [rank, ("a", rank)], 1)
    assert things == [1, ("a", 1)]
    dist.gather_object(rank, got if rank == 0 else None)
    assert rank or got == list(range(size))
    dist.scatter_object_list(made := [None], [str(r) for r in range(size)] if rank == 0 else None, 0)
    assert made == [str(rank)]
    if rank == 0:
        dist.send_object_list([{1: 2}, None], 1)
    if rank == 1:
        assert dist.recv_object_list(made := [0, 0], 0) == 0 and made == [{1: 2}, None]


def messages(rank: int, size: int) -> None:
    following, before = (rank + 1) % size, (rank - 1) % size
    got = torch.empty(3)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, torch.full((3,), float(rank)), following), dist.P2POp(dist.irecv, got, before)]
    ):
        work.wait()
    assert got.tolist() == [float(before)] * 3
    if rank == 0:
        late, early = torch.tensor([1.0]), torch.tensor([2.0])
        works = [dist.isend(late, 1, tag=5), dist.isend(early, 1, tag=4)]
        seen = sorted(dist.recv(torch.empty(1)) for _ in range(size - 1))
        assert seen == list(range(1, size)) and all(work.wait() for work in works)
    else:
        if rank == 1:
            x, y = torch.empty(1), torch.empty(1)
            assert dist.recv(x, 0, tag=4) == 0 and dist.irecv(y, 0, tag=5).wait() and (x.item(), y.item()) == (2.0, 1.0)
        dist.send(torch.ones(1), 0)
    with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
        dist.send(got, rank)


def asynchronous(rank: int, size: int) -> None:
    tensors = [torch.full((200_000,), float(rank + i)) for i in range(6)]
    works = [dist.all_reduce(x, async_op=True) for x in tensors]
    told: list[Any] = []
    follower = works[3].get_future().then(lambda future: told.append(future.value()[0][0].item()))
    for i in reversed(range(6)):
        assert works[i].wait() and works[i].is_completed() and works[i].is_success() and works[i].exception() is None
        assert tensors[i].eq(sum(r + i for r in range(size))).all() and works[i].result()[0] is tensors[i]
    follower.wait()
    assert told == [sum(r + 3 for r in range(size))]
    # nobody waits: a thread drives it on
    done = threading.Event()
    dist.all_reduce(torch.ones(10), async_op=True).get_future().add_done_callback(lambda _: done.set())
    assert done.wait(10)
    dist.barrier()
    assert dist.barrier(async_op=True).wait(timedelta(seconds=10))


def grouped(rank: int, size: int) -> None:
    pair, rest = dist.new_group([0, 1]), dist.new_group([1])
    assert (rest == dist.GroupMember.NON_GROUP_MEMBER) == (rank != 1)
    assert rank == 2 or dist.get_process_group_ranks(pair) == [0, 1]
    assert dist.get_rank(rest) == (0 if rank == 1 else -1) and dist.get_world_size(pair) == (2 if rank < 2 else -1)
    x = torch.ones(1)
    if rank < 2:
        dist.all_reduce(x, group=pair)
        assert x.item() == 2 and dist.get_global_rank(pair, 1) == 1 == dist.get_group_rank(pair, 1)
        with pytest.raises(ValueError, match="is not part of group"):
            dist.get_group_rank(pair, 7)
    else:
        with pytest.warns(UserWarning, match="does not belong to the given group"):
            dist.all_reduce(x, group=pair)
    own, all = dist.new_subgroups(1)
    assert len(all) == size and dist.get_world_size(own) == 1
    backwards = dist.new_group(list(reversed(range(size))), sort_ranks=False)
    assert dist.get_rank(backwards) == size - 1 - rank
    dist.broadcast(x.fill_(rank), group=backwards, group_src=0)
    assert x.item() == size - 1
    part = dist.split_group(None, [[r for r in range(size) if r % 2 == odd] for odd in (0, 1)])
    dist.all_reduce(x.fill_(rank), group=part)
    assert x.item() == sum(range(rank % 2, size, 2))
    if rank < 2:
        dist.destroy_process_group(pair)
        with pytest.raises(ValueError, match="Invalid process group specified"):
            dist.all_reduce(x, group=pair)
    with pytest.raises(ValueError, match="Rank 9 is out of range"):
        dist.new_group([9])


def functionally(rank: int, size: int) -> None:
    x = torch.arange(2.0 * size) + rank
    world = list(range(size))
    assert functional.all_reduce(x, "sum", world).sum() == size * x.sum() + (sum(world) - rank * size) * 2 * size
    assert functional.all_gather_tensor(torch.full((2, 1), float(rank)), 1, "0").tolist() == [[float(r) for r in world]] * 2
    part = functional.reduce_scatter_tensor(torch.arange(2.0 * size), "avg", 0, dist.group.WORLD)
    assert part.tolist() == [2 * rank, 2 * rank + 1]
    assert functional.permute_tensor(torch.tensor([rank]), [(r + 1) % size for r in world], world).item() == (rank - 1) % size
    result = functional.all_reduce(torch.ones(2, 2), "sum", world)
    assert type(result) is functional.AsyncCollectiveTensor and type(result.view(4)) is type(result)
    assert {type(t) for t in (result.wait(), functional.wait_tensor(result), result + 1)} == {torch.Tensor}
    assert result.add_(1) is result and result.wait().tolist() == [[size + 1.0] * 2] * 2
    leaf = torch.full((2,), rank + 1.0, requires_grad=True)
    (functional.all_reduce(leaf, "sum", world) * (rank + 1)).sum().backward()
    assert leaf.grad.tolist() == [size * (size + 1) / 2] * 2
    with pytest.raises(RuntimeError, match="all_reduce backward only supports 'sum' reduction, got 'max'"):
        functional.all_reduce(leaf, "max", world).wait().sum().backward()
    leaf.grad = None
    (functional.all_gather_tensor_autograd(leaf, 0, world) * (rank + 1)).sum().backward()
    assert leaf.grad.tolist() == [size * (size + 1) / 2] * 2
    leaf.grad = None
    (dist.nn.functional.all_reduce(leaf) * (rank + 1)).sum().backward()
    assert leaf.grad.tolist() == [size * (size + 1) / 2] * 2
    leaf.grad = None
    gathered = dist.nn.functional.gather(leaf, 1)  # whose backward pass is one of all ranks
    assert len(gathered) == size and all(each.requires_grad for each in gathered)
    sum((r + 1) * each.sum() for r, each in enumerate(gathered)).backward()
    assert leaf.grad.tolist() == [rank + 1.0] * 2


def everything(rank: int, size: int) -> None:
    assert dist.get_rank() == rank and dist.get_world_size() == size and dist.get_backend() == "gloo" and dist.is_initialized()
    for part in (reduced, layouts, copies, objects, messages, asynchronous, grouped, functionally):
        part(rank, size)
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group("mpi", timeout=timedelta(seconds=20))  # the same processes again
    dist.all_reduce(x := torch.ones(1))
    assert x.item() == size and dist.get_backend() == "mpi"


@pytest.mark.parametrize("size", [2, 3])
def test_all_collectives(size: int) -> None:
    on_ranks(size, everything, size)


def alone(rank: int) -> None:
    x = torch.arange(4.0)
    dist.all_reduce(x)
    dist.all_gather([y := torch.empty(4)], x)
    dist.reduce_scatter_single(z := torch.empty(4), x, AVG)
    assert x.tolist() == y.tolist() == z.tolist() == [0, 1, 2, 3]
    dist.all_to_all_single(z, x + 1)
    dist.barrier()
    dist.all_gather_object(got := [None], "a")
    assert got == ["a"] and z.tolist() == [1, 2, 3, 4] and dist.all_reduce(x, async_op=True).get_future().wait()[0] is x


def test_a_world_of_one() -> None:
    on_ranks(1, alone)


def differing(rank: int) -> list[str]:
    messages = []
    for call in (
        lambda: dist.all_reduce(torch.ones(2 + rank)),
        lambda: dist.all_reduce(torch.ones(2, dtype=(torch.float32, torch.int32)[rank])),
        lambda: dist.broadcast(torch.ones(2), 0) if rank else dist.all_reduce(torch.ones(2)),
        lambda: dist.broadcast(torch.ones(2), rank),
        lambda: dist.all_reduce(torch.ones(2), (dist.ReduceOp.SUM, dist.ReduceOp.MAX)[rank]),
    ):
        with pytest.raises(RuntimeError, match="Detected mismatch between collectives on ranks") as caught:
            call()
        messages.append(str(caught.value))
    dist.all_reduce(x := torch.ones(1))  # which harms nothing
    assert x.item() == 2
    return messages


def test_detail_compares_calls() -> None:
    shapes, dtypes, calls, roots, reductions = on_ranks(2, differing, variables={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})[0]
    assert "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[2]" in shapes
    assert "but Rank 1 is running" in shapes and shapes.endswith("Tensor Tensor shapes: 2vs 3")
    assert dtypes.endswith("Tensor Tensor dtypes: Floatvs Int") and calls.endswith("Op type: ALLREDUCEvs BROADCAST")
    assert roots.endswith("Arguments: root 0vs root 1") and reductions.endswith("Arguments: SUMvs MAX")
