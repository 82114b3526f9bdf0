"""What the implicit iterations on tridiagonal and bidiagonal matrices share: blocks between negligible couplings, and the
direction of the sweeps in them.

d and e are the diagonal and the couplings, in double precision for every dtype. Stands on columns.py; used by tridiagonal_ql.py
and bidiagonal_qr.py.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import Field, absolute
from flambeau.codegen.kernel import Kernel

MOST_SWEEPS = 30  # to an eigenvalue, on the average

#: Words of an iteration's state: where it begins, the end of the block it is in, its direction, sweeps so far, the size below
#: which a coupling is none, the number that failed to converge.
STATE = ("first", "end", "step", "sweeps", "cutoff", "failed")


class Iteration:
    """The blocks between negligible couplings, taken one after another from `first` on."""

    def __init__(self, f: Kernel, field: Field):
        self.f = f
        self.epsilon = 2.0**-24 if field.real == "float" else 2.0**-53
        self.first, self.last = f.variable("i64", self.word("first")), f.variable("i64", 0)
        self.end, self.step, self.sweeps = (f.variable("i64", self.word(x)) for x in ("end", "step", "sweeps"))
        self.cutoff = f.load("double", f["state"], STATE.index("cutoff"))

    def word(self, name: str) -> Value:
        return self.f.load("i64", self.f["state"], STATE.index(name))

    def coupled(self) -> Value:
        """Whether rows `last` and the next one are; the coupling of the last row is zero."""
        f, m = self.f, self.last.get()
        a, b, e = f.load("double", f["d"], m), f.load("double", f["d"], m + 1), f.load("double", f["e"], m)
        return self.matters(e, absolute(f, a * b) * (self.epsilon * self.epsilon))

    def matters(self, e: Value, limit: Value) -> Value:
        """Whether a coupling is larger than the root of `limit`, and than what is negligible."""
        return (e * e > limit) & (absolute(self.f, e) > self.cutoff)

    def find_block(self) -> None:
        f = self.f
        self.last.set(self.first.get())
        with f.repeat(self.coupled):
            self.last.add(1)

    def choose(self) -> tuple[Value, Value, Value, Value]:
        """(start, step, goal, rotations) of the next sweep: towards the end whose diagonal element is the smaller one, as
        long as parts of that block are left. The couplings outside become zero."""
        f = self.f
        first, last = self.first.get(), self.last.get()
        with f.when(first > self.end.get()):
            self.end.set(last)
            ends = [absolute(f, f.load("double", f["d"], x)) for x in (first, last)]
            self.step.set(f.select(ends[1] < ends[0], f.i64(1), f.i64(-1)))
        step = self.step.get()
        up = step > 0
        zero = f.value(0, "double")
        f.store(zero, f["e"], last)
        self.sweeps.add(1)
        return f.select(up, first, last), step, f.select(up, last, first), last - first

    def coupling(self, position: Value, step: Value) -> Value:
        """The index of the coupling from a row to the next one in a sweep's direction."""
        return self.f.minimum(position, position + step)

    def keep(self) -> None:
        f = self.f
        for name, x in (("first", self.first), ("end", self.end), ("step", self.step), ("sweeps", self.sweeps)):
            f.store(x.get(), f["state"], STATE.index(name))

    def give_up(self) -> None:
        """Note what has not converged, if there were too many sweeps."""
        f = self.f
        with f.when(self.sweeps.get() > f["n"] * MOST_SWEEPS):
            f.store(self.last.get() - self.first.get(), f["state"], STATE.index("failed"))
            self.first.set(f["n"])
