"""complex32: two float16 in one element. It computes, and its numbers reach Python as complex ones."""

import pytest

import flambeau as torch


def test_numbers_come_and_go():
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex32)
    assert x.tolist() == [1 + 2j, 3 - 1j] and x[1].item() == 3 - 1j and torch.ones((), dtype=torch.complex32).item() == 1
    assert repr(x) == "tensor([1.+2.j, 3.-1.j], dtype=torch.complex32)"
    assert torch.full((1,), 2 + 1j, dtype=torch.complex32).tolist() == [2 + 1j]
    assert torch.tensor(1e6, dtype=torch.complex32).item().real == float("inf")
    assert torch.tensor([], dtype=torch.complex32).tolist() == []


def test_arithmetic():
    x = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex32)
    assert (x * x + 1).tolist() == [-2 + 4j, 9 - 6j]
    assert x.to(torch.complex64).tolist() == x.tolist() and x.real.dtype is torch.float16 and x.imag.tolist() == [2, -1]
    assert torch.cat([x, x])[[1, 2]].tolist() == [3 - 1j, 1 + 2j]


def test_what_has_no_meaning_is_refused():
    x = torch.ones(4, dtype=torch.complex32)
    with pytest.raises(RuntimeError, match="MKL FFT doesn't support tensors of type: Half"):
        torch.fft.fft(x)
    with pytest.raises(NotImplementedError, match="\"linspace_cpu\" not implemented for 'ComplexHalf'"):
        torch.linspace(0, 1, 3, dtype=torch.complex32)


def test_complex_ranges():
    assert torch.linspace(0, 2j, 3).tolist() == [0, 1j, 2j]
    powers = torch.logspace(0, 1j, 3)
    assert powers.dtype is torch.complex64 and abs(powers[2].item() - 10**1j) < 1e-6
    with pytest.raises(RuntimeError, match=r"^torch.logspace\(\): inferred dtype c10::complex<float> can't be safely cast"):
        torch.logspace(0, 1j, 3, dtype=torch.float32)
