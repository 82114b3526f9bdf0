"""float8 tensors: conversions by kernels, storage, what is computed with them and what is refused."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.base.small_floats import from_bits, to_bits

DTYPES = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
MULTIPLIED = DTYPES[:4]


def codes(x: torch.Tensor) -> list:
    return x.view(torch.uint8).tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_round_as_arrays_do(dtype) -> None:
    words = np.arange(1 << 16, dtype=np.uint32) << 16
    samples = np.concatenate([words, words | 1, words | 0x8000, words | 0xFFFF]).view(np.float32)
    samples = samples[~np.isnan(samples)]
    x = torch.from_numpy(samples)
    assert np.array_equal(x.to(dtype).view(torch.uint8).numpy(), to_bits(samples, dtype))
    assert np.array_equal(x[::3].to(dtype).view(torch.uint8).numpy(), to_bits(samples[::3], dtype))  # one at a time
    assert codes(x[:5000].double().to(dtype)) == codes(x[:5000].to(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("wide", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_every_code_is_read(dtype, wide) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    expected = from_bits(np.arange(256, dtype=np.uint8), dtype)
    assert np.array_equal(every.to(wide).float().numpy(), expected, equal_nan=True)
    assert np.array_equal(np.array(every.tolist(), np.float32), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_moves_keeps_its_bits(dtype) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    assert codes(every.clone()) == list(range(256))
    assert codes(every.view(16, 16).t().contiguous().t().reshape(-1)) == list(range(256))
    assert codes(torch.cat([every[128:], every[:128]])) == [*range(128, 256), *range(128)]
    assert codes(every[torch.tensor([253, 7])]) == [253, 7]
    assert codes(every.index_select(0, torch.tensor([126, 0]))) == [126, 0]
    file = io.BytesIO()
    torch.save(every, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.dtype is dtype and codes(loaded) == list(range(256))


def test_made_and_shown() -> None:
    x = torch.tensor([1.0, 2.3, 448.0, -3.0], dtype=torch.float8_e4m3fn)
    assert codes(x) == [0x38, 0x41, 0x7E, 0xC4]
    assert repr(x) == "tensor([  1.0000,   2.2500, 448.0000,  -3.0000], dtype=torch.float8_e4m3fn)"
    assert x[1].item() == 2.25
    for dtype in DTYPES:
        assert codes(torch.zeros(3, dtype=dtype)) == [0, 0, 0]
        assert torch.ones(2, dtype=dtype).tolist() == [1.0, 1.0]
        assert torch.full((2,), 4.0, dtype=dtype).tolist() == [4.0, 4.0]
    assert torch.tensor([True, False]).to(torch.float8_e5m2).tolist() == [1.0, 0.0]
    assert torch.tensor([3, 300]).to(torch.float8_e4m3fn).tolist() == [3.0, 288.0]


def test_what_is_computed() -> None:
    x = torch.tensor([1.0, 2.0, math.nan, -3.0]).to(torch.float8_e5m2)
    assert (x == x).tolist() == [True, True, False, True]
    assert (x != 2).tolist() == [True, False, True, True]
    assert x.isnan().tolist() == [False, False, True, False]
    assert (x * x)[[0, 1, 3]].tolist() == [1.0, 4.0, 8.0]  # 9 is between 8 and 10
    assert x.abs()[3].item() == 3.0
    assert torch.equal(x[:2], x[:2].clone()) and not torch.equal(x, x)
    assert bool(x.any())


@pytest.mark.parametrize("dtype", MULTIPLIED, ids=str)
def test_products_are_rounded_once(dtype) -> None:
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).to(dtype) for shape in ((5, 33), (33, 7)))
    expected = (a.float() @ b.float()).to(dtype)
    assert codes(a @ b) == codes(expected)
    assert codes(torch.nn.functional.linear(a, b.t())) == codes(expected)
    bias = torch.ones(7).to(dtype)
    assert codes(torch.addmm(bias, a, b)) == codes((a.float() @ b.float() + 1).to(dtype))
    out = torch.empty(5, 7, dtype=dtype)
    assert torch.mm(a, b, out=out) is out and codes(out) == codes(expected)


def test_scaled_products() -> None:
    a = torch.ones(16, 32).to(torch.float8_e4m3fn)
    b = torch.ones(16, 32).to(torch.float8_e5m2).t()
    two, bias = torch.tensor(2.0), torch.ones(16)
    assert torch._scaled_mm(a, b, two, two).dtype is torch.float8_e4m3fn
    scaled = torch._scaled_mm(a, b, two, two, bias=bias, out_dtype=torch.bfloat16)
    assert scaled.dtype is torch.bfloat16 and scaled.unique().tolist() == [129.0]
    rows, columns = torch.arange(1.0, 17).view(16, 1), torch.full((1, 16), 0.5)
    by_row = torch._scaled_mm(a, b, rows, columns, out_dtype=torch.float32)
    assert by_row[:, 0].tolist() == [16.0 * i for i in range(1, 17)]
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a.float(), b, two, two)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a, b, torch.ones(3), two)
    with pytest.raises(RuntimeError, match=r"mat_a and mat_b shapes cannot be multiplied \(16x32 and 16x32\)"):
        torch._scaled_mm(a, b.t(), two, two)


def test_gradients_pass_through_conversions() -> None:
    x = torch.tensor([1.0, 2.3], requires_grad=True)
    (x.to(torch.float8_e4m3fn).float() * torch.tensor([2.0, 3.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + x, lambda x: x + 1, lambda x: -x, lambda x: x < x, lambda x: x.exp(), lambda x: x.sum(), lambda x: x.max(),
        lambda x: x.sort(), lambda x: x.unique(), lambda x: x.cumsum(0), lambda x: x.softmax(0), lambda x: x.nonzero(),
        lambda x: torch.searchsorted(x, x), lambda x: x.clamp(0, 1), lambda x: torch.rand(3, dtype=x.dtype),
        lambda x: torch.arange(3, dtype=x.dtype), lambda x: torch.randint(3, (3,), dtype=x.dtype), lambda x: x.view(1, 1, 3) @
        x.view(1, 3, 1), lambda x: torch.randn(3, dtype=x.dtype), lambda x: x.topk(1), lambda x: x.mean(),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(call) -> None:
    with pytest.raises(NotImplementedError, match=r"not implemented for 'Float8_e4m3fn'|dtype float8_e4m3fn"):
        call(torch.ones(3).to(torch.float8_e4m3fn))


def test_other_dtypes_are_not_promoted() -> None:
    x = torch.ones(3).to(torch.float8_e4m3fn)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported, attempted to promote Float8_e4m3fn"):
        x * torch.ones(3)
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e4m3fn"):
        x.numpy()


def test_numpy_has_no_such_dtype_whatever_a_package_gives_it(monkeypatch) -> None:
    monkeypatch.setitem(np.sctypeDict, "float8_e8m0fnu", np.uint8)  # as ml_dtypes does
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e8m0fnu"):
        torch.ones(5).to(torch.float8_e8m0fnu).numpy()


@pytest.mark.parametrize("dtype", MULTIPLIED, ids=str)
def test_reductions_that_convert_first(dtype) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(dtype)
    wide = x.float()
    assert x.sum(dtype=torch.float32).item() == 10 and x.mean(0, dtype=torch.float64).tolist() == [2, 3]
    assert x.prod(dtype=torch.float32).item() == 24 and x.cumsum(0, dtype=torch.float32).tolist() == [[1, 2], [4, 6]]
    assert torch.equal(x.softmax(0, dtype=torch.float32), wide.softmax(0))
    assert torch.equal(x.log_softmax(1, dtype=torch.float32), wide.log_softmax(1))
    for call in (lambda: x.sum(), lambda: wide.sum(dtype=dtype), lambda: x.prod(), lambda: wide.softmax(0, dtype=dtype)):
        with pytest.raises(NotImplementedError, match=f"not implemented for '{dtype.scalar_name}'"):
            call()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_refused_in_pytorchs_words(dtype) -> None:
    x, index = torch.ones(2, 2).to(dtype), torch.zeros(2, 2, dtype=torch.int64)
    for kernel, call in {
        "add_stub": lambda: x + x, "mul_cpu_reduced_float": lambda: x * 2, "sqrt_vml_cpu": x.sqrt, "pow": x.square,
        "scatter_gather_tensor_cpu": lambda: x.scatter_add(0, index, x), "softmax_kernel_impl": lambda: x.softmax(0),
    }.items():  # fmt: skip
        with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for '{dtype.scalar_name}'"):
            call()
    with pytest.raises(NotImplementedError, match="mul_cpu_reduced_float"):
        x * torch.ones(()).to(dtype)
    assert x.isreal().all()
    if dtype is torch.float8_e5m2:
        assert torch.full((1,), math.inf, dtype=dtype).float().item() == math.inf
    else:
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Float8"):
            torch.full((1,), math.inf, dtype=dtype)


def test_float8_is_asserted_to_be_equal() -> None:
    x = torch.tensor([1.0, 2.0, math.nan]).to(torch.float8_e4m3fn)
    torch.testing.assert_close(x, x.clone(), equal_nan=True)
    with pytest.raises(AssertionError, match="not"):
        torch.testing.assert_close(x[:2], x[:2].flip(0))


def test_float8_is_compared_but_has_no_tolerance() -> None:
    x = torch.tensor([1.0, 2.0, math.nan]).to(torch.float8_e4m3fn)
    assert torch.isclose(x, x, rtol=0, atol=0).tolist() == [True, True, False]
    assert torch.isclose(x, x, rtol=0, atol=0, equal_nan=True).tolist() == [True] * 3
    with pytest.raises(NotImplementedError, match="not implemented for 'Float8_e4m3fn'"):
        torch.isclose(x, x)
