"""Kernels of recurrent layers against NumPy, step by step: sizes past the edges of tiles, divisions, nothing touched outside."""

from __future__ import annotations

import os
import subprocess
import sys

import kernel_runner
import numpy as np
import pytest
from kernel_runner import Guarded, guarded, run

from flambeau.base.dtype import float32, float64
from flambeau.codegen.recurrent import sequence
from flambeau.codegen.recurrent.cells import CELLS
from flambeau.codegen.recurrent.sequence import Steps, backward_phases, forward_phases

MODES = list(CELLS)
FEATURES = 6  # of the input


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class Case:
    """A layer's operands, and what it gives in float64."""

    def __init__(self, mode: str, count: int, batch: int, size: int, reverse: bool, dtype=np.float32, seed: int = 0) -> None:
        cell = CELLS[mode]
        self.mode, self.count, self.batch, self.size, self.reverse, self.dtype = mode, count, batch, size, reverse, dtype
        r = np.random.default_rng(seed)

        def made(*shape: int) -> np.ndarray:
            return r.standard_normal(shape).astype(dtype)

        self.input, self.input_bias = made(count, batch, FEATURES), made(cell.gates * size)
        self.input_weight = made(cell.gates * size, FEATURES)
        self.projected = self.input @ self.input_weight.T + self.input_bias
        self.hidden, self.cell = made(batch, size), made(batch, size)
        self.weight = (made(cell.gates * size, size) / size**0.5).astype(dtype)
        self.bias = None if cell.adds else made(cell.gates * size)
        self.g, self.g_hidden, self.g_cell = made(count, batch, size), made(batch, size), made(batch, size)
        self.dtype_of = float32 if dtype is np.float32 else float64

    @property
    def order(self) -> list[int]:
        return list(range(self.count))[:: -1 if self.reverse else 1]

    def expected(self) -> dict[str, np.ndarray]:
        """Every result, by the formulas of the cells and their derivatives."""
        projected, w, bias = (None if x is None else x.astype(np.float64) for x in (self.projected, self.weight, self.bias))
        h, c = self.hidden.astype(np.float64), self.cell.astype(np.float64)
        out, cells = np.empty((self.count, self.batch, self.size)), np.empty((self.count, self.batch, self.size))
        saved = {}
        for t in self.order:
            product = h @ w.T + (0 if bias is None else bias)
            before = h, c
            if self.mode == "LSTM":
                i, f, g, o = np.split(projected[t] + product, 4, -1)
                i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
                c = f * c + i * g
                h = o * np.tanh(c)
                saved[t] = (*before, i, f, g, o)
            elif self.mode == "GRU":
                (a, b, n), (d, e, m) = np.split(projected[t], 3, -1), np.split(product, 3, -1)
                r, u = sigmoid(a + d), sigmoid(b + e)
                n = np.tanh(n + r * m)
                h = n + u * (h - n)
                saved[t] = (*before, r, u, n, m)
            else:
                total = projected[t] + product
                h = np.tanh(total) if self.mode == "RNN_TANH" else np.maximum(total, 0)
                saved[t] = before
            out[t], cells[t] = h, c
        gates, of_product = np.empty(projected.shape), np.empty(projected.shape)
        gh, gc = self.g_hidden.astype(np.float64), self.g_cell.astype(np.float64)
        direct = np.zeros_like(gh)
        for t in self.order[::-1]:
            h, c, *kept = saved[t]
            g = self.g[t] + gh + direct
            direct = np.zeros_like(gh)
            if self.mode == "LSTM":
                i, f, n, o = kept
                bent = np.tanh(cells[t])
                gc = gc + g * o * (1 - bent**2)
                made = [gc * n * i * (1 - i), gc * c * f * (1 - f), gc * i * (1 - n**2), g * bent * o * (1 - o)]
                product, gc = made, gc * f
            elif self.mode == "GRU":
                r, u, n, m = kept
                of_n, of_u = g * (1 - u) * (1 - n**2), g * (h - n) * u * (1 - u)
                of_r = of_n * m * r * (1 - r)
                made, product, direct = [of_r, of_u, of_n], [of_r, of_u, of_n * r], g * u
            else:
                made = product = [g * (1 - out[t] ** 2 if self.mode == "RNN_TANH" else out[t] > 0)]
            gates[t], of_product[t] = np.concatenate(made, -1), np.concatenate(product, -1)
            gh = of_product[t] @ w
        return {"out": out, "cells": cells, "gates": gates, "product": of_product, "hidden": gh, "cell": gc, "direct": direct}

    def check(self) -> list[np.ndarray]:
        """What the kernels give is what is expected; the arrays, for comparisons of their bits."""
        cell, size, count, batch = CELLS[self.mode], self.size, self.count, self.batch
        expected, tolerance = self.expected(), 1e-5 if self.dtype is np.float32 else 1e-12
        wide = cell.gates * size
        # rows of the projected input and the gradient are a part of longer ones
        given = np.full((count, batch, wide + 3), np.nan, self.dtype)
        given[..., :wide] = self.projected
        gradient = np.full((batch, count, size + 2), np.nan, self.dtype)
        gradient[..., :size] = self.g.transpose(1, 0, 2)
        transposed = np.ascontiguousarray(self.weight.T)
        results: list[np.ndarray] = []

        def of(layer: tuple[int, int], strides: tuple[int, int]) -> Steps:
            return Steps(self.mode, count, batch, size, layer, strides, self.reverse)

        def close(found: Guarded, name: str) -> None:
            error = np.abs(found.array.reshape(expected[name].shape) - expected[name]).max()
            assert error <= tolerance * max(1, np.abs(expected[name]).max()), (name, error)
            results.append(found.array.copy())

        states = [guarded(x) for x in (self.hidden, self.cell)]
        rest = [] if self.bias is None else [guarded(self.bias)]
        for keep, weight, strides, joined in (
            (False, transposed, (1, wide), False),
            (False, transposed, (1, wide), cell.adds),
            (True, self.weight, (size, 1), cell.adds),
            (True, self.weight, (size, 1), False),
        ):
            held = count if keep else 1
            out, cells, kept = (
                Guarded(n, self.dtype) for n in (count * batch * size, held * batch * size, count * batch * size * cell.kept)
            )
            if joined:
                steps = of(strides, (FEATURES, count * FEATURES))._replace(inputs=FEATURES, input_weight=(FEATURES, 1))
                phases = forward_phases(self.dtype_of, steps, keep, False)
                x = np.ascontiguousarray(self.input.transpose(1, 0, 2))
                operands = [guarded(x), *states, guarded(weight), guarded(self.input_bias), guarded(self.input_weight)]
            else:
                steps = of(strides, (batch * (wide + 3), wide + 3))
                phases = forward_phases(self.dtype_of, steps, keep, self.bias is not None)
                operands = [guarded(given.ravel()[: given.size - 3]), *states, guarded(weight), *rest]
            run(*phases, [out, cells, kept, *operands])
            close(out, "out")
            if cell.has_cell and keep:
                close(cells, "cells")
            elif cell.has_cell:
                last = self.order[-1]
                assert np.abs(cells.array.reshape(batch, size) - expected["cells"][last]).max() < 10 * tolerance
        gates, product = (Guarded(count * batch * wide, self.dtype) for _ in range(2))
        hidden, state, direct = guarded(self.g_hidden), guarded(self.g_cell), guarded(np.zeros_like(self.g_hidden))
        flat = gradient.ravel()[: gradient.size - 2]
        phases = backward_phases(self.dtype_of, of((size, 1), (size + 2, count * (size + 2))))
        run(*phases, [gates, product, hidden, state, direct, guarded(flat), out, kept, cells, *states, guarded(self.weight)])
        close(gates, "gates")
        close(hidden, "hidden")
        if not cell.adds:
            close(product, "product")
            close(direct, "direct")
        if cell.has_cell:
            close(state, "cell")
        return results


def random_case(seed: int) -> Case:
    r = np.random.default_rng(seed)
    sizes = [int(r.choice(x)) for x in ([1, 2, 5], [1, 2, 3, 4, 7, 13, 40], [1, 2, 7, 8, 16, 17, 31, 33, 64, 65, 100])]
    return Case(MODES[seed % 4], *sizes, bool(r.integers(2)), np.float64 if seed % 5 == 0 else np.float32, seed)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("mode", MODES)
def test_sizes(mode, threads, monkeypatch):
    for module in (sequence, kernel_runner):
        monkeypatch.setattr(module, "planned_threads", lambda: threads)
    for count, batch, size in ((1, 1, 1), (3, 9, 21), (4, 14, 40), (2, 1, 70)):
        for reverse in (False, True):
            Case(mode, count, batch, size, reverse).check()
    Case(mode, 3, 5, 12, False, np.float64).check()


@pytest.mark.parametrize("mode", MODES)
def test_divisions_give_the_same_bits(mode, monkeypatch):
    case, found = Case(mode, 4, 11, 50, False), []
    plain = sequence.divided
    changes = [
        {},
        {"rows": 3, "height": 2},
        {"rows": 11, "height": 5, "vectors": 1},
        {"stepwise": True, "vectors": 1, "units": 32},
        {"stepwise": True, "vectors": 1, "units": 32, "rows": 4, "height": 3},
    ]
    for change in changes:
        monkeypatch.setattr(sequence, "divided", lambda *a, change=change: plain(*a)._replace(**change))
        found.append(case.check())
    for others in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_few_rows_are_divided_by_units_only_where_a_step_is_worth_it(monkeypatch):
    monkeypatch.setattr(sequence, "planned_threads", lambda: 2)
    kind = sequence.kind_of(float32)

    def of(batch: int, size: int) -> sequence._Division:
        return sequence.divided(kind, Steps("LSTM", 10, batch, size, (size, 1), (1, 1), False))

    assert of(1, 512).stepwise and of(1, 512).units <= 256
    assert not of(1, 32).stepwise and of(1, 32).rows == 1
    assert not of(32, 128).stepwise and of(32, 128).rows == 16


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_random_sizes_for_vectors_of_each_size(vector_bytes):
    answer = subprocess.run(
        [sys.executable, __file__, "0", "24"],
        capture_output=True,
        text=True,
        env={**os.environ, "FLAMBEAU_VECTOR_BYTES": str(vector_bytes)},
    )
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[-3000:]


if __name__ == "__main__":
    first, number = map(int, sys.argv[1:])
    for seed in range(first, first + number):
        random_case(seed).check()
