"""Pointwise steps that hand elements to each other share a kernel, and give eager's bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from codegen.programs.pointwise_programs import program_of

import flambeau as torch
from flambeau.base.flags import flags
from flambeau.codegen.programs import Replay, Unfit, passes, record
from flambeau.core.operator.pointwise import Pointwise, call
from flambeau.nn import functional as F


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def replay_of(fn: Callable[..., Any], *inputs: Any) -> Replay:
    found = record(fn, *inputs)[1]
    assert isinstance(found, Replay), found
    return found


def kernels(replay: Replay) -> int:
    """How many launches a replay is."""
    return len(replay.form.program.steps)


def bits(x: Any) -> Any:
    """All that a tensor is; every NaN counts as the same."""
    x = x.detach()
    if x.dtype.is_floating_point:
        x = torch.where(x != x, torch.full_like(x, float("nan")), x)
    values = bytes(x.contiguous().reshape(-1).view(torch.uint8).numpy()) if x.numel() else b""
    return values, tuple(x.shape), x.stride(), x.dtype


def check(fn: Callable[..., Any], make: Callable[[int], list[Any]]) -> Replay:
    """A replay that gives what the function gives, for other inputs than it was recorded with."""
    fn(*make(0))
    replay = replay_of(fn, *make(0))
    for salt in (0, 1, 2):
        mine, others = make(salt), make(salt)
        wanted, found = fn(*mine), replay(*others)
        assert list(map(bits, found)) == list(map(bits, wanted))
        assert list(map(bits, others)) == list(map(bits, mine))
        assert [x._version for x in others] == [x._version for x in mine]
    return replay


def randn(*shapes: Any, dtype: Any = None) -> Callable[[int], list[Any]]:
    def make(salt: int) -> list[Any]:
        source = torch.Generator().manual_seed(salt)
        return [torch.randn(shape, generator=source).to(dtype or torch.float32) for shape in shapes]

    return make


@pytest.mark.parametrize(
    ("first", "rows"), [(0, False), (5, False), (10, False), (15, False), (20, True), (25, True), (30, True)]
)
def test_random_programs(first: int, rows: bool) -> None:
    shared = 0
    for seed in range(first, first + 5):
        fn, make = program_of(seed, rows)
        try:
            fn(*make(0))
        except RuntimeError:  # what is written to overlaps
            continue
        replay = check(fn, make)
        shared += len(replay.program.steps) - kernels(replay)
    assert shared > 5


def test_a_chain_is_one_kernel() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = torch.sigmoid(x * 2 + y) * x
        z = torch.relu(z - y) / 3 + x * y
        return [torch.tanh(z)]

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        replay = check(fn, randn((5, 33), (5, 33), dtype=dtype))
        assert len(replay.program.steps) == 10
        assert kernels(replay) == 1
        assert replay.form.nbytes < replay.nbytes + 1
        assert not any(b.kind == "fresh" and b.size for b in replay.form.program.buffers)


def test_products_are_not_contracted_with_sums_of_other_operators() -> None:
    def fn(x: Any, y: Any, z: Any) -> Any:
        return [x * y + z, z - x * y, -(x * y) - z, torch.addcmul(x * y, y, z), (x / 4 + y) * z - x]

    assert kernels(check(fn, randn((999,), (999,), (999,)))) < 8


multiplied_and_added = Pointwise("multiplied_and_added", lambda x, y, z: x * y + z, ("x", "y", "z"))  # LLVM contracts that


def multiply_and_add(*operands: Any) -> Any:
    return call(multiplied_and_added, operands)


def test_a_product_that_two_operators_compute_keeps_its_uses() -> None:
    def twice(x: Any, y: Any, z: Any) -> Any:
        return [multiply_and_add(x, y, multiply_and_add(x, y, z))]

    assert kernels(check(twice, randn((999,), (999,), (999,)))) == 2

    def once(x: Any, y: Any, z: Any) -> Any:
        return [multiply_and_add(x, z, multiply_and_add(x, y, z))]

    assert kernels(check(once, randn((999,), (999,), (999,)))) == 1


def test_a_product_that_is_the_same_along_rows_stays_before_the_loop() -> None:
    def fn(x: Any, y: Any, z: Any) -> Any:
        return [multiply_and_add(x, y, z.t()).t() - 1]  # in its own kernel x and y change along the innermost axis

    def other(x: Any, y: Any, z: Any) -> Any:
        return [multiply_and_add(torch.full_like(z, 0.3), torch.full_like(z, 0.7), z)]

    check(fn, randn((1, 70), (1, 70), (70, 50)))
    assert kernels(check(other, randn((), (), (70, 50)))) == 3


def test_what_others_read_is_still_written() -> None:
    def fn(x: Any) -> Any:
        y = torch.exp(x)
        return [y * 2, y.sum(), y]

    replay = check(fn, randn((6, 50)))
    assert len(replay.program.steps) - kernels(replay) == 1


def test_steps_move_over_others_that_they_have_nothing_to_do_with() -> None:
    def fn(x: Any, w: Any) -> Any:
        y = torch.exp(x)
        product = w @ w
        return [y * 2, product]

    assert kernels(check(fn, randn((6, 50), (8, 8)))) == 2

    def between(x: Any, w: Any) -> Any:
        y = torch.exp(x)
        product = y @ w
        y.mul_(2)
        return [y + 1, product]

    assert kernels(check(between, randn((6, 8), (8, 8)))) == 3


def test_reductions_and_norms_compute_their_elements() -> None:
    def fn(x: Any, y: Any, m: Any) -> Any:
        sums = (x * y).sum(-1), (x - m).square().mean(-1), (x - y).abs().amax(0), (x + y).sum(0), (x * y).mean()
        return [*sums, F.softmax(x * 0.125 + y, -1), F.layer_norm(x - y, x.shape[-1:])]

    for shape in ((16, 100), (3, 2050), (70, 9)):
        replay = check(fn, randn(shape, shape, (shape[0], 1)))
        assert kernels(replay) == 7

    def others(x: Any, y: Any) -> Any:
        z = x + y
        return [F.layer_norm(z, z.shape[-1:]), z, F.log_softmax(torch.tanh(y) * 30, -1), torch.exp(x).sum(-1)]

    assert kernels(check(others, randn((16, 32), (16, 32)))) == 6  # in short rows what is written anyway is read
    replay = check(others, randn((16, 100), (16, 100)))
    assert kernels(replay) == 5  # a sum with a longer body would be added up in another order; tanh would be computed three times


def test_what_is_computed_of_norms_is_computed_in_their_last_loop() -> None:
    def fn(x: Any, y: Any, z: Any) -> Any:
        return [
            torch.relu(F.layer_norm(x + y, x.shape[-1:])) * z + x,
            F.softmax(x * 3, -1) * y,
            F.silu(F.group_norm(x.view(2, 4, -1), 2)),
        ]

    for shape in ((16, 100), (4, 1030)):
        assert kernels(check(fn, randn(shape, shape, shape))) == 3

    def seen(x: Any, y: Any) -> Any:
        z = F.softmax(x, -1)
        mean = y.mean(-1, keepdim=True)
        w = F.log_softmax(y, -1)
        w.mul_(x)
        v = F.layer_norm(x, x.shape[-1:])
        return [z * y, z.t() + 1, mean * 2, w + y, torch.exp(v), v, F.softmax(z, -1)]

    check(seen, randn((40, 50), (40, 50)))


def test_what_lies_elsewhere_in_a_row_program_s_result_is_read_after_it() -> None:
    def fn(x: Any) -> Any:
        z = F.softmax(x, -1)
        return [z * z.t(), z[:, :1] + z]

    check(fn, randn((40, 40)))


def test_a_row_that_is_read_whole_is_not_overwritten_before() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = F.softmax(x, -1)
        x.copy_(z * y)
        z.add_(x)
        y.copy_(F.layer_norm(y * 2, y.shape[-1:]))
        return [z, x + 1]

    check(fn, randn((16, 100), (16, 100)))


def test_a_product_that_is_folded_and_used_elsewhere_keeps_its_uses() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = x * 1.7
        return [z * z + y, z.double().square().sum(-1), F.layer_norm(z, z.shape[-1:])]

    check(fn, randn((16, 100), (16, 100)))


def test_writes_in_place_and_views() -> None:
    def fn(x: Any, y: Any) -> Any:
        x.mul_(y).add_(1)
        z = x.t() + 1
        x[:, 1:].add_(x[:, :-1].clone())
        y.copy_(z.t())
        return [y.view(-1) * 2, x]

    check(fn, randn((7, 9), (7, 9)))


def test_a_step_that_is_overwritten_is_gone() -> None:
    def fn(x: Any) -> Any:
        y = torch.zeros(4, 5)
        y.copy_(x)
        return [y * 3]

    replay = check(fn, randn((4, 5)))
    assert kernels(replay) == 1


def test_random_numbers_and_bad_indices_stay_where_they_are() -> None:
    held = torch.zeros(3)

    def fn(x: Any, i: Any) -> Any:
        held.add_(1)
        y = F.embedding(i, x) * 2
        held.mul_(2)
        return [y + held]

    x, i = torch.randn(4, 3), torch.tensor([1, 2])
    replay = replay_of(fn, x, i)
    before = held.clone()
    with pytest.raises(Unfit, match="bad data"):
        replay(x, torch.tensor([1, 9]))
    assert held.equal(before)
    found = replay(x, torch.tensor([0, 3]))[0]
    held.copy_(before)
    assert found.equal(fn(x, torch.tensor([0, 3]))[0])


def test_sizes_that_are_one_and_layouts_that_are_none_of_c() -> None:
    def fn(x: Any, y: Any) -> Any:
        z = (x + y).relu()
        return [(z * y).view(2, 4, -1).exp(), z.unsqueeze(1) - 1]

    def make(salt: int) -> list[Any]:
        return [v.to(memory_format=torch.channels_last) for v in randn((2, 4, 3, 1), (2, 4, 3, 1))(salt)]

    check(fn, make)


def test_what_runs_until_kernels_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    there = False
    take = passes.Improved.take

    def later(self: Any, wait: bool = False) -> Any:
        return take(self, True) if there else None

    monkeypatch.setattr(passes.Improved, "take", later)

    def fn(x: Any) -> Any:
        return [torch.exp(x * 2) + 1]

    x = torch.randn(70)
    fn(x)
    replay = replay_of(fn, x)
    assert kernels(replay) == 3
    assert replay(x)[0].equal(fn(x)[0])
    there = True
    assert replay(x)[0].equal(fn(x)[0])
    assert kernels(replay) == 1
    replay.forget()
    assert replay(x)[0].equal(fn(x)[0])
    assert kernels(replay) == 1


def test_kernels_are_compiled_on_threads() -> None:
    def fn(x: Any) -> Any:
        return torch.sin(x * 0.37251) + 1.6251

    fn(torch.randn(70))
    program = replay_of(fn, torch.randn(70)).program
    made = passes.improve(program)
    assert made is not None
    assert all(step.words for step in made.take(wait=True).steps)  # type: ignore[union-attr]
    x = torch.randn(70)
    assert Replay(program, settled=True)(x)[0].equal(fn(x))


def test_passes_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(x: Any) -> Any:
        return x * 2 + 1

    fn(torch.randn(7))
    monkeypatch.setattr(flags, "passes", frozenset())
    assert kernels(replay_of(fn, torch.randn(7))) == 2
    monkeypatch.setattr(flags, "passes", frozenset(("fusion",)))
    assert kernels(replay_of(fn, torch.randn(7))) == 1
