"""Convolution kernels against a direct sum in float64: geometry, groups, strides, dtypes, and nothing touched outside."""

from __future__ import annotations

import os
import subprocess
import sys

import conv_cases
import numpy as np
import pytest
from conv_cases import CHANNELS_LAST, Case
from kernel_runner import Guarded, guarded, run

from flambeau.codegen.convolution.conv import conv_forward_phases, conv_grad_input_phases
from flambeau.codegen.convolution.extents import Convolution
from flambeau.codegen.convolution.halo import Tensor5
from flambeau.codegen.convolution.weight_plan import conv_grad_weight_phases
from flambeau.codegen.products import micro


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
    "pointwise, unequal strides": (2, 17, 30, flat(8, 11), flat(1, 1), (1, 3, 4)),
    "pointwise stride 3, 3-d": (2, 9, 12, (4, 7, 6), (1, 1, 1), (3, 2, 3)),
    "7x7 stride 2": (1, 3, 16, flat(30, 33), flat(7, 7), (1, 2, 2), (0, 3, 3)),
    "patches": (2, 3, 20, flat(32, 48), flat(16, 16), (1, 16, 16)),
    "patches of half a vector": (2, 3, 8, flat(16, 24), flat(8, 8), (1, 8, 8)),
    "patches of many outputs": (1, 2, 300, flat(22, 9), flat(11, 9), (1, 11, 9)),
    "small patches": (2, 3, 5, flat(8, 10), flat(2, 2), (1, 2, 2)),
    "stride over kernel": (2, 3, 5, flat(11, 10), flat(2, 1), (1, 3, 3)),
    "groups": (2, 12, 18, flat(6, 7), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 3),
    "depthwise": (2, 6, 6, flat(9, 20), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 6),
    "depthwise 5x5 stride 2": (2, 5, 5, flat(11, 40), flat(5, 5), (1, 2, 2), (0, 2, 2), (1, 1, 1), 5),
    "depthwise multiplier": (2, 3, 6, flat(7, 8), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 3),
    "depthwise of many channels": (2, 37, 37, flat(9, 20), flat(3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 37),
    "depthwise of many channels, stride 2": (2, 19, 19, flat(8, 11), flat(3, 5), (1, 2, 2), (0, 0, 2), (1, 1, 2), 19),
    "depthwise 3-d": (2, 9, 9, (4, 5, 6), (3, 2, 3), (1, 1, 1), (1, 0, 1), (1, 1, 1), 9),
    "1-d": (3, 4, 9, flat(1, 50), flat(1, 5), (1, 1, 1), (0, 0, 2)),
    "1-d long": (1, 40, 3, flat(1, 3000), flat(1, 9), (1, 1, 4), (0, 0, 4), (1, 1, 2)),
    "3-d": (2, 3, 5, (4, 5, 6), (3, 2, 3), (1, 1, 1), (1, 0, 1)),
    "3-d stride": (1, 4, 3, (7, 6, 9), (3, 3, 3), (2, 1, 2), (1, 1, 1)),
    "many channels": (1, 150, 16, flat(6, 6), flat(3, 3), (1, 1, 1), (0, 1, 1)),
    **{
        f"groups, stride down, {n} across": (2, 80, 96, flat(12, n), flat(5, 3), (1, 2, 1), (0, 0, 1), (1, 1, 1), 16)
        for n in (5, 10, 30)
    },
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


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype):
    for name in ("3x3", "3x3 stride 2", "pointwise", "depthwise"):
        Case(*CASES[name], dtype=dtype).all()


def test_channels_last():
    names = ["3x3", "3x3 stride 2", "groups", *(name for name in CASES if name.startswith(("pointwise", "depthwise")))]
    for name in names:
        case = Case(*CASES[name], orders=(CHANNELS_LAST, CHANNELS_LAST))
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
    run(*conv_forward_phases("float32", case.conv, Tensor5(1, strides), 2, Tensor5(0, strides)), [y, x, guarded(case.w)])
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


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_random_sizes(vector_bytes):
    """In a process of its own, which the vectors are chosen for: more of them with `python conv_cases.py SEED COUNT`."""
    answer = subprocess.run(
        [sys.executable, conv_cases.__file__, "0", "25"],
        capture_output=True,
        text=True,
        env={**os.environ, "FLAMBEAU_VECTOR_BYTES": str(vector_bytes)},
    )
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[-3000:]


def test_dimensions_of_the_result_in_another_order():
    """Pixels of several rows may span what one run of pixels would."""
    for order in ((0, 1, 3, 2, 4), (0, 2, 1, 3, 4), (1, 3, 0, 2, 4)):
        for across in (2, 4, 8):
            Case(2, 3, 5, (4, 4, across), (1, 1, 2), pad=(0, 0, 1), orders=(order, order)).forward()
