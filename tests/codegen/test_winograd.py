"""Convolutions by Winograd's form: against a direct sum, between pages that can't be touched, and values that are not finite."""

from __future__ import annotations

import os
import subprocess
import sys

import conv_cases
import numpy as np
import pytest
from conv_cases import CHANNELS_LAST, IN_ORDER, Case
from kernel_runner import Guarded, guarded, run

from flambeau.base.flags import flags
from flambeau.codegen.convolution import winograd_plan
from flambeau.codegen.convolution.conv import conv_forward_phases
from flambeau.codegen.convolution.extents import Convolution
from flambeau.codegen.convolution.halo import Tensor5
from flambeau.codegen.convolution.weight_plan import conv_grad_weight_phases
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.products import micro


def three_by_three(images, channels, outputs, size, pad=(1, 1)) -> tuple:
    return images, channels, outputs, (1, *size), (1, 3, 3), (1, 1, 1), (0, *pad)


CASES = {
    "odd": three_by_three(2, 5, 7, (9, 11)),
    "even": three_by_three(2, 16, 16, (16, 16)),
    "wide": three_by_three(1, 40, 33, (5, 170)),
    "high": three_by_three(1, 3, 33, (170, 5)),
    "small images": three_by_three(9, 37, 20, (4, 4)),
    "one pixel": three_by_three(70, 8, 20, (1, 1)),
    "two columns": three_by_three(3, 8, 20, (17, 2)),
    "no padding": three_by_three(2, 9, 20, (12, 13), (0, 0)),
    "much padding": three_by_three(2, 9, 20, (6, 7), (4, 5)),
    "many channels": three_by_three(1, 150, 16, (12, 6)),
    "many outputs": three_by_three(1, 3, 700, (12, 12)),
    "planes": (2, 3, 5, (4, 9, 10), (1, 3, 3), (1, 1, 1), (1, 0, 1)),
}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(flags, "winograd", "always")


@pytest.mark.parametrize("order", [IN_ORDER, CHANNELS_LAST], ids=["in order", "channels last"])
@pytest.mark.parametrize("name", list(CASES))
def test_sizes(name, order):
    case = Case(*CASES[name], orders=(order, order))
    case.forward(bias=True, relu=True)
    case.all()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype):
    for name in ("odd", "small images", "many channels"):
        Case(*CASES[name], dtype=dtype).all(bias=True)


def test_much_work(monkeypatch):
    monkeypatch.setattr(micro, "LONG_WORK", 0)
    for name in ("odd", "many channels", "wide"):
        Case(*CASES[name]).all()


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_random_sizes(vector_bytes):
    """In a process of its own, which the vectors are chosen for: more of them with `python conv_cases.py SEED COUNT`."""
    answer = subprocess.run(
        [sys.executable, conv_cases.__file__, "0", "20"],
        capture_output=True,
        text=True,
        env={**os.environ, "FLAMBEAU_VECTOR_BYTES": str(vector_bytes), "FLAMBEAU_WINOGRAD": "always"},
    )
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[-3000:]


def both(monkeypatch, work) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for form in ("always", "never"):
        monkeypatch.setattr(flags, "winograd", form)
        found.append(work())
    return found[0], found[1]


def forward(case: Case) -> np.ndarray:
    (x, xs), (y, ys) = case.memory(case.x, IN_ORDER), case.memory(case.unwritten(case.dy), IN_ORDER)
    run(*conv_forward_phases(case.dtype, case.conv, Tensor5(1, xs), 2, Tensor5(0, ys)), [y, x, guarded(case.w)])
    return y.array.copy()


def grad_weight(case: Case) -> np.ndarray:
    (x, xs), (dy, dys) = case.memory(case.x, IN_ORDER), case.memory(case.dy, IN_ORDER)
    dw = Guarded(case.w.size, case.w.dtype)
    run(*conv_grad_weight_phases(case.dtype, case.conv, Tensor5(1, xs), Tensor5(2, dys), 0), [dw, x, dy])
    return dw.array.copy()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("place", [(0, 3, 0, 5, 5), (1, 0, 0, 0, 0), (1, 8, 0, 12, 11), None])
@pytest.mark.parametrize("zeros", [False, True])
def test_values_that_are_not_finite_stay_where_the_direct_form_has_them(value, place, zeros, monkeypatch):
    """Also where a weight is zero: infinity times zero is NaN, and nothing else is."""
    case = Case(*three_by_three(2, 9, 20, (13, 12)))
    if zeros:
        case.w[:7] = case.dy[:, :7] = 0
    if place is None:
        case.w[8, 5, 0, 1, 2] = case.dy[1, 3, 0, 4, 4] = value
    else:
        case.x[place] = value
    for work in (forward, grad_weight):
        by_tiles, direct = both(monkeypatch, lambda work=work: work(case))
        finite = np.isfinite(direct)
        np.testing.assert_array_equal(by_tiles[~finite], direct[~finite])
        assert np.isfinite(by_tiles[finite]).all()
        np.testing.assert_allclose(by_tiles[finite], direct[finite], rtol=1e-5, atol=1e-5 * np.abs(direct[finite]).max())


def test_nothing_is_done_twice_where_all_is_finite(monkeypatch):
    """The direct form, which stands behind, doesn't run: its results would be other bits."""
    case = Case(*CASES["even"])
    by_tiles, direct = both(monkeypatch, lambda: forward(case))
    assert not np.array_equal(by_tiles, direct)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_pixels_under_taps_without_weight_do_not_count(zero, monkeypatch):
    """In masked convolutions what comes later must not change what came before, to the last bit; nor get a gradient."""
    case = Case(*three_by_three(2, 40, 33, (13, 12)))
    case.w[..., 1, 2] = case.w[..., 2, :] = zero
    by_tiles, direct = both(monkeypatch, lambda: forward(case))
    np.testing.assert_array_equal(by_tiles, direct)
    case.w[32, 39, 0, 1, 2] = 1
    by_tiles, direct = both(monkeypatch, lambda: forward(case))
    np.testing.assert_array_equal(by_tiles, direct)  # a row of taps is still without weight
    case.w[32, 39, 0, 2] = 1
    by_tiles, direct = both(monkeypatch, lambda: forward(case))
    assert not np.array_equal(by_tiles, direct)


@pytest.mark.parametrize("scale", ["normal", "positive", "bytes", "large mean"])
def test_errors_are_no_larger_than_the_direct_form_s(scale, monkeypatch):
    case = Case(*three_by_three(2, 64, 32, (14, 15)))
    rng = np.random.default_rng(1)
    of = {
        "normal": rng.standard_normal,
        "positive": lambda s: np.maximum(rng.standard_normal(s), 0),
        "bytes": lambda s: rng.integers(0, 256, s),
        "large mean": lambda s: 100 + rng.standard_normal(s),
    }[scale]
    case.x[:] = of(case.x.shape)
    padded = np.pad(case.x.astype(np.float64), [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1)])
    exact = np.zeros(case.dy.shape)
    for i in range(3):
        for j in range(3):
            patch = padded[:, :, 0, i : i + 14, j : j + 15]
            exact[:, :, 0] += np.einsum("oc,ncyx->noyx", case.w[:, :, 0, i, j].astype(np.float64), patch)
    by_tiles, direct = (np.abs(y.reshape(exact.shape) - exact).max() for y in both(monkeypatch, lambda: forward(case)))
    assert by_tiles <= direct


def test_where_it_pays(monkeypatch):
    """Not for few channels, few tiles, other kernels or strides; on two threads with half a MiB of second-level cache."""
    monkeypatch.setattr(flags, "winograd", "auto")
    monkeypatch.setattr(winograd_plan, "planned_threads", lambda: 2)
    monkeypatch.setattr(winograd_plan, "second_level_bytes", lambda: 512 << 10)

    def chosen(images, channels, outputs, size, kernel=3, stride=1, groups=1) -> tuple[bool, bool]:
        out = (size - 1) // stride + 1
        conv = Convolution(
            images, channels, outputs, (1, size, size), (1, kernel, kernel), (1, stride, stride), (0, kernel // 2, kernel // 2),
            (1, 1, 1), groups, (1, out, out),
        )  # fmt: skip
        window = conv.window(Tensor5(1, (channels * size * size, size * size, 0, size, 1)))
        kind = kind_of("float32")
        if not winograd_plan.applies(kind, window, groups, kernel * kernel):
            return False, False
        tile = (6, 2)
        boxes = winograd_plan.boxes(kind, winograd_plan.tile_window(window), channels, -(-outputs // 6), tile)
        return (winograd_plan.pays(kind, window, channels, outputs, boxes), winograd_plan.weight_pays(kind, conv, window))

    assert chosen(8, 64, 64, 56) == chosen(8, 256, 256, 14) == (True, True)
    assert chosen(64, 3, 64, 32) == chosen(1, 64, 64, 2) == (False, False)
    assert chosen(8, 64, 64, 56, kernel=5) == chosen(8, 64, 64, 56, stride=2) == chosen(8, 64, 64, 56, groups=2) == (False, False)
