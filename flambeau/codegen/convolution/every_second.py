"""Convolutions of one tap with a stride whose channels lie side by side (channels_last): products of the pixels that count.

These pixels are copied to the scratch memory, or spread from there among zeros, and a product does the rest. Stands on halo.py
and extents.py; conv.py and weight_plan.py plan with it.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.convolution.extents import Convolution, rounded
from flambeau.codegen.convolution.halo import Tensor5, grain, image_row
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.matrix import SCRATCH

PIXELS = (
    "channels", "out_z", "out_y", "out_x", "stride_z", "stride_y", "stride_x", "size_z", "size_y", "size_x", "slot",
    "n", "z", "y", "x",
)  # fmt: skip


def applies(conv: Convolution, x: Tensor5, y: Tensor5) -> bool:
    """Whether the convolution is a product of every second (or third...) pixel, in vectors of channels."""
    return (
        conv.kernel == (1, 1, 1)
        and conv.pad == (0, 0, 0)
        and conv.groups == 1
        and conv.stride != (1, 1, 1)
        and x.strides[1] == 1
        and y.strides[1] == 1
        and dense(conv).is_product(dense_pixels(conv), y)
    )


def dense(conv: Convolution) -> Convolution:
    """The same convolution of the pixels that count."""
    return conv._replace(size=conv.out, stride=(1, 1, 1))


def dense_pixels(conv: Convolution) -> Tensor5:
    """Where they lie: at the start of the scratch memory."""
    _, height, width = conv.out
    row, plane = width * conv.channels, height * width * conv.channels
    return Tensor5(SCRATCH, (conv.pixels * conv.channels, 1, plane, row, conv.channels))


def pixels_phase(kind: Kind, conv: Convolution, image: Tensor5, spread: bool) -> tuple[Phase, int]:
    """The phase that copies the pixels that count to the scratch memory, or spreads them; and how many bytes they are."""
    strides = image.strides[0], *image.strides[2:]
    constants = (conv.channels, *conv.out, *conv.stride, *conv.size, image.slot, *strides)
    planes, rows = (conv.size if spread else conv.out)[:2]
    total = conv.images * planes * rows
    kernel = spread_kernel(kind) if spread else pick_kernel(kind)
    size = conv.images * conv.pixels * conv.channels * BYTES[kind.storage]
    return Phase(kernel, total, grain(total, 16), constants), rounded(size)


def _copy(f: Kernel, kind: Kind, channels: Value, target: Value, source: Value | None) -> None:
    """A pixel's channels, or zeros."""
    lanes, size = kind.lanes, BYTES[kind.storage]
    whole, type = channels & -lanes, vector(kind.storage, lanes)

    def value(i: Value, type: str) -> Value | int:
        return 0 if source is None else f.load(type, source, i, align=size)

    with f.loop(0, whole, lanes) as i:
        f.store(f.value(value(i, type), type), target, i, align=size)
    with f.loop(whole, channels) as i:
        f.store(f.value(value(i, kind.storage), kind.storage), target, i)


def _dense(f: Kernel, c: Constants, kind: Kind, n: Value, z: Value, y: Value) -> Value:
    """Where a row of the pixels that count lies."""
    row = (n * c["out_z"] + z) * c["out_y"] + y
    return f.at(kind.storage, f.scratch(f.i64(0)), row * c["out_x"] * c["channels"])


@compiled(BRIEF)
def pick_kernel(kind: Kind) -> str:
    """Copies the pixels that count; the range is their rows."""
    f = Kernel()
    c = f.constants(PIXELS)
    with f.loop(f["begin"], f["end"]) as index:
        n, z, y = image_row(c, index)
        place = n * c["n"] + z * c["stride_z"] * c["z"] + y * c["stride_y"] * c["y"]
        source, target = f.at(kind.storage, f.slot(c["slot"]), place), _dense(f, c, kind, n, z, y)
        with f.loop(0, c["out_x"]) as x:
            here = f.at(kind.storage, source, x * c["stride_x"] * c["x"])
            _copy(f, kind, c["channels"], f.at(kind.storage, target, x * c["channels"]), here)
    return module(f)


@compiled(BRIEF)
def spread_kernel(kind: Kind) -> str:
    """Writes all pixels of an image, zeros where they don't count; the range is its rows."""
    f = Kernel()
    c = f.constants(PIXELS)
    with f.loop(f["begin"], f["end"]) as index:
        n, z, y = image_row(c, index, "size")
        target = f.at(kind.storage, f.slot(c["slot"]), n * c["n"] + z * c["z"] + y * c["y"])
        from_z, from_y = z.unsigned_div(c["stride_z"]), y.unsigned_div(c["stride_y"])
        counts = (from_z * c["stride_z"]).equals(z) & (from_y * c["stride_y"]).equals(y)
        counts = counts & (from_z < c["out_z"]) & (from_y < c["out_y"])
        source = _dense(f, c, kind, n, from_z, from_y)
        with f.loop(0, c["size_x"]) as x:
            from_x = x.unsigned_div(c["stride_x"])
            here = counts & (from_x * c["stride_x"]).equals(x) & (from_x < c["out_x"])
            goal = f.at(kind.storage, target, x * c["x"])
            with f.branches(here) as otherwise:
                _copy(f, kind, c["channels"], goal, f.at(kind.storage, source, from_x * c["channels"]))
                otherwise()
                _copy(f, kind, c["channels"], goal, None)
    return module(f)
