"""Fourier transforms, stft and windows: values against NumPy, gradients, inverses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau import fft
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.signal import windows

generator = np.random.default_rng(0)


def random(*shape, dtype=torch.float64):
    values = generator.standard_normal(shape)
    if dtype.is_complex:
        values = values + 1j * generator.standard_normal(shape)
    return torch.from_numpy(values).to(dtype).requires_grad_()


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 3, 8])
def test_one_dimension(name, norm, n):
    x = random(2, 5, dtype=torch.float64 if name in ("rfft", "ihfft") else torch.complex128)
    for axis in (0, 1):
        made = getattr(fft, name)(x, n, axis, norm)
        expected = getattr(np.fft, name)(x.detach().numpy(), n, axis, norm)
        np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-10, atol=1e-12)
    assert gradcheck(lambda x: getattr(fft, name)(x, n, norm=norm), [x])
    assert gradgradcheck(lambda x: getattr(fft, name)(x, n, norm=norm), [x], check_undefined_grad=False)


@pytest.mark.parametrize(
    "name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "hfft2", "ihfft2"]
)
def test_several_dimensions(name):
    x = random(2, 3, 4, dtype=torch.float64 if name.startswith(("r", "ih")) else torch.complex128)
    made = getattr(fft, name)(x)
    if hasattr(np.fft, name):
        axes = (-2, -1) if name.endswith("2") else None
        expected = getattr(np.fft, name)(x.detach().numpy(), axes=axes)
        np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-10, atol=1e-12)
    assert gradcheck(getattr(fft, name), [x])


def test_hermitian_transforms_are_inverse():
    x = random(3, 8).detach()
    assert torch.allclose(fft.hfftn(fft.ihfftn(x), s=(3, 8)), x)
    assert torch.allclose(fft.hfft2(fft.ihfft2(x), s=(3, 8)), x)


def test_precision_and_integers():
    assert fft.fft(torch.ones(4)).dtype is torch.complex64
    assert fft.rfft(torch.arange(4)).dtype is torch.complex64
    assert fft.irfft(torch.ones(3, dtype=torch.complex64)).dtype is torch.float32
    assert fft.fftfreq(4).tolist() == [0.0, 0.25, -0.5, -0.25]
    assert fft.rfftfreq(5, 0.5).tolist() == pytest.approx([0.0, 0.4, 0.8])
    assert fft.ifftshift(fft.fftshift(torch.arange(5))).tolist() == [0, 1, 2, 3, 4]


def test_frequencies_are_rounded_as_pytorch_does():
    assert fft.fftfreq(100, dtype=torch.float16)[5].item() == 0.050018310546875
    assert fft.fftfreq(5, 0).tolist()[1:] == [math.inf, math.inf, -math.inf, -math.inf]
    assert fft.fftfreq(5, requires_grad=True).requires_grad
    assert fft.rfftfreq(8, out=torch.empty(5, dtype=torch.float64)).dtype is torch.float64
    with pytest.warns(UserWarning, match="out tensor will be resized"):
        assert fft.fftfreq(4, out=torch.empty(())).shape == (4,)
    with pytest.raises(RuntimeError, match="fftfreq requires a floating point or complex dtype"):
        fft.fftfreq(5, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"Trying to create tensor with negative dimension -1: \[-1\]"):
        fft.fftfreq(-1)
    with pytest.raises(TypeError, match=r"fft_fftfreq\(\): argument 'n' \(position 1\) must be int, not float"):
        fft.fftfreq(2.0)


def test_stft_and_back():
    x = random(2, 40).detach()
    window = torch.hann_window(8, dtype=torch.float64)
    for onesided in (True, False):
        spectrum = torch.stft(x, 8, 2, window=window, return_complex=True, onesided=onesided, normalized=True)
        assert spectrum.shape == (2, 5 if onesided else 8, 21)
        back = torch.istft(spectrum, 8, 2, window=window, onesided=onesided, normalized=True, length=40)
        assert torch.allclose(back, x)
    y = random(16)
    assert gradcheck(lambda y: torch.stft(y, 4, return_complex=True, window=window[1:5]), [y])
    z = random(3, 6, dtype=torch.complex128)
    assert gradcheck(lambda z: torch.istft(z, 4, center=False), [z])


def test_windows():
    np.testing.assert_allclose(torch.hann_window(6, False, dtype=torch.float64).numpy(), np.hanning(6), atol=1e-12)
    np.testing.assert_allclose(torch.hamming_window(6, False, dtype=torch.float64).numpy(), np.hamming(6), atol=1e-12)
    np.testing.assert_allclose(torch.blackman_window(6, False, dtype=torch.float64).numpy(), np.blackman(6), atol=1e-12)
    np.testing.assert_allclose(torch.bartlett_window(6, False, dtype=torch.float64).numpy(), np.bartlett(6), atol=1e-12)
    np.testing.assert_allclose(torch.kaiser_window(6, False, 8.0, dtype=torch.float64).numpy(), np.kaiser(6, 8), atol=1e-12)
    assert torch.equal(windows.hann(7, sym=False), torch.hann_window(7))
    assert torch.hann_window(0).shape == (0,)
    assert torch.hann_window(1).tolist() == [1.0]


def test_errors():
    with pytest.raises(RuntimeError, match=r"Invalid number of data points \(0\) specified"):
        fft.fft(torch.ones(0))
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor, but got ComplexFloat"):
        fft.rfft(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="stft requires the return_complex parameter"):
        torch.stft(torch.ones(8), 4)


C64 = torch.complex64


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: fft.fft(torch.ones(4, 4), dim=1.0), TypeError, "argument 'dim'"),
        (lambda: fft.fft(torch.ones(4, 4), True), TypeError, "argument 'n'"),
        (
            lambda: fft.rfft2(torch.ones(4, 4, dtype=C64)),
            RuntimeError,
            "rfftn expects a real-valued input tensor, but got ComplexFloat",
        ),
        (
            lambda: fft.ihfft2(torch.ones(4, 4, dtype=C64)),
            RuntimeError,
            "Only supports floating-point dtypes, but found: ComplexFloat",
        ),
        (lambda: fft.fft2(torch.ones(4, 4).half(), dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (lambda: fft.fftshift(torch.ones(())), RuntimeError, "`shifts` required"),
        (lambda: fft.fftshift(torch.ones(()), dim=0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
        (
            lambda: torch.stft(torch.arange(20), 4, return_complex=True),
            RuntimeError,
            "align_to_window=None) : expected a tensor of floating point or complex values",
        ),
        (
            lambda: torch.stft(torch.ones(3), 4, center=False, return_complex=True),
            RuntimeError,
            "expected 0 < n_fft < 3, but got n_fft=4",
        ),
    ],
)
def test_words_of_errors(call, kind, words):
    fft.fft(torch.ones(4, 4), dim=1)  # an equal key is no excuse
    fft.fft(torch.ones(4, 4), 1)
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


def test_results_where_nothing_is_transformed_and_of_tensors_as_numbers():
    assert fft.fft2(torch.ones(2, 3), dim=()).dtype is C64
    made = fft.fft(torch.ones(2, 5), torch.tensor(3))
    assert made.stride() == (3, 1) and type(made.stride()[0]) is int
    assert fft.fft(torch.ones(1, 6, 5).expand(4, 6, 5), n=8).stride() == (48, 8, 1)
    assert fft.ihfft2(torch.ones(4, 6), dim=(1, 0)).stride() == (6, 1)
    assert type(fft.fft(torch.ones(4, requires_grad=True)).grad_fn).__name__ == "FftR2CBackward0"


def test_complex_numbers():
    a, b = random(2, 3), random(3)
    assert torch.complex(a, b).imag.tolist() == b.expand(2, 3).tolist()
    assert gradcheck(torch.complex, [a, b])
    assert gradcheck(torch.polar, [a, b])
    z = random(2, dtype=torch.complex128)
    assert gradcheck(lambda z: z.conj() * z * z, [z])
    assert a.conj() is a
