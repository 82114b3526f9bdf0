"""Time steps of a recurrent layer, and their gradient, as steps of plans; sequence.py lowers them for the CPU."""

from __future__ import annotations

from typing import NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.plan import Slots
from flambeau.codegen.recurrent.sequence import Steps, backward_phases, forward_phases
from flambeau.codegen.targets.cpu import CPU


class Recur(NamedTuple):
    """Slots: outputs (T, batch, size), cells of all steps or the last one, kept values; the projected input, hidden and cell
    states, the weight, and the bias if `biased`. Cells and kept values of all steps are written if `keep`. If the steps have
    `inputs`, the input itself, and behind the weight the bias, which must be there, and the input's weight.
    """

    dtype: DType
    steps: Steps
    keep: bool
    biased: bool

    @property
    def reads(self) -> Slots:
        return tuple(range(3, 9 if self.steps.inputs else 8 if self.biased else 7))

    @property
    def writes(self) -> Slots:
        return 0, 1, 2

    def __str__(self) -> str:
        return f"recurrent {_extents(self.steps)}"


class RecurBackward(NamedTuple):
    """Slots: gradients of the projected input, of the product (for cells that don't add it), of hidden and cell states, which
    come in with those of the states after the last step, and what reaches the hidden state past the product, to be added to
    its gradient; the gradient of the outputs, outputs, kept values, cells, hidden and cell states, the weight.
    """

    dtype: DType
    steps: Steps

    @property
    def reads(self) -> Slots:
        return tuple(range(2, 12))

    @property
    def writes(self) -> Slots:
        return 0, 1, 2, 3, 4

    def __str__(self) -> str:
        return f"recurrent gradient, {_extents(self.steps)}"


def _extents(steps: Steps) -> str:
    back = ", from the last" if steps.reverse else ""
    return f"{steps.mode.lower()} of {steps.count} steps, {steps.batch} x {steps.size}{back}"


CPU.lowers(Recur)(forward_phases)
CPU.lowers(RecurBackward)(backward_phases)
