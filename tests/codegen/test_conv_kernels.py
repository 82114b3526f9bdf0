"""Convolution kernels against a direct sum in float64: geometry, groups, strides, dtypes, and nothing touched outside."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from kernel_runner import Guarded, guarded, run

from flambeau.codegen.convolution.conv import (
    Convolution,
    Tensor5,
    conv_forward_phases,
    conv_grad_input_phases,
    conv_grad_weight_phases,
)
from flambeau.codegen.products import micro

TOLERANCE = {np.float32: 3e-6, np.float64: 1e-14, np.float16: 2e-3}
NAMES = {np.float32: "float32", np.float64: "float64", np.float16: "float16"}


class Case:
    """A convolution with random operands and its three results in float64."""

    def __init__(
        self,
        images,
        channels,
        outputs,
        size,
        kernel,
        stride=(1, 1, 1),
        pad=(0, 0, 0),
        dilation=(1, 1, 1),
        groups=1,
        dtype=np.float32,
        channels_last=False,
    ):
        rng = np.random.default_rng(0)
        self.dtype, self.channels_last = dtype, channels_last
        out = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(size, pad, dilation, kernel, stride, strict=True)
        )
        self.conv = Convolution(images, channels, outputs, size, kernel, stride, pad, dilation, groups, out)
        self.x = rng.standard_normal((images, channels, *size)).astype(dtype)
        self.w = rng.standard_normal((outputs, channels // groups, *kernel)).astype(dtype)
        self.dy = rng.standard_normal((images, outputs, *out)).astype(dtype)
        self.bias = rng.standard_normal(outputs).astype(dtype)
        x, w, dy = (t.astype(np.float64) for t in (self.x, self.w, self.dy))
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
        y, dx, dw = np.zeros_like(dy), np.zeros_like(padded), np.zeros_like(w)
        for tap in product(*map(range, kernel)):
            window = tuple(
                slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride, strict=True)
            )
            for g in range(groups):
                i, o = (slice(g * n // groups, (g + 1) * n // groups) for n in (channels, outputs))
                patch, factor = padded[(slice(None), i, *window)], w[(o, slice(None), *tap)]
                y[:, o] += np.einsum("nczyx,oc->nozyx", patch, factor)
                dx[(slice(None), i, *window)] += np.einsum("nozyx,oc->nczyx", dy[:, o], factor)
                dw[(o, slice(None), *tap)] += np.einsum("nozyx,nczyx->oc", dy[:, o], patch)
        self.y, self.dw = y, dw
        self.dx = dx[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(pad, size, strict=True)))]

    def memory(self, values):
        """A buffer and element strides along (n, c, z, y, x)."""
        order = (0, 2, 3, 4, 1) if self.channels_last else (0, 1, 2, 3, 4)
        laid = np.ascontiguousarray(values.transpose(order))
        strides = [0] * 5
        for axis, stride in zip(order, laid.strides, strict=True):
            strides[axis] = stride // laid.itemsize
        return guarded(laid), tuple(strides)

    def result(self, buffer, shape):
        if self.channels_last and len(shape) == 5:
            return buffer.array.reshape(shape[0], *shape[2:], shape[1]).transpose(0, 4, 1, 2, 3)
        return buffer.array.reshape(shape)

    def compare(self, got, expected):
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        assert np.abs(got.astype(np.float64) - expected).max(initial=0) <= TOLERANCE[self.dtype] * scale

    def forward(self, bias=False, relu=False):
        (x, xs), (y, ys) = self.memory(self.x), self.memory(np.zeros_like(self.dy))
        y.array[:] = np.nan
        buffers = [y, x, guarded(self.w), guarded(self.bias)]
        run(
            *conv_forward_phases(
                NAMES[self.dtype],
                self.conv,
                Tensor5(1, xs),
                2,
                Tensor5(0, ys),
                3 if bias else None,
                "relu" if relu else None,
            ),
            buffers,
        )
        expected = self.y + (self.bias.astype(np.float64)[:, None, None, None] if bias else 0)
        self.compare(self.result(y, self.dy.shape), np.maximum(expected, 0) if relu else expected)

    def grad_input(self, bias=False):
        (dy, dys), (dx, dxs) = self.memory(self.dy), self.memory(np.zeros_like(self.x))
        dx.array[:] = np.nan
        channel_bias = np.arange(self.x.shape[1]).astype(self.dtype)
        run(
            *conv_grad_input_phases(
                NAMES[self.dtype], self.conv, Tensor5(1, dys), 2, Tensor5(0, dxs), 3 if bias else None
            ),
            [dx, dy, guarded(self.w), guarded(channel_bias)],
        )
        expected = self.dx + (channel_bias.astype(np.float64)[:, None, None, None] if bias else 0)
        self.compare(self.result(dx, self.x.shape), expected)

    def grad_weight(self):
        (x, xs), (dy, dys) = self.memory(self.x), self.memory(self.dy)
        dw = Guarded(self.w.size, self.dtype)
        dw.array[:] = np.nan
        run(
            *conv_grad_weight_phases(NAMES[self.dtype], self.conv, Tensor5(1, xs), Tensor5(2, dys), 0),
            [dw, x, dy],
        )
        self.compare(dw.array.reshape(self.w.shape), self.dw)

    def all(self):
        self.forward()
        self.grad_input()
        self.grad_weight()


def flat(height, width):
    return (1, height, width)


CASES = {
    "3x3": (2, 5, 7, flat(9, 11), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    "3x3 wide": (1, 40, 33, flat(5, 70), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    "3x3 narrow images": (9, 37, 20, flat(4, 4), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    "3x3 one pixel": (5, 8, 20, flat(1, 1), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    "3x3 stride 2": (3, 6, 18, flat(13, 16), flat(3, 3), (1, 2, 2), (0, 1, 1)),
    "3x3 stride 3 dilation 2": (2, 4, 5, flat(17, 22), flat(3, 3), (1, 3, 3), (0, 2, 1), (1, 2, 2)),
    "mixed": (2, 3, 4, flat(14, 12), flat(2, 5), (1, 1, 2), (0, 0, 3), (1, 3, 1)),
    "pointwise": (3, 17, 30, flat(7, 5), flat(1, 1)),
    "pointwise, fewer outputs": (3, 30, 17, flat(7, 5), flat(1, 1)),
    "pointwise stride 2, packed": (1, 1024, 15, flat(4, 5), flat(1, 1), (1, 2, 2)),
    "3x3 many pixels": (1, 6, 20, flat(70, 61), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    "one tap across": (2, 5, 18, flat(9, 11), flat(3, 1), (1, 2, 2), (0, 1, 0)),
    "pointwise stride 2": (2, 17, 30, flat(8, 9), flat(1, 1), (1, 2, 2)),
    "7x7 stride 2": (1, 3, 16, flat(30, 33), flat(7, 7), (1, 2, 2), (0, 3, 3)),
    "patches": (2, 3, 20, flat(32, 48), flat(16, 16), (1, 16, 16)),
    "small patches": (2, 3, 5, flat(8, 10), flat(2, 2), (1, 2, 2)),
    "stride over kernel": (2, 3, 5, flat(11, 10), flat(2, 1), (1, 3, 3)),
    "groups": (2, 12, 18, flat(6, 7), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 3),
    "depthwise": (2, 6, 6, flat(9, 20), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 6),
    "depthwise 5x5 stride 2": (2, 5, 5, flat(11, 40), flat(5, 5), (1, 2, 2), (0, 2, 2), (1, 1, 1), 5),
    "depthwise multiplier": (2, 3, 6, flat(7, 8), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 3),
    "1-d": (3, 4, 9, flat(1, 50), flat(1, 5), (1, 1, 1), (0, 0, 2)),
    "1-d long": (1, 40, 3, flat(1, 3000), flat(1, 9), (1, 1, 4), (0, 0, 4), (1, 1, 2)),
    "3-d": (2, 3, 5, (4, 5, 6), (3, 2, 3), (1, 1, 1), (1, 0, 1)),
    "3-d stride": (1, 4, 3, (7, 6, 9), (3, 3, 3), (2, 1, 2), (1, 1, 1)),
    "many channels": (1, 150, 16, flat(6, 6), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    "many outputs": (1, 3, 700, flat(5, 5), flat(3, 3)),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("work", ["little", "much"])
def test_geometry(name, work, monkeypatch):
    """Much work has longer loops, and a narrower tile for the last panel of a box."""
    if work == "much":
        monkeypatch.setattr(micro, "LONG_WORK", 0)
    Case(*CASES[name]).all()


@pytest.mark.parametrize("name", ["3x3", "3x3 stride 2", "pointwise", "depthwise", "many channels"])
def test_bias_and_relu(name):
    case = Case(*CASES[name])
    case.forward(bias=True)
    case.forward(bias=True, relu=True)
    case.forward(relu=True)
    case.grad_input(bias=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_dtypes(dtype):
    for name in ("3x3", "3x3 stride 2", "pointwise", "depthwise"):
        Case(*CASES[name], dtype=dtype).all()


def test_channels_last():
    for name in ("3x3", "3x3 stride 2", "groups", "pointwise"):
        case = Case(*CASES[name], channels_last=True)
        case.forward(bias=True)
        case.grad_input()
        case.grad_weight()


def test_transposed_with_output_padding():
    """Positions beyond the reach of the output's gradient become zeros."""
    case = Case(2, 3, 5, flat(9, 9), flat(2, 2), (1, 3, 3))
    assert case.conv.out == flat(3, 3) and not case.dx[..., 8].any()
    case.grad_input()
    case.grad_input(bias=True)


def test_infinity_stays_in_its_window():
    case = Case(1, 1, 1, flat(5, 40), flat(3, 3), (1, 1, 1), (0, 1, 1))
    case.x[0, 0, 0, 2, 20] = np.inf
    x, y = guarded(case.x), Guarded(200, np.float32)
    strides = (200, 200, 200, 40, 1)
    run(
        *conv_forward_phases("float32", case.conv, Tensor5(1, strides), 2, Tensor5(0, strides)),
        [y, x, guarded(case.w)],
    )
    bad = ~np.isfinite(y.array.reshape(5, 40))
    assert bad[1:4, 19:22].all() and bad.sum() == 9


def test_no_images():
    conv = Convolution(0, 3, 4, flat(5, 5), flat(3, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, flat(3, 3))
    x, y = Tensor5(1, (75, 25, 25, 5, 1)), Tensor5(0, (36, 9, 9, 3, 1))
    assert conv_forward_phases("float32", conv, x, 2, y) == ([], 0)
    assert conv_grad_input_phases("float32", conv, y, 2, x) == ([], 0)
    dw = Guarded(4 * 3 * 9, np.float32)
    run(
        *conv_grad_weight_phases("float32", conv, x, Tensor5(2, y.strides), 0),
        [dw, Guarded(0, np.float32), Guarded(0, np.float32)],
    )
    assert not dw.array.any()
