"""Kernels of connectionist temporal classification: the forward recursion over a sample's states, and the gradient.

The states of a sample are its labels with blanks between and around: 2 L + 1 of them. Rows of logarithms go through all
states a vector at a time; what lies before the first state and after the last has the logarithm -inf. A sample is a unit of
work. Labels are checked before anything is read through them; a bad one leaves LABEL_ERROR. Source: A. Graves et al.,
"Connectionist Temporal Classification", ICML 2006. Stands on kernel and attention; used by ops.nn.ctc_loss.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import float32, float64
from flambeau.codegen.builder import Value, Variable, module
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.simd import apply_function
from flambeau.codegen.strip_mine import gather

LABEL_ERROR = 1
CONSTANTS = ("count", "time", "classes", "time_stride", "sample_stride", "blank", "pitch", "slice", "zero_infinity")
NEVER = float("-inf")
BEFORE = 2  # elements of a row before its first state


def pitch_of(states: int, kind: Kind) -> int:
    """Elements of a row of states, with what is before and after them."""
    return -(-(states + BEFORE) // kind.lanes) * kind.lanes + 2 * kind.lanes


def slice_of(pitch: int, kind: Kind) -> int:
    """Bytes of scratch per thread: labels, and rows of what may be skipped, of logarithms, and of shares."""
    return pitch * (4 + 3 * BYTES[kind.compute])


class _Sample:
    """Sample n as the text of a kernel sees it: its lengths, its labels, and its rows in scratch."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants, log_probs: Value, targets: Value, lengths: Value, n: Value):
        self.f, self.kind, self.c = f, kind, c
        self.dtype = float32 if kind.compute == "float" else float64
        self.row, self.lanes, self.size = kind.accumulator, kind.lanes, BYTES[kind.compute]
        self.time, self.count, start = (f.load("i64", lengths, c["count"] * k + n) for k in range(3))
        self.states = self.count * 2 + 1
        self.log_probs = f.at(kind.compute, log_probs, n * c["sample_stride"])
        self.targets = f.at("i64", targets, start)
        own = f.scratch(f["thread"] * c["slice"])
        self.labels = own
        self.skips, self.logs, self.shares = (f.at("i8", own, c["pitch"] * (4 + k * self.size)) for k in range(3))

    def constant(self, value: float) -> Value:
        return self.f.value(value, self.row)

    def load(self, row: Value, at: Any) -> Value:
        return self.f.load(self.row, self.f.at(self.kind.compute, row, at), align=self.size)

    def store(self, value: Value, row: Value, at: Any) -> None:
        self.f.store(value, self.f.at(self.kind.compute, row, at), align=self.size)

    def fill(self, row: Value, value: float) -> None:
        with self.f.loop(0, self.c["pitch"], self.lanes) as s:
            self.store(self.constant(value), row, s)

    def read_labels(self) -> Variable:
        """Write labels and skips (0 where a state may follow the one before the last, else -inf); are all labels classes?"""
        f, blank = self.f, self.c["blank"]
        good = f.variable("i1", 1)
        narrow = f.convert(blank, "i32", "trunc")
        with f.loop(0, self.c["pitch"]) as s:
            f.store(narrow, self.labels, s)
        self.fill(self.skips, NEVER)
        before = f.variable("i64", blank)
        with f.loop(0, self.count) as i:
            label = f.load("i64", self.targets, i)
            good.set(f.emit("i1", f"and i1 {good.get().name}, {label.unsigned_below(self.c['classes']).name}"))
            f.store(f.convert(label, "i32", "trunc"), self.labels, i * 2 + 1)
            differs = f.emit("i1", f"and i1 {label.differs(before.get()).name}, {(i > 0).name}")
            f.store(f.select(differs, f.value(0.0, self.kind.compute), f.value(NEVER, self.kind.compute)), self.skips, i * 2 + 1)
            before.set(label)
        return good

    def emitted(self, t: Value, s: Value) -> Value:
        """The log-probabilities of the labels of states s, s + 1, ... at time t."""
        f = self.f
        labels = f.load(vector("i32", self.lanes), f.at("i32", self.labels, s), align=4)
        return gather(
            f, self.kind.compute, f.at(self.kind.compute, self.log_probs, t * self.c["time_stride"]), labels, None, self.lanes
        )

    def existing(self, s: Value, value: Value) -> Value:
        """Elements of states, -inf after the last."""
        return self.f.select(self.f.mask(self.states - s, self.lanes), value, self.constant(NEVER))

    def exp(self, value: Value) -> Value:
        return apply_function(self.f, "exp", self.dtype, value)

    def together(self, *logs: Value) -> Value:
        """The logarithm of the sum of what these are the logarithms of."""
        f = self.f
        most, rest = logs[0], []
        for log in logs[1:]:
            more = most > log  # of a NaN nothing is known, and it stays
            rest.append(f.select(more, log, most))
            most = f.select(more, most, log)
        nothing = most.equals(NEVER)
        total = f.select(nothing, f.value(0.0, most.type), f.value(1.0, most.type))
        most = f.select(nothing, f.value(0.0, most.type), most)
        for log in rest:
            total = total + self.exp(log - most)
        return apply_function(f, "log", self.dtype, total) + most


def _kernel() -> tuple[Kernel, Constants]:
    f = Kernel()
    return f, f.constants(CONSTANTS)


@compiled(INDEXED)
def forward_kernel(dtype: Any) -> str:
    """The range is samples. Slots: negative log-likelihoods (N,), alpha (N, T, pitch), log_probs, targets, lengths (3, N).

    alpha: the log-probability of all beginnings that are in state s at time t. lengths: of the inputs, of the targets, and where
    these begin.
    """
    f, c = _kernel()
    kind = kind_of(dtype)
    loss, alpha = f.buffer(0), f.buffer(1)
    with f.loop(f["begin"], f["end"]) as n:
        sample = _Sample(f, kind, c, f.buffer(2), f.buffer(3), f.buffer(4), n)
        rows = f.at(kind.compute, alpha, n * c["time"] * c["pitch"])
        good = sample.read_labels()
        with f.branches(good.get()) as otherwise:
            never = f.value(NEVER, kind.compute)
            with f.loop(0, sample.time) as t:
                row = f.at(kind.compute, rows, t * c["pitch"])
                with f.branches(t.equals(0)) as later:
                    sample.fill(row, NEVER)
                    with f.loop(0, f.minimum(sample.states, 2)) as s:
                        label = f.convert(f.load("i32", sample.labels, s), "i64", "sext")
                        f.store(f.load(kind.compute, sample.log_probs, label), row, s + BEFORE)
                    later()
                    before = f.at(kind.compute, rows, (t - 1) * c["pitch"])
                    for k in range(BEFORE):
                        f.store(never, row, k)
                    with f.loop(0, sample.states, sample.lanes) as s:
                        skipping = sample.load(before, s) + sample.load(sample.skips, s)
                        reached = sample.together(sample.load(before, s + 2), sample.load(before, s + 1), skipping)
                        sample.store(sample.existing(s, reached + sample.emitted(t, s)), row, s + BEFORE)
            result = f.variable(kind.compute, f.select(sample.count.equals(0), f.value(0.0, kind.compute), never))
            with f.when(sample.time > 0):
                last = f.at(kind.compute, rows, (sample.time - 1) * c["pitch"])
                at_end = f.load(kind.compute, last, sample.states + (BEFORE - 1))
                result.set(sample.together(at_end, f.load(kind.compute, last, sample.states + (BEFORE - 2))))
            f.store(-result.get(), loss, n)
            otherwise()
            f.store(f.i64(LABEL_ERROR), f["p"], 2)
    return module(f)


@compiled(INDEXED)
def gradient_kernel(dtype: Any) -> str:
    """The range is samples. Slots: gradient (T, N, C), log_probs, targets, lengths, losses, alpha, gradient of the losses.

    What is gone through backwards is the log-probability of all endings that begin in a state; with alpha it gives the share that
    the state has in the likelihood, and the shares of each class go into its gradient.
    """
    f, c = _kernel()
    kind = kind_of(dtype)
    compute, lanes = kind.compute, kind.lanes
    with f.loop(f["begin"], f["end"]) as n:
        sample = _Sample(f, kind, c, f.buffer(1), f.buffer(2), f.buffer(3), n)
        rows = f.at(compute, f.buffer(5), n * c["time"] * c["pitch"])
        loss, upstream = (f.load(compute, f.buffer(k), n) for k in (4, 6))
        impossible = loss.differs(loss - 0.0 * loss)  # inf or NaN
        is_zero = f.emit("i1", f"and i1 {loss.equals(float('inf')).name}, {c['zero_infinity'].differs(0).name}")
        nothing = f.select(is_zero, f.i64(0), f.select(impossible, sample.time, f.i64(0)))
        good = sample.read_labels()
        sample.fill(sample.logs, NEVER)

        def target(t: Value) -> Value:
            return f.at(compute, f.buffer(0), (t * c["count"] + n) * c["classes"])

        def fill(t: Value, value: Value) -> None:
            with f.loop(0, c["classes"]) as k:
                f.store(value, target(t), k)

        with f.branches(good.get()) as otherwise:
            steps = f.select(impossible, f.i64(0), sample.time)
            with f.loop(0, steps) as step:
                t = steps - 1 - step
                row = f.at(compute, rows, t * c["pitch"])
                splat_loss, splat_gradient = f.splat(loss, lanes), f.splat(upstream, lanes)
                with f.loop(0, sample.states, lanes) as s:
                    emitted = sample.emitted(t, s)
                    skipping = sample.load(sample.logs, s + 2) + sample.load(sample.skips, s + 2)
                    reached = sample.together(sample.load(sample.logs, s), sample.load(sample.logs, s + 1), skipping)
                    # at the last time only the two last states are ends
                    is_end = f.emit(
                        vector("i1", lanes),
                        "xor {} {}, {}".format(
                            vector("i1", lanes), f.mask(sample.states - s, lanes).name, f.mask(sample.states - 2 - s, lanes).name
                        ),
                    )
                    first = f.select(is_end, sample.constant(0.0), sample.constant(NEVER))
                    beta = f.select(f.splat(step.equals(0), lanes), first, reached) + emitted
                    beta = sample.existing(s, beta)
                    share = sample.exp(sample.load(row, s + BEFORE) + beta - emitted + splat_loss)
                    share = f.select(share.equals(share), share, sample.constant(0.0))
                    sample.store(beta, sample.logs, s)
                    sample.store(share, sample.shares, s)
                place = target(t)
                fill(t, f.value(0.0, compute))
                with f.loop(0, sample.states) as s:
                    label = f.convert(f.load("i32", sample.labels, s), "i64", "sext")
                    f.store(f.load(compute, place, label) + f.load(compute, sample.shares, s), place, label)
                source = f.at(compute, sample.log_probs, t * c["time_stride"])
                with f.loop(0, c["classes"], lanes) as k:
                    mask = f.mask(c["classes"] - k, lanes)
                    into = f.at(compute, place, k)
                    logs = f.masked_load(sample.row, f.at(compute, source, k), mask, sample.size)
                    shares = f.masked_load(sample.row, into, mask, sample.size)
                    f.masked_store((sample.exp(logs) - shares) * splat_gradient, into, mask, sample.size)
            with f.loop(steps, c["time"]) as t:
                undefined = f.emit("i1", f"icmp slt i64 {t.name}, {nothing.name}")
                fill(t, f.select(undefined, f.value(float("nan"), compute), f.value(0.0, compute)))
            otherwise()
            f.store(f.i64(LABEL_ERROR), f["p"], 2)
    return module(f)
