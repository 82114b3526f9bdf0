"""Attention and its gradient as steps of plans; forward.py and backward.py lower them for the CPU."""

from __future__ import annotations

from typing import NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.attention.backward import backward_phases
from flambeau.codegen.attention.forward import attention_phases
from flambeau.codegen.attention.scores import Attention
from flambeau.codegen.plan import Slots
from flambeau.codegen.targets.cpu import CPU


class Attend(NamedTuple):
    """Slots: out and the logarithms of the rows' sums; query, key, value and the mask, if there is one."""

    dtype: DType
    sizes: Attention
    scale: float

    @property
    def reads(self) -> Slots:
        return (2, 3, 4) if self.sizes.mask is None else (2, 3, 4, 5)

    @property
    def writes(self) -> Slots:
        return 0, 1

    def __str__(self) -> str:
        return f"attention {_extents(self.sizes)}"


class AttendBackward(NamedTuple):
    """Slots: the gradients of query, key and value; the gradient of out, then query, key, value, out, the logarithms and the
    mask, if there is one. gradient: the strides of the gradient of out.
    """

    dtype: DType
    sizes: Attention
    gradient: tuple[int, int, int, int]
    scale: float

    @property
    def reads(self) -> Slots:
        return tuple(range(3, 9 if self.sizes.mask is None else 10))

    @property
    def writes(self) -> Slots:
        return 0, 1, 2

    def __str__(self) -> str:
        return f"attention's gradient, {_extents(self.sizes)}"


def _extents(a: Attention) -> str:
    masked = f", mask of {a.masked}" if a.masked else ""
    return f"{a.batch} x {a.heads} heads of {a.rows} by {a.columns} x {a.depth}{masked}{', causal' if a.causal else ''}"


CPU.lowers(Attend)(attention_phases)
CPU.lowers(AttendBackward)(backward_phases)
