"""Kernels of torchaudio's loops over samples, each of which needs the result of the sample before: filters and overdrive.

A row, which is a channel of a recording, is a unit of work. Every product and sum is rounded where torchaudio's library rounds
it, so that results agree to the bit. Stands on kernel; used by extensions.torchaudio.
"""

from __future__ import annotations

from flambeau.codegen.builder import module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import INDEXED


@compiled(INDEXED)
def recursive_filter_kernel(kind: Kind) -> str:
    """y[t + order - 1] = x[t] - sum over k of a[k] y[t + k]. Slots: y, x (rows, samples), a (channels, order), y before.

    y before, like y, has order - 1 samples more than x, in front; the sum is taken from k = 0 on.
    """
    f, type = Kernel(), kind.storage
    c = f.constants(("samples", "order", "channels"))
    results, samples, weights, before = (f.buffer(slot) for slot in range(4))
    padded = c["samples"] + c["order"] - 1
    with f.loop(f["begin"], f["end"]) as row:
        y, x = f.at(type, results, row * padded), f.at(type, samples, row * c["samples"])
        a, start = f.at(type, weights, row % c["channels"] * c["order"]), f.at(type, before, row * padded)
        with f.loop(0, padded) as t:
            f.store(f.load(type, start, t), y, t)
        with f.loop(0, c["samples"]) as t:
            total = f.variable(type, f.load(type, x, t))
            with f.loop(0, c["order"]) as k:
                total.set(total.get() - f.load(type, y, t + k).exact_mul(f.load(type, a, k)))
            f.store(total.get(), y, t + c["order"] - 1)
    return module(f)


@compiled(INDEXED)
def overdrive_kernel(kind: Kind) -> str:
    """last_out = temp[t] - last_in + 0.995 last_out; y[t] = x[t] / 2 + 0.75 last_out; last_in = temp[t].

    Slots: y (rows, samples), last_in after, last_out after (rows,); x, temp (rows, samples), last_in, last_out (rows,). The
    products and what they are added to are doubles.
    """
    f, type = Kernel(), kind.storage
    c = f.constants(("samples",))
    y, in_after, out_after, x, temp, in_before, out_before = (f.buffer(slot) for slot in range(7))

    def wide(value):  # type: ignore[no-untyped-def]
        return value if type == "double" else f.convert(value, "double", "fpext")

    def narrow(value):  # type: ignore[no-untyped-def]
        return value if type == "double" else f.convert(value, type, "fptrunc")

    with f.loop(f["begin"], f["end"]) as row:
        last_in, last_out = f.variable(type, f.load(type, in_before, row)), f.variable(type, f.load(type, out_before, row))
        with f.loop(row * c["samples"], (row + 1) * c["samples"]) as t:
            now = f.load(type, temp, t)
            last_out.set(narrow(wide(now - last_in.get()) + wide(last_out.get()).exact_mul(0.995)))
            last_in.set(now)
            half = wide(f.load(type, x, t)).exact_mul(0.5)
            f.store(narrow(half + wide(last_out.get()).exact_mul(0.75)), y, t)
        f.store(last_in.get(), in_after, row)
        f.store(last_out.get(), out_after, row)
    return module(f)
