"""Kernels of loop nests: every length of a row, vectors and what is left after them, and operands larger than the caches."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import flambeau as torch
from flambeau.base.dtype import bfloat16, float32, float64
from flambeau.codegen.loops import memory_access, schedule
from flambeau.codegen.scalar import Lowering
from flambeau.ir import scalar as s
from flambeau.ir.expression import describe

LENGTHS = [*range(1, 19), 31, 32, 33, 63, 64, 65, 127, 130, 200, 1000]


def rows(n, dtype, seed=0):
    values = np.random.default_rng(seed).integers(-50, 50, (3, n))
    return values.astype(dtype) if dtype != np.bool_ else values > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint8, np.complex64])
def test_reductions_of_every_length(dtype):
    for n in LENGTHS:
        x = rows(n, dtype)
        for t in (torch.tensor(x), torch.tensor(np.repeat(x, 2, 1))[:, ::2], torch.tensor(x.T.copy()).t()):
            wide = np.complex128 if dtype == np.complex64 else np.float64 if dtype in (np.float32, np.float64) else np.int64
            np.testing.assert_allclose(t.sum(1).numpy(), x.sum(1, dtype=wide), rtol=1e-6)
            np.testing.assert_allclose(t.sum(0).numpy(), x.sum(0, dtype=wide), rtol=1e-6)
            if dtype != np.complex64:
                assert (t.amax(1).numpy() == x.max(1)).all()
                assert (t.argmin(1).numpy() == x.argmin(1)).all()
            if dtype in (np.float32, np.float64):
                np.testing.assert_allclose(t.var(1, unbiased=False).numpy(), x.var(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.bool_, np.complex64, np.complex128])
def test_elements_beyond_a_row_are_neither_written_nor_counted(dtype):
    for n in LENGTHS:
        x = rows(n, dtype)
        frame = torch.full((3, n + 2), 1, dtype=torch.tensor(x).dtype)
        inside = frame[:, 1:-1]
        inside.copy_(torch.tensor(x))
        inside.logical_not_() if dtype == np.bool_ else inside.add_(inside)
        assert (inside.numpy() == (~x if dtype == np.bool_ else x + x)).all()
        assert (frame[:, 0].numpy() == 1).all() and (frame[:, -1].numpy() == 1).all()


def test_scans_and_row_programs_of_every_length():
    for n in LENGTHS:
        x = rows(n, np.float32) / 10
        for t in (torch.tensor(x), torch.tensor(x.T.copy()).t()):
            e = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
            np.testing.assert_allclose(t.softmax(1).numpy(), e / e.sum(1, keepdims=True), rtol=2e-6)
            np.testing.assert_allclose(t.logsumexp(1).numpy(), np.log(e.sum(1)) + x.max(1), rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(t.cumsum(1).numpy(), x.cumsum(1, dtype=np.float64), rtol=1e-5, atol=1e-5)


def test_gathered_operands_and_bounds():
    table = torch.arange(40.0).reshape(8, 5)
    for n in LENGTHS:
        index = torch.arange(n) * 3 % 8
        want = table.numpy()[index.numpy()]
        assert (torch.nn.functional.embedding(index, table).numpy() == want).all()
        logits = torch.tensor(np.random.default_rng(n).standard_normal((n, 7)), dtype=torch.float32)
        target = torch.arange(n) % 7
        loss = torch.nn.functional.cross_entropy(logits, target, reduction="none").numpy()
        x = logits.numpy().astype(np.float64)
        np.testing.assert_allclose(loss, np.log(np.exp(x).sum(1)) - x[np.arange(n), target.numpy()], rtol=1e-5, atol=1e-6)
        with pytest.raises(IndexError):
            torch.nn.functional.cross_entropy(logits, target + (torch.arange(n) == n - 1) * 7)


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(schedule, "LARGE", 1)


def test_results_written_past_the_caches_are_the_same(everything_is_large):
    # shapes that nothing else uses: plans are kept by layout
    for shape in ((7, 1933), (3, 64 * 31), (5867,), (129, 47)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        t = torch.tensor(x)
        np.testing.assert_array_equal((t + t).numpy(), x + x)
        np.testing.assert_array_equal((t > 0).numpy(), x > 0)
        np.testing.assert_allclose(t.exp().numpy(), np.exp(x), rtol=3e-7)
        np.testing.assert_allclose(t.sum(-1).numpy(), x.sum(-1, dtype=np.float64), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(t.softmax(-1).sum(-1).numpy(), 1, rtol=1e-6)
        np.testing.assert_array_equal(t.to(torch.float64).numpy(), x.astype(np.float64))
        np.testing.assert_array_equal(torch.complex(t, t).conj().resolve_conj().imag.numpy(), -x)
        np.testing.assert_array_equal(t.clone().mul_(3).numpy(), x * np.float32(3))  # in place: read and written
        for offset in (0, 1, 16):  # aligned to a cache line or not
            memory = torch.zeros(t.numel() + 33)
            out = memory[offset : offset + t.numel()].view(shape)
            torch.mul(t, 2, out=out)
            np.testing.assert_array_equal(out.numpy(), x * 2)
            assert not memory[:offset].any() and not memory[offset + t.numel() :].any()


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_partial_results_that_hold_nothing_change_nothing(one_thread):
    """A row too long for two passes is folded into (count, mean, squares), by one thread in two chunks: most elements of the
    vector that combines those have a count of 0, which must not make a NaN.
    """
    for n in (65600, 65601, 65663):  # whole blocks alone, one element behind them, nearly a block
        x = np.random.default_rng(n).standard_normal((1, n)).astype(np.float32)
        variance, mean = torch.var_mean(torch.tensor(x), 1)
        np.testing.assert_allclose(variance.numpy(), x.var(1, ddof=1, dtype=np.float64), rtol=1e-5)
        np.testing.assert_allclose(mean.numpy(), x.mean(1, dtype=np.float64), rtol=1e-4, atol=1e-7)


PROGRAM = """
import sys
import flambeau as torch
from flambeau.codegen.object_cache import cache
from flambeau.codegen.loops import nest
if "stale" in sys.argv:
    cache.sources = lambda: "other sources"
written = []
text = nest._Emitter.text
nest._Emitter.text = lambda self: written.append(self.nest.name) or text(self)
x = torch.arange(6.0).reshape(2, 3)
result = torch.softmax(x, {dim}) + torch.nn.functional.cross_entropy(x, torch.tensor([0, 2]))
print(written, float(result.sum()), "llvmlite.binding" in sys.modules)
"""


def test_a_kernel_in_the_disk_cache_is_found_without_its_text(tmp_path):
    def run(*arguments, dim=1):
        environment = {**os.environ, "FLAMBEAU_CACHE": str(tmp_path / "cache")}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("{dim}", str(dim)), *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    first, second = run(), run()
    assert "softmax" in first and "True" in first
    assert second == f"[] {first.split()[-2]} False\n"
    assert "softmax" in run(dim=0)  # another form is another kernel
    assert "softmax" in run("stale")  # and so is what other sources would write


def test_equal_descriptions_mean_equal_expressions():
    x, y = s.leaf("x", float32), s.leaf("y", float32)
    same = [describe(s.exp(x) * x + 1.0) for _ in range(2)]
    assert same[0] == same[1]
    others = [
        s.exp(x) * x + 2.0,
        s.exp(x) * y + 1.0,
        s.log(x) * x + 1.0,
        s.exp(x) * x - 1.0,
        s.where(x > 0, x, -0.0),
        s.where(x > 0, x, 0.0),
        s.where(x > 0, 0.0, x),
        s.exp(s.leaf("x", float64)) * s.leaf("x", float64) + 1.0,
    ]
    assert len({same[0], *map(describe, others)}) == len(others) + 1


@pytest.mark.parametrize("width", [0, 8, 16])
def test_what_is_needed_several_times_is_written_once(width):
    lines, x, y = [], s.leaf("x", float64), s.leaf("y", float64)
    names = (f"%v{i}" for i in range(10**6))
    low = Lowering(lines.append, lambda: next(names), width)
    total = s.apart(s.pow, x, y) + s.apart(s.pow, x, y + 1) + s.apart(s.pow, y, x)
    low.value(total, {x: "%x", y: "%y"})
    assert sum("call" in line and "flambeau.apart" in line for line in lines) == 3
    assert sum(text.startswith("define") for text in low.declarations) == 1
    assert len(lines) < 10


@pytest.mark.parametrize(("vectors", "dtype", "step"), [(32, bfloat16, 16), (32, float32, 0), (64, bfloat16, 0)])
def test_short_elements_are_not_masked_one_by_one(vectors, dtype, step, monkeypatch):
    """A long body is written once, under a mask, except where masks of short elements are branches."""
    monkeypatch.setattr(memory_access, "vector_bytes", lambda: vectors)
    operands = SimpleNamespace(
        form=SimpleNamespace(classes=["1"], large=False), dtypes=[dtype], _operand_of=lambda node: 0, _known=lambda node: True
    )
    assert memory_access.Operands.steps(operands, [s.exp(s.leaf("x", float32))], []) == (step, 16)
