"""What a replay does, it does as the recorded call did: steps of training, in-place writes, random numbers, threads, errors."""

from __future__ import annotations

import copy
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.codegen import jit
from flambeau.codegen.builder import kernel, module
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.programs import Refusal, Replay, Tape, Unfit, record
from flambeau.codegen.runtime import state
from flambeau.codegen.targets import lowered
from flambeau.nn import functional as F
from flambeau.optim import adam


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def replay_of(fn: Callable[..., Any], *inputs: Any, **options: Any) -> Replay:
    found = record(fn, *inputs, **options)[1]
    assert isinstance(found, Replay), found
    return found


def equal(xs: Any, ys: Any) -> bool:
    xs, ys = list(xs), list(ys)
    return len(xs) == len(ys) and all(x.equal(y) and x.stride() == y.stride() for x, y in zip(xs, ys))


# ---------------------------------------------------------------- steps of training
class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.attention, self.drop = nn.MultiheadAttention(8, 2, batch_first=True), nn.Dropout(0.25)
        self.table, self.out = nn.Embedding(7, 8), nn.Linear(8, 5)

    def forward(self, x: Any, words: Any) -> Any:
        x = F.gelu(self.norm(self.conv(x))).flatten(2).transpose(1, 2) + self.table(words)[:, None]
        x = self.drop(x + self.attention(x, x, x, need_weights=False)[0])
        return self.out(F.layer_norm(x, (8,)).mean(1))


def steps(make: Callable[[Any], Any], lr: float = 0.01) -> tuple[Any, Any, Callable[..., Any], Callable[..., Any]]:
    """Two equal networks with optimizers, and a step of training of each."""
    torch.manual_seed(0)
    nets = [Net()]
    nets.append(copy.deepcopy(nets[0]))
    optimizers = [make(n.parameters()) for n in nets]

    def step_of(net: Any, optimizer: Any) -> Callable[..., Any]:
        def step(x: Any, words: Any, target: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x, words), target)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return step

    return nets, optimizers, step_of(nets[0], optimizers[0]), step_of(nets[1], optimizers[1])


def batch(seed: int) -> list[Any]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(4, 3, 5, 5, generator=g), torch.randint(7, (4,), generator=g), torch.randint(5, (4,), generator=g)]


def held(net: Any, optimizer: Any) -> list[Any]:
    """All that a step changes."""
    state = [v for p in net.parameters() for v in optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return [*net.parameters(), *net.buffers(), *state, *[p.grad for p in net.parameters()]]


def test_a_step_with_momentum_dropout_and_running_statistics() -> None:
    nets, optimizers, eager, recorded = steps(lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9, weight_decay=1e-3))
    for seed in range(2):
        for step in (eager, recorded):
            torch.manual_seed(seed)
            step(*batch(seed))
    torch.manual_seed(2)
    wanted = eager(*batch(2))
    torch.manual_seed(2)
    loss, replay = record(recorded, *batch(2))
    assert isinstance(replay, Replay), replay
    assert loss.equal(wanted)

    def versions() -> list[list[int]]:
        return [[x._version for x in (*net.parameters(), *net.buffers())] for net in nets]

    before = versions()
    for seed in range(3, 7):
        torch.manual_seed(seed)
        wanted, wanted_state = eager(*batch(seed)), torch.get_rng_state()
        torch.manual_seed(seed)
        assert replay(*batch(seed))[0].equal(wanted)
        assert torch.get_rng_state().equal(wanted_state)
        assert equal(held(nets[1], optimizers[1]), held(nets[0], optimizers[0]))
    grown = [[now - then for now, then in zip(*pair)] for pair in zip(versions(), before)]
    assert grown[0] == grown[1]
    assert min(grown[0]) == 0
    assert max(grown[0]) == 4


def test_numbers_of_an_optimizer_are_given_to_each_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    nets, optimizers, eager, recorded = steps(lambda ps: torch.optim.AdamW(ps, 0.01))
    for seed in range(2):
        for step in (eager, recorded):
            torch.manual_seed(seed)
            step(*batch(seed))
    torch.manual_seed(2)
    eager(*batch(2))
    inputs = batch(2)
    tape, names, by_step, apply = Tape(inputs), [], adam.by_step, adam.apply_updates

    def counted(members: Any) -> Any:
        with tape.reading():
            return list(by_step(members))

    def lifted(formula: Any, rows: Any, scalars: dict[str, float], flags: Any) -> None:
        names.extend(scalars)
        apply(formula, rows, {name: tape.lift(value) for name, value in scalars.items()}, flags)

    with monkeypatch.context() as patched:
        patched.setattr(adam, "by_step", counted)
        patched.setattr(adam, "apply_updates", lifted)
        torch.manual_seed(2)
        replay = record(recorded, *inputs, tape=tape)[1]
    assert isinstance(replay, Replay), replay
    for seed in range(3, 7):
        step, (beta1, beta2), lr = seed + 1.0, (0.9, 0.999), 0.01
        for group in optimizers[0].param_groups:
            group["lr"] = lr = lr / step  # a schedule
        torch.manual_seed(seed)
        wanted = eager(*batch(seed))
        numbers = {
            "weight1": 1 - beta1, "beta2": beta2, "weight2": 1 - beta2, "eps": 1e-8, "weight_decay": 1e-2, "kept": 1 - lr * 1e-2,
            "step_size": lr / (1 - beta1**step), "bias2_sqrt": (1 - beta2**step) ** 0.5,
        }  # fmt: skip
        torch.manual_seed(seed)
        assert replay.run(batch(seed), [numbers[name] for name in names])[0].equal(wanted)
        assert equal(held(nets[1], optimizers[1]), held(nets[0], optimizers[0]))


def test_recording_changes_no_launch_of_a_step() -> None:
    *_, step = steps(lambda ps: torch.optim.SGD(ps, 0.1))
    for _ in range(2):
        step(*batch(0))
    inputs, counts = batch(0), []
    for call in (step, lambda *xs: replay_of(step, *xs), step):
        before = state.words[state.SERIAL]
        call(*inputs)
        counts.append(state.words[state.SERIAL] - before)
    assert len(set(counts)) == 1  # gradients that were taken as they are, and not copied, are still


# ---------------------------------------------------------------- memory
def test_in_place_writes_to_inputs_and_views_of_them() -> None:
    def fn(x: Any, y: Any) -> Any:
        x[1:].mul_(y[0])
        x.t().add_(1.0)
        return x.sum(0), x[0], y

    x, y = torch.randn(3, 3), torch.randn(3)
    replay = replay_of(fn, x, y)
    x, y = torch.randn(4, 3), torch.randn(5)
    one, other = x.clone(), x.clone()
    wanted, found = fn(one[1:], y[2:]), replay(other[1:], y[2:])
    assert equal(found, wanted)
    assert one.equal(other)
    assert one._version == other._version
    assert found[1].data_ptr() == other[1:].data_ptr()


def test_inputs_that_share_memory_must_share_it_again() -> None:
    def fn(x: Any, y: Any) -> Any:
        x.add_(1)
        return x + y

    base = torch.randn(6)
    replay = replay_of(fn, base[:4], base[2:])
    other = torch.randn(6)
    wanted = other.clone()
    expected = fn(wanted[:4], wanted[2:])
    assert replay(other[:4], other[2:])[0].equal(expected)
    assert other.equal(wanted)
    with pytest.raises(Unfit, match=r"another way|less"):
        replay(torch.randn(4), torch.randn(4))
    apart = replay_of(fn, torch.randn(4), torch.randn(4))
    kept = base.clone()
    with pytest.raises(Unfit, match="shared"):
        apart(base[:4], base[2:])
    assert base.equal(kept)
    assert apart(torch.zeros(4), torch.zeros(4))[0].tolist() == [1.0] * 4


def test_parameters_are_found_where_they_are_and_must_live() -> None:
    held = [torch.randn(3, 3)]
    count = sys.getrefcount(held[0]), sys.getrefcount(held[0]._storage)
    replay = replay_of(lambda x: x @ held[0], torch.randn(2, 3))
    assert (sys.getrefcount(held[0]), sys.getrefcount(held[0]._storage)) == count
    x = torch.randn(2, 3)
    held[0].mul_(2)
    assert replay(x)[0].equal(x @ held[0])
    held[0].untyped_storage().resize_(4)
    with pytest.raises(Unfit, match="less"):
        replay(x)
    held.clear()
    gc.collect()
    with pytest.raises(Unfit, match="gone"):
        replay(x)


def test_parameters_written_through_data() -> None:
    one, other = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))

    def update(p: Any, x: Any) -> Any:
        p.data.mul_(0.5).add_(x)
        return p.detach() * 2

    x = torch.ones(3)
    for p in (one, other):
        update(p, x)
    replay = replay_of(lambda x: update(one, x), x)
    update(other, x)
    for value in (3.0, 4.0):
        x = torch.full((3,), value)
        assert replay(x)[0].equal(update(other, x))
        assert one.equal(other)
        assert one._version == other._version
    one.data = torch.zeros(3)
    gc.collect()
    with pytest.raises(Unfit, match="gone"):
        replay(x)


def test_bytes_from_python_are_constants() -> None:
    def fn(x: Any) -> Any:
        scale = torch.tensor([2.0, 3.0])
        grown = torch.tensor([1.0, 1.0])
        grown.add_(x)
        return x * scale + grown, torch.tensor([5, 6])

    replay = replay_of(fn, torch.randn(2))
    for _ in range(2):
        x = torch.randn(2)
        found = replay(x)
        assert equal(found, fn(x))
        found[1].zero_()


def test_what_outlived_the_call_is_written_again() -> None:
    kept: list[Any] = []

    def fn(x: Any) -> Any:
        kept[:] = [x * 2]
        return kept[0] + 1

    replay = replay_of(fn, torch.ones(2))
    mine = kept[0]
    assert replay(torch.full((2,), 5.0))[0].tolist() == [11.0, 11.0]
    assert mine.tolist() == [10.0, 10.0]
    replay = replay_of(fn, torch.ones(2), also=lambda: kept)
    result, again = replay(torch.full((2,), 7.0))
    assert (result.tolist(), again.tolist(), kept[0].tolist()) == ([15.0] * 2, [14.0] * 2, [2.0] * 2)


def test_outputs_are_new_each_time_and_share_what_they_shared() -> None:
    def fn(x: Any) -> Any:
        y = x + 1
        return y, y[1:], y.t()

    replay = replay_of(fn, torch.randn(3, 3))
    first, second = replay(torch.zeros(3, 3)), replay(torch.ones(3, 3))
    assert first[0].eq(1).all()
    assert second[0].eq(2).all()
    second[0].zero_()
    assert second[1].eq(0).all()
    assert [x.data_ptr() - second[0].data_ptr() for x in second] == [0, 12, 0]


# ---------------------------------------------------------------- random numbers
@pytest.mark.parametrize("shape", [(4,), (40,)])
def test_random_states_advance_as_in_eager(shape: tuple[int, ...]) -> None:
    def fn(x: Any) -> Any:
        return F.dropout(x, 0.5) + torch.randn(shape)

    x = torch.ones(shape)
    torch.manual_seed(1)
    replay = replay_of(fn, x)
    torch.manual_seed(2)
    wanted = [fn(x) for _ in range(1)], torch.get_rng_state()
    torch.manual_seed(2)
    found = [replay(x)[0] for _ in range(1)], torch.get_rng_state()
    assert equal(found[0], wanted[0])
    assert found[1].equal(wanted[1])


def test_a_waiting_normal_sample_is_another_program() -> None:
    torch.manual_seed(1)
    replay = replay_of(lambda x: x + torch.randn(3), torch.ones(3))
    assert torch.get_rng_state() is not None
    with pytest.raises(Unfit, match="waits"):
        replay(torch.ones(3))
    torch.manual_seed(1)
    replay(torch.ones(3))


# ---------------------------------------------------------------- errors, threads, numbers of threads
def test_bad_data_is_taken_back() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    table = torch.randn(5, 4)

    def fn(x: Any, words: Any) -> Any:
        return F.embedding(words, table) + net(x)[: len(words)]

    x = torch.randn(6, 4)
    replay = replay_of(fn, x, torch.tensor([0, 4]))
    before = [b.clone() for b in net.buffers()], [b._version for b in net.buffers()], torch.get_rng_state()
    with pytest.raises(Unfit, match="bad data"):
        replay(x, torch.tensor([0, 5]))
    assert equal(net.buffers(), before[0])
    assert [b._version for b in net.buffers()] == before[1]
    assert torch.get_rng_state().equal(before[2])
    torch.manual_seed(3)
    found = replay(x, torch.tensor([1, 2]))[0]
    torch.manual_seed(3)
    assert found.equal(fn(x, torch.tensor([1, 2])))


def test_memory_of_inference_mode_is_written_to_in_inference_mode_only() -> None:
    with torch.inference_mode():
        cache, x = torch.zeros(3), torch.ones(3)
        replay = replay_of(lambda x: cache.add_(x) * 2, x)
        assert replay(x)[0].tolist() == [4.0] * 3
    with pytest.raises(Unfit, match="must not be written"):
        replay(x)
    assert cache.tolist() == [2.0] * 3


def test_memory_that_is_copied_on_write_is_unfit() -> None:
    replay = replay_of(lambda x: x.add_(1) * 2, torch.ones(3))
    x = torch.ones(3)
    other = torch._lazy_clone(x)
    with pytest.raises(Unfit, match="copied on write"):
        replay(x)
    assert other.tolist() == x.tolist() == [1.0] * 3


@pytest.mark.parametrize("size", [4, 1 << 18])
def test_what_is_too_much_to_be_taken_back_stays_as_in_eager(size: int) -> None:
    def fn(x: Any, y: Any) -> Any:
        x.add_(1)
        return x // y

    x = torch.ones(size, dtype=torch.int64)
    replay = replay_of(fn, x, x.clone())
    with pytest.raises(Unfit if size == 4 else RuntimeError, match="bad data"):
        replay(x, torch.zeros_like(x))
    done = size != 4
    assert x.eq(2 + done).all()
    assert x._version == 1 + done
    assert replay(x, x.clone())[0].tolist()[0] == 1


def test_another_number_of_threads_is_unfit() -> None:
    replay = replay_of(lambda x: x + 1, torch.ones(3))
    torch.set_num_threads(2)
    with pytest.raises(Unfit, match="threads"):
        replay(torch.ones(3))


def test_other_layouts_are_unfit() -> None:
    replay = replay_of(lambda x: x + 1, torch.ones(3, 2))
    for x in (torch.ones(2, 3), torch.ones(2, 3).t(), torch.ones(3, 2, dtype=torch.float64)):
        with pytest.raises(Unfit, match="layout"):
            replay(x)


@pytest.mark.parametrize("threads", [1, 2])
def test_several_threads_replay_at_once(threads: int) -> None:
    torch.set_num_threads(threads)
    w = torch.randn(200, 200)

    def fn(x: Any) -> Any:
        for _ in range(4):
            x = (x @ w).softmax(-1)
        return x

    replay = replay_of(fn, torch.randn(200, 200))
    wrong = []

    def work(seed: int) -> None:
        torch.set_num_threads(threads)
        x = torch.randn(200, 200, generator=torch.Generator().manual_seed(seed))
        wanted = fn(x)
        wrong.extend(1 for _ in range(20) if not replay(x)[0].equal(wanted))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_signal_ends_a_replay() -> None:
    f = kernel()
    with f.loop(f["begin"], f["end"]) as chunk:
        with f.stretches(0, f.load("i64", f.buffer(1), 0), 1 << 10) as (first, last), f.loop(first, last) as i:
            f.store(i, f.buffer(0), chunk)
    one = torch.ones(1, dtype=torch.int64)
    run = lowered(Plan([Phase(jit.kernel_of_text(module(f)), 1, 1, [])], [one._layout], [one._layout], release=True))
    replay = replay_of(lambda n: run(None, n) + 1, one)

    def handler(*_: object) -> None:
        raise KeyError("stop")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyError, match="stop"):
            replay(torch.full((1,), 1 << 62))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert replay(one)[0].item() == 1


def test_it_reads_as_text() -> None:
    replay = replay_of(lambda x, y: (x @ y).relu_().sum(), torch.randn(2, 3), torch.randn(3, 2))
    text = str(replay)
    assert text.startswith("program (float32[2, 3], float32[3, 2]) on 1 threads")
    assert "product 2 x 2 by 3 x 2" in text or "product" in text
    assert "-> o" in text
    assert not isinstance(replay, Refusal)
