"""Fourier transforms of many lengths, dtypes, strides and batches: values against NumPy's in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import fft
from flambeau.autograd import gradcheck, gradgradcheck

generator = np.random.default_rng(0)
SMALL = [*range(1, 71)]
LARGER = [96, 97, 121, 127, 128, 143, 250, 343, 360, 512, 625, 1000, 1001, 1009, 1024, 2310, 4096, 4099]
LONG = [32768, 50000, 50021]  # by all threads; the last is a prime
DTYPES = [np.complex64, np.complex128]


def random(*shape, dtype):
    values = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def close(made: torch.Tensor, expected: np.ndarray, dtype) -> None:
    """The error is a few roundings, whatever the length."""
    assert made.shape == expected.shape
    error = np.linalg.norm(made.numpy() - expected) / (np.linalg.norm(expected) or 1)
    assert error < 4.5 * np.finfo(dtype).eps * (1 if dtype == np.complex64 else 1.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [SMALL, LARGER, LONG], ids=["small", "larger", "long"])
def test_every_length(lengths, dtype):
    for n in lengths:
        x = random(2, n, dtype=dtype)
        wide, real = x.astype(np.complex128), x.real.copy()
        close(fft.fft(torch.from_numpy(x)), np.fft.fft(wide), dtype)
        close(fft.ifft(torch.from_numpy(x), norm="ortho"), np.fft.ifft(wide, norm="ortho"), dtype)
        close(fft.rfft(torch.from_numpy(real)), np.fft.rfft(real.astype(np.float64)), dtype)
        close(fft.ihfft(torch.from_numpy(real)), np.fft.ihfft(real.astype(np.float64)), dtype)
        close(fft.irfft(torch.from_numpy(x), n), np.fft.irfft(wide, n), dtype)
        close(fft.hfft(torch.from_numpy(x), n), np.fft.hfft(wide, n), dtype)
        close(fft.fft(torch.from_numpy(real)), np.fft.fft(real.astype(np.float64)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_in_blocks(dtype):
    for n in (1, 2, 3, 5, 13, 16, 60, 100, 1009):
        for columns in (1, 3, 8, 10, 16, 21, 33):
            x = random(n, columns, dtype=dtype)
            wide, real = x.astype(np.complex128), x.real.copy()
            close(fft.fft(torch.from_numpy(x), dim=0), np.fft.fft(wide, axis=0), dtype)
            close(fft.fft2(torch.from_numpy(x)), np.fft.fft2(wide), dtype)
            close(fft.ifft2(torch.from_numpy(x)), np.fft.ifft2(wide), dtype)
            close(fft.rfft2(torch.from_numpy(real)), np.fft.rfft2(real.astype(np.float64)), dtype)
            close(fft.rfft(torch.from_numpy(real), dim=0), np.fft.rfft(real.astype(np.float64), axis=0), dtype)
            close(fft.irfft(torch.from_numpy(x), 2 * n, dim=0), np.fft.irfft(wide, 2 * n, axis=0), dtype)
            close(fft.hfft(torch.from_numpy(x), n, dim=0), np.fft.hfft(wide, n, axis=0), dtype)


VIEWS = {
    "transposed": lambda x: x.transpose(0, 2),
    "every second": lambda x: x[:, ::2, ::3],
    "repeated": lambda x: x[:1, :, 1:].expand(3, 6, 11),
    "scattered": lambda x: x.permute(1, 0, 2)[::2, 1:, 2:9],
    "five dimensions": lambda x: x.reshape(2, 2, 3, 3, 8).permute(4, 1, 3, 0, 2)[:, :, :2],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_strides(view):
    x = view(torch.from_numpy(random(4, 6, 12, dtype=np.complex128)[:, :, :12]))
    values = np.array(x.tolist())
    for dims in [(d,) for d in range(x.ndim)] + [(0, 1), (2, 0), tuple(range(x.ndim))]:
        close(fft.fftn(x, dim=dims), np.fft.fftn(values, axes=dims), np.complex128)
        close(fft.rfftn(x.real, dim=dims), np.fft.rfftn(values.real, axes=dims), np.complex128)
        close(fft.irfftn(x, dim=dims), np.fft.irfftn(values, axes=dims), np.complex128)


@pytest.mark.parametrize(
    "shape, dims, strides",
    [
        ((3, 4, 5), (0,), (1, 15, 3)),
        ((3, 4, 5), (1,), (20, 1, 4)),
        ((3, 4, 5), (2,), (20, 5, 1)),
        ((3, 4, 5), (1, 0), (4, 1, 12)),
        ((3, 4, 5), (0, 2), (5, 15, 1)),
        ((3, 4, 5), (2, 1, 0), (20, 5, 1)),
    ],
)
def test_what_is_transformed_lies_together(shape, dims, strides):
    assert fft.fftn(torch.ones(shape, dtype=torch.complex64), dim=dims).stride() == strides


def test_strides_of_real_transforms():
    x = torch.ones(3, 4, 5)
    assert fft.rfft(x, dim=0).stride() == (1, 10, 2)
    assert fft.rfftn(x, dim=(2, 1, 0)).stride() == (1, 2 * 5, 2)
    assert fft.irfftn(x.to(torch.complex64), dim=(0, 1)).stride() == (6, 1, 18)


@pytest.mark.parametrize("own, n", [(5, 8), (8, 5), (1, 64), (1000, 1024), (40000, 65536), (65536, 40000)])
def test_missing_points_are_zeros(own, n):
    x = random(2, own, dtype=np.complex128)
    for name in ("fft", "irfft"):
        close(getattr(fft, name)(torch.from_numpy(x), n), getattr(np.fft, name)(x, n), np.complex128)
    close(fft.rfft(torch.from_numpy(x.real.copy()), n), np.fft.rfft(x.real, n), np.complex128)


@pytest.mark.parametrize("n", [6, 7, 100, 1009, 70000])
def test_there_and_back(n):
    x = torch.from_numpy(random(3, n, dtype=np.complex128))
    assert torch.allclose(fft.ifft(fft.fft(x)), x)
    assert torch.allclose(fft.irfft(fft.rfft(x.real), n), x.real)
    half = fft.rfft(x.real)
    assert torch.allclose(fft.ihfft(fft.hfft(half, n)), half)


def test_imaginary_parts_of_real_terms_do_not_count():
    x = random(2, 9, dtype=np.complex128)
    for n in (16, 17):
        plain = x.copy()
        plain[:, 0] = plain[:, 0].real
        if n == 16:
            plain[:, 8] = plain[:, 8].real
        assert torch.equal(fft.irfft(torch.from_numpy(x), n), fft.irfft(torch.from_numpy(plain), n))


@pytest.mark.parametrize("n", [6, 7, 34])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "rfft2", "irfft2", "fft2"])
def test_gradients(name, n):
    x = torch.from_numpy(random(3, n, dtype=np.float64 if name.startswith("r") else np.complex128)).requires_grad_()
    assert gradcheck(getattr(fft, name), [x])


def test_without_data():
    x = torch.empty(3, 10, device="meta")
    assert fft.rfft(x).shape == (3, 6)
    assert fft.fft(torch.ones(0, 8)).shape == (0, 8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_rows_side_by_side(dtype):
    for n in (1, 2, 3, 4, 6, 7, 12, 15, 17, 25, 38, 60, 81, 100, 243):
        for rows in (8, 13):
            x = random(rows, n, dtype=dtype)
            wide, real = x.astype(np.complex128), x.real.copy()
            close(fft.fft(torch.from_numpy(x)), np.fft.fft(wide), dtype)
            close(fft.fft(torch.from_numpy(real)), np.fft.fft(wide.real), dtype)
            close(fft.rfft(torch.from_numpy(real)), np.fft.rfft(wide.real), dtype)
            close(fft.ihfft(torch.from_numpy(real)), np.fft.ihfft(wide.real), dtype)
            close(fft.irfft(torch.from_numpy(x), n), np.fft.irfft(wide, n), dtype)
            close(fft.hfft(torch.from_numpy(x[:, : n // 2 + 1]), n), np.fft.hfft(wide[:, : n // 2 + 1], n), dtype)


def test_alone_and_in_a_batch_alike():
    x = torch.from_numpy(random(50, 40, dtype=np.complex64))
    together = fft.fft(x)
    assert torch.allclose(together, torch.stack([fft.fft(row) for row in x]), atol=1e-5)


def test_stft_of_strided_windows():
    x, window = torch.from_numpy(random(3000, dtype=np.float64)), torch.from_numpy(random(200, dtype=np.float64))
    for w in (window[:100], window[::2], window[1:101]):
        made = torch.stft(x, 100, 30, window=w, center=False, return_complex=True)
        frames = np.lib.stride_tricks.sliding_window_view(x.numpy(), 100)[::30] * w.numpy()
        close(made, np.fft.rfft(frames).T, np.complex128)


@pytest.mark.parametrize("dim, size, step", [(0, 3, 1), (1, 4, 3), (-1, 2, 5), (0, 5, 5)])
def test_windows_that_overlap_are_added_up(dim, size, step):
    x = torch.from_numpy(random(5, 11, dtype=np.float64)).requires_grad_()
    assert gradcheck(lambda x: x.unfold(dim, size, step) ** 2, [x])
    assert gradgradcheck(lambda x: x.unfold(dim, size, step) ** 2, [x])
