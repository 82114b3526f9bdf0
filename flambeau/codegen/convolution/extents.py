"""A convolution's extents, and where its weights lie.

Stands on halo.py; the files that plan phases use it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from flambeau.codegen.convolution.halo import Tensor5, Triple, Window
from flambeau.codegen.element_type import Kind
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # tried numbers of parts of the rows, and of boxes of pixels
LATE = 0.125  # how late a thread is, in tasks
IN_PLACE_PIXELS = 64  # up to so many, packing the weights costs more than it saves
PAGE = 4096  # bytes; addresses a multiple of it apart share a set of the first-level cache

Phases = tuple[list[Phase], int]  # and the bytes of scratch memory that they share


class Convolution(NamedTuple):
    """The extents of a forward convolution: images of `channels` and `size` to images of `outputs` and `out`.

    Its weights are (outputs, channels / groups, *kernel), contiguous.
    """

    images: int
    channels: int
    outputs: int
    size: Triple
    kernel: Triple
    stride: Triple
    pad: Triple
    dilation: Triple
    groups: int
    out: Triple

    @property
    def inputs(self) -> int:
        """Input channels of a group."""
        return self.channels // self.groups

    @property
    def rows(self) -> int:
        """Output channels of a group."""
        return self.outputs // self.groups

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def pixels(self) -> int:
        """Of an image of the result."""
        return prod(self.out)

    def window(self, source: Tensor5) -> Window:
        """What the result's pixels see of `source`. Along an axis with a single tap that is every stride-th element alone."""
        z, y, x = (tuple(range(0, n * d, d)) for n, d in zip(self.kernel, self.dilation, strict=True))
        size, stride, strides = list(self.size), list(self.stride), list(source.strides)
        for axis in range(3):
            if self.kernel[axis] == 1 and self.pad[axis] == 0:
                size[axis], stride[axis] = self.out[axis], 1
                strides[axis + 2] *= self.stride[axis]
        moved = Tensor5(source.slot, tuple(strides))
        return Window(self.images, tuple(size), (z, y, x), tuple(stride), self.pad, self.out, moved)

    def is_product(self, x: Tensor5, y: Tensor5) -> bool:
        """Whether it is a plain matrix product per image: pixels or channels of each operand lie side by side."""
        steps = [(flat(t.strides, self.size), t.strides[1]) for t in (x, y)]
        return (
            self.kernel == self.stride == (1, 1, 1)
            and self.pad == (0, 0, 0)
            and self.groups == 1
            and all(step == 1 or (step is not None and channel == 1) for step, channel in steps)
        )

    def pixel_axis(self, *tensors: Tensor5) -> tuple[int, int, tuple[int, ...]]:
        """Images and pixels of each, and the strides along them, of tensors that `is_product` takes: one image if the pixels of
        all are one axis.
        """
        images, pixels = self.images, prod(self.size)
        steps = tuple((flat(t.strides, self.size) or 0) if pixels > 1 else t.strides[0] for t in tensors)
        if images == 1 or all(t.strides[0] == pixels * step for t, step in zip(tensors, steps, strict=True)):
            return 1, images * pixels, steps
        return images, pixels, steps


class Weights(NamedTuple):
    """Where weights lie: slot, strides per group, row and channel, taps of the kernel, and which of them are used."""

    slot: int
    strides: Triple
    area: int
    taps: tuple[int, ...]

    @property
    def places(self) -> list[int]:
        """Of each of the kernel's taps among those that are used, or -1."""
        places = [-1] * self.area
        for place, tap in enumerate(self.taps):
            places[tap] = place
        return places

    def in_place(self, kind: Kind, window: Window) -> bool:
        """Whether register tiles read them where they lie: few pixels use each, a row is one run of numbers, and neighbouring
        rows don't compete for the same lines of the cache.
        """
        return (
            kind.storage == kind.compute
            and window.images * prod(window.out) <= IN_PLACE_PIXELS
            and self.strides[2] == self.area
            and self.taps == tuple(range(self.area))
            and self.strides[1] * BYTES[kind.storage] % PAGE != 0
        )


@dataclass
class Beforehand:
    """Weights that are packed before the call, to slot `slot`, by phases of their own, for which they are slot 1
    and that is slot 0.

    uses: how often an element of them is multiplied, at most.
    """

    slot: int
    phases: list[Phase] = field(default_factory=list)
    size: int = 0
    uses: int = 0


def rounded(size: int) -> int:
    """Bytes of scratch memory for `size` of them, and the next cache line free."""
    return (size + 127) // 64 * 64


def flat(strides: tuple[int, ...], out: Triple) -> int | None:
    """The one stride along (z, y, x) as a single axis of pixels, or None if there is none."""
    if prod(out) == 1:
        return 1
    step = strides[4] if out[2] > 1 else strides[3] if out[1] > 1 else strides[2]
    rows = out[1] == 1 or strides[3] == out[2] * step
    planes = out[0] == 1 or strides[2] == out[1] * out[2] * step
    return step if rows and planes else None
