"""Products as steps of plans. Stands on matrix.py; gemm.py lowers them for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen.plan import Slots
from flambeau.codegen.products.gemm import gemm_phases, prepacked
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.targets.cpu import CPU


class Contraction(NamedTuple):
    """C[.., m, n] = activation(alpha * A[.., m, k] B[.., k, n] + beta * addend), for outer x inner batches of matrices.

    `addend` has the output's dtype and any strides (0 broadcasts a bias; C itself accumulates). activation: "relu", or any other
    name together with `apply(f, value) -> value`, which emits it. out: another dtype for C.
    """

    dtype: object
    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    batch: tuple[int, int] = (1, 1)
    addend: Matrix | None = None
    alpha: float = 1
    beta: float = 1
    activation: str | None = None
    apply: Callable | None = None
    out: object = None

    @property
    def reads(self) -> Slots:
        return self.a.slot, self.b.slot, *(() if self.addend is None else (self.addend.slot,))

    @property
    def writes(self) -> Slots:
        return (self.c.slot,)

    def __str__(self) -> str:
        count = self.batch[0] * self.batch[1]
        return f"product {f'{count} of ' if count > 1 else ''}{self.m} x {self.k} by {self.k} x {self.n}"


CPU.lowers(Contraction)(gemm_phases)
CPU.prepacks(Contraction)(prepacked)
