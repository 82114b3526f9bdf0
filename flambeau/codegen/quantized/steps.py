"""Products and convolutions of quantized activations as steps of plans.

Stands on integer_products.py and depthwise.py, which have their kernels.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from flambeau.codegen.cpu import second_level_bytes, vector_bytes
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase
from flambeau.codegen.quantized import depthwise, dots
from flambeau.codegen.quantized import integer_products as kernels
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets.cpu import CPU

SERIAL = 48 * 1024  # multiply-adds that one thread does
WHOLE_TILES = 64  # columns that are whole tiles, and whole vectors, of all processors
CACHE_SHARE = 4  # a task's rows take one part in so many of the second-level cache, and so do the weights that they meet
ONE = (1, 1, 1)


class Packing(NamedTuple):
    """How weights lie: blocks of so many columns, of each of which so many bytes along k lie side by side."""

    columns: int
    together: int

    def depth(self, k: int) -> int:
        """Bytes of a column of k."""
        return _up(k, self.together)


def packing() -> Packing:
    """That of this processor."""
    return Packing(dots.columns(dots.way()), dots.together(dots.way()))


class Geometry(NamedTuple):
    """What a convolution takes of its input, which has its channels last: for depth, height and width each. input: sizes;
    output: sizes; taps, stride, padding, dilation. A product of rows is the convolution of a line of pixels by one tap: `rows`.
    """

    input: tuple[int, ...]
    output: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def rows(count: int) -> Geometry:
    """What a product takes of so many rows."""
    return Geometry((1, 1, count), (1, 1, count), ONE, ONE, (0, 0, 0), ONE)


class IntegerProduct(NamedTuple):
    """The product of an input's patches (`strides` of images, planes, lines and pixels, whose channels lie side by side) and rows
    of weights, in blocks as `packing` says: `columns` for each of `groups`, of k bytes each. depthwise: each column is the
    product of the one channel that has its number, and weights are (k taps, columns).

    source: "unsigned", "signed" or "floats"; result: "codes", "floats" or "sums"; one_scale: of all columns. Slots: the result,
    the input, weights, scales, sums, the bias and zero points, if there are any; scalars are those of the kernel.
    """

    images: int
    geometry: Geometry
    strides: tuple[int, int, int, int]
    channels: int
    columns: int
    groups: int
    k: int
    source: str
    result: str
    one_scale: bool
    bias: bool
    zeros: bool
    depthwise: bool = False

    @property
    def reads(self) -> tuple[int, ...]:
        return tuple(range(1, 5 + self.bias + self.zeros))

    @property
    def writes(self) -> tuple[int, ...]:
        return (0,)

    @property
    def rows(self) -> int:
        return self.images * prod(self.geometry.output)

    @property
    def tile_rows(self) -> int:
        return 1 if self.depthwise else dots.rows(self.rows)

    @property
    def work(self) -> int:
        """Multiply-adds."""
        return self.rows * self.columns * self.groups * self.k

    def __str__(self) -> str:
        groups = f"{self.groups} groups of " if self.groups > 1 else ""
        return f"product of bytes {self.rows} x {self.k} by {groups}{self.k} x {self.columns}"


def _up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _sizes(p: IntegerProduct, row_bytes: int, threads: int) -> tuple[int, int, int]:
    """Rows and columns of a task, and columns that are multiplied while they are in the second-level cache."""
    most, tile = second_level_bytes() // CACHE_SHARE, p.tile_rows
    task_rows = max(1, most // max(row_bytes, 1) // tile) * tile
    wanted = 1 if p.work <= SERIAL or threads == 1 else 4 * threads
    if p.rows > 2 * tile:
        task_rows = min(task_rows, _up(-(-p.rows * p.groups // wanted), tile))
    tasks = -(-p.rows // task_rows) * p.groups
    parts = max(1, min(-(-wanted // tasks), -(-p.columns // WHOLE_TILES)))
    task_columns = _up(-(-p.columns // parts), WHOLE_TILES)
    return task_rows, task_columns, min(max(1, most // max(p.k, 1) // WHOLE_TILES) * WHOLE_TILES, task_columns)


def product_phases(*fields: object) -> tuple[list[Phase], int]:
    """One phase over tasks."""
    p = IntegerProduct(*fields)  # type: ignore[arg-type]
    if not (p.rows and p.columns):
        return [], 0
    threads, lanes, g = planned_threads(), vector_bytes() // 4, p.geometry
    how = dots.CHANNELS if p.depthwise else dots.way()
    depth = p.k if p.depthwise else packing().depth(p.k)
    widened = BYTES["i16"] if how == dots.PAIRS else 0  # for each byte of activations
    task_rows, task_columns, block = _sizes(p, depth * max(1, widened), threads)
    merged = g.dilation[2] == 1 and p.strides[3] == p.channels
    inputs = depthwise.working_bytes(p.k, task_columns) if p.depthwise else task_rows * depth + kernels.SLACK
    wide = _up(inputs, 64)
    sums = _up(wide + widened * inputs, 64)
    factors = _up(sums + 4 * p.tile_rows * block, 64)
    totals = _up(factors + 4 * 3 * (task_columns + lanes), 64)
    each = _up(totals + 4 * task_rows, 64) + 64
    tasks_rows, tasks_columns = -(-p.rows // task_rows), -(-p.columns // task_columns)
    constants = (
        *(p.rows, p.columns, p.k, depth, tasks_rows, tasks_columns, task_rows, task_columns, block),
        *(p.columns * p.groups, int(not p.one_scale)),
        *(*g.output, *g.input, *p.strides, p.channels, *g.taps, g.taps[2] if merged else 1),
        *(*g.stride, *g.padding, *g.dilation),
        *(each, wide, sums, factors, totals),
    )
    form = kernels.Form(how, p.tile_rows, p.source, p.bias, p.zeros, p.result)
    kernel = depthwise.depthwise_kernel(form) if p.depthwise else kernels.product_kernel(form)
    total = tasks_rows * tasks_columns * p.groups
    return [Phase(kernel, total, total if p.work <= SERIAL else 1, constants)], threads * each


CPU.lowers(IntegerProduct)(product_phases)
