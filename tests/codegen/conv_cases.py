"""Convolutions of random numbers between pages that can't be touched, against a direct sum in float64.

`python conv_cases.py SEED COUNT` names those of so many random ones that differ; FLAMBEAU_VECTOR_BYTES chooses the vectors,
FLAMBEAU_WINOGRAD the form of those with three by three taps.
"""

from __future__ import annotations

import random
import sys
from itertools import product
from math import prod

import numpy as np
from kernel_runner import Guarded, guarded, run

from flambeau.codegen.convolution.conv import conv_forward_phases, conv_grad_input_phases
from flambeau.codegen.convolution.extents import Convolution
from flambeau.codegen.convolution.halo import Tensor5
from flambeau.codegen.convolution.weight_plan import conv_grad_weight_phases
from flambeau.codegen.products import micro

TOLERANCE = {"float32": 3e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}
IN_ORDER, CHANNELS_LAST = (0, 1, 2, 3, 4), (0, 2, 3, 4, 1)


def encoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as they lie in memory."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decoded(stored: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


class Case:
    """A convolution with random operands and its three results in float64.

    orders: in which order the dimensions of the images and of the result lie in memory; front: buffers begin at a page's start
    instead of ending at one's end.
    """

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
        dtype="float32",
        orders=(IN_ORDER, IN_ORDER),
        front=False,
    ):
        rng = np.random.default_rng(0)
        self.dtype, self.orders, self.front = dtype, orders, front
        out = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size, pad, dilation, kernel, stride, strict=True)
        )
        self.conv = Convolution(images, channels, outputs, size, kernel, stride, pad, dilation, groups, out)
        shapes = (
            (images, channels, *size),
            (outputs, channels // groups, *kernel),
            (images, outputs, *out),
            (outputs,),
            (channels,),
        )
        self.x, self.w, self.dy, self.bias, self.channel_bias = (encoded(rng.standard_normal(s), dtype) for s in shapes)
        x, w, dy = (decoded(t, dtype) for t in (self.x, self.w, self.dy))
        padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
        self.y, dx, self.dw = np.zeros_like(dy), np.zeros_like(padded), np.zeros_like(w)
        factors, sums = (t.reshape(groups, outputs // groups, channels // groups, *kernel) for t in (w, self.dw))
        upstream = dy.reshape(images, groups, outputs // groups, -1)
        for tap in product(*map(range, kernel)):
            steps = zip(tap, dilation, out, stride, strict=True)
            window = (..., *(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in steps))
            patch, factor = padded[window].reshape(images, groups, channels // groups, -1), factors[(..., *tap)]
            self.y += (factor @ patch).reshape(self.y.shape)
            dx[window] += (factor.transpose(0, 2, 1) @ upstream).reshape(images, channels, *out)
            sums[(..., *tap)] += (upstream @ patch.transpose(0, 1, 3, 2)).sum(0)
        self.dx = dx[(..., *(slice(p, p + n) for p, n in zip(pad, size, strict=True)))]

    def memory(self, values, order):
        """A buffer and element strides along (n, c, z, y, x)."""
        laid = np.ascontiguousarray(values.transpose(order))
        strides = [0] * 5
        for axis, stride in zip(order, laid.strides, strict=True):
            strides[axis] = stride // laid.itemsize
        return self.buffer(laid), tuple(strides)

    def buffer(self, values):
        return guarded(values, self.front)

    def unwritten(self, like):
        return np.broadcast_to(encoded(np.array(np.nan), self.dtype), like.shape)

    def compare(self, buffer, expected, order=None):
        stored = buffer.array.reshape(expected.shape)
        if order is not None:
            stored = buffer.array.reshape([expected.shape[axis] for axis in order]).transpose(np.argsort(order))
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        assert np.abs(decoded(stored, self.dtype) - expected).max(initial=0) <= TOLERANCE[self.dtype] * scale

    def forward(self, bias=False, relu=False):
        (x, xs), (y, ys) = self.memory(self.x, self.orders[0]), self.memory(self.unwritten(self.dy), self.orders[1])
        run(
            *conv_forward_phases(
                self.dtype, self.conv, Tensor5(1, xs), 2, Tensor5(0, ys), 3 if bias else None, "relu" if relu else None
            ),
            [y, x, self.buffer(self.w), self.buffer(self.bias)],
        )
        expected = self.y + (decoded(self.bias, self.dtype)[:, None, None, None] if bias else 0)
        self.compare(y, np.maximum(expected, 0) if relu else expected, self.orders[1])

    def grad_input(self, bias=False):
        (dy, dys), (dx, dxs) = self.memory(self.dy, self.orders[1]), self.memory(self.unwritten(self.x), self.orders[0])
        run(
            *conv_grad_input_phases(self.dtype, self.conv, Tensor5(1, dys), 2, Tensor5(0, dxs), 3 if bias else None),
            [dx, dy, self.buffer(self.w), self.buffer(self.channel_bias)],
        )
        expected = self.dx + (decoded(self.channel_bias, self.dtype)[:, None, None, None] if bias else 0)
        self.compare(dx, expected, self.orders[0])

    def grad_weight(self):
        """The result's pixels must be one axis: in order or channels last."""
        order = self.orders[1] if self.orders[1] == CHANNELS_LAST else IN_ORDER
        (x, xs), (dy, dys) = self.memory(self.x, self.orders[0]), self.memory(self.dy, order)
        dw = Guarded(self.w.size, self.w.dtype, self.front)
        dw.array[:] = encoded(np.array(np.nan), self.dtype)
        run(*conv_grad_weight_phases(self.dtype, self.conv, Tensor5(1, xs), Tensor5(2, dys), 0), [dw, x, dy])
        self.compare(dw, self.dw)

    def all(self, bias=False):
        self.forward(bias)
        self.grad_input(bias)
        self.grad_weight()


def random_sizes(r: random.Random) -> tuple:
    """The arguments of a Case: one to three dimensions, kernels, strides, padding, dilation and groups up to 17."""
    dims = r.choice((1, 2, 2, 2, 3))
    most = 17 if dims < 3 else 5

    def up_to(last: int, *often: int) -> int:
        return r.choice((*often, r.randint(1, last), r.randint(1, last)))

    kernel, dilation = [up_to(most, 1, 2, 3) for _ in range(dims)], [up_to(17, 1, 1, 1, 1, 2, 3) for _ in range(dims)]
    stride, pad = [up_to(17, 1, 1, 2, 3, 4) for _ in range(dims)], [r.choice((0, 0, 1, r.randint(0, 17))) for _ in range(dims)]
    shape = r.random()
    if shape < 0.2:  # patches that tile the image
        if shape < 0.1:
            kernel = [r.randint(1, most)] * dims
        stride, dilation, pad = list(kernel), [1] * dims, [0] * dims
    elif shape < 0.5 and dims == 2:  # what Winograd's form computes
        kernel, stride, dilation = [3, 3], [1, 1], [1, 1]
    out = [r.randint(1, 300 if dims == 1 and shape > 0.5 else 20 if dims < 3 else 6) for _ in range(dims)]
    size = [(o - 1) * s + d * (k - 1) + 1 - 2 * p for o, s, d, k, p in zip(out, stride, dilation, kernel, pad, strict=True)]
    if shape > 0.1:
        size = [n + r.randint(0, s - 1) for n, s in zip(size, stride, strict=True)]
    groups = 1 if kernel == [3, 3] == [2 + n for n in stride] else up_to(17, 1, 1, 1, 2, 3)
    channels, outputs = (up_to(20 if groups < 5 else 4, 1, 1, 2, 3) * groups for _ in range(2))
    if groups > 1 and r.random() < 0.4:  # each channel by itself
        groups = channels = outputs = r.randint(2, 50)

    def three(values, fill):
        return (*[fill] * (3 - dims), *values)

    return (
        up_to(9, 1, 1, 2, 3),
        channels,
        outputs,
        three(size, 1),
        three(kernel, 1),
        three(stride, 1),
        three(pad, 0),
        three(dilation, 1),
        groups,
    )


def small(images, channels, outputs, size, kernel, stride, pad, dilation, groups, most=1_000_000) -> bool:
    pixels = prod((n + 2 * p) // s + 1 for n, p, s in zip(size, pad, stride, strict=True))
    return (
        min(size) > 0
        and prod(kernel) <= 300
        and images * channels * prod(size) <= most // 4
        and images * channels * outputs // groups * prod(kernel) * pixels <= most
    )


def compare(seed: int, count: int) -> list[str]:
    """What differs among so many random convolutions; each depends on its own number only."""
    wrong = []
    for number in range(seed, seed + count):
        r = random.Random(number)
        sizes = random_sizes(r)
        while not small(*sizes):
            sizes = random_sizes(r)
        dtype = r.choice(("float32", "float32", "float32", "bfloat16", "float64", "float16"))
        orders = [r.choice((IN_ORDER, IN_ORDER, CHANNELS_LAST, tuple(r.sample(IN_ORDER, 5)))) for _ in range(2)]
        micro.LONG_WORK = r.choice((0, 8 << 20, 8 << 20))  # much work has longer loops
        case = Case(*sizes, dtype=dtype, orders=orders, front=r.random() < 0.5)
        for work in (
            lambda: case.forward(number % 2 > 0, number % 3 > 0),
            lambda: case.grad_input(number % 2 > 0),
            case.grad_weight,
        ):
            try:
                work()
            except AssertionError as error:
                wrong.append(f"{number}: {sizes} {dtype} {orders} {error!r}"[:600])
    return wrong


if __name__ == "__main__":
    differing = compare(*map(int, sys.argv[1:3]))
    print("\n".join(differing))
    sys.exit(bool(differing))
