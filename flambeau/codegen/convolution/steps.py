"""Convolutions and their gradients as steps of plans; conv.py lowers them for the CPU."""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.convolution.conv import conv_forward_phases, conv_grad_input_phases, prepacked
from flambeau.codegen.convolution.extents import Convolution
from flambeau.codegen.convolution.halo import Tensor5
from flambeau.codegen.convolution.weight_plan import conv_grad_weight_phases
from flambeau.codegen.plan import Slots
from flambeau.codegen.targets.cpu import CPU


class Convolve(NamedTuple):
    """y = activation(conv(x, weight) + bias). x is (images, channels, *size), y (images, outputs, *out), both with any strides;
    bias (outputs,). activation: None or "relu".
    """

    dtype: object
    conv: Convolution
    x: Tensor5
    weight_slot: int
    y: Tensor5
    bias_slot: int | None = None
    activation: str | None = None

    @property
    def reads(self) -> Slots:
        return self.x.slot, self.weight_slot, *(() if self.bias_slot is None else (self.bias_slot,))

    @property
    def writes(self) -> Slots:
        return (self.y.slot,)

    def __str__(self) -> str:
        return f"convolution {_extents(self.conv)}"


class ConvolveInput(NamedTuple):
    """dx = conv_transpose(dy, weight) (+ bias, as the forward of a transposed convolution). dx is (images, channels, *size), dy
    (images, outputs, *out), both with any strides; bias, if any, is (channels,). `size` may be larger than what `out` reaches
    (output_padding).
    """

    dtype: object
    conv: Convolution
    dy: Tensor5
    weight_slot: int
    dx: Tensor5
    bias_slot: int | None = None

    @property
    def reads(self) -> Slots:
        return self.dy.slot, self.weight_slot, *(() if self.bias_slot is None else (self.bias_slot,))

    @property
    def writes(self) -> Slots:
        return (self.dx.slot,)

    def __str__(self) -> str:
        return f"convolution's gradient of the input, {_extents(self.conv)}"


class ConvolveWeight(NamedTuple):
    """The gradient of the weight, contiguous, from x with any strides and dy, whose pixels must be one axis."""

    dtype: object
    conv: Convolution
    x: Tensor5
    dy: Tensor5
    weight_slot: int

    @property
    def reads(self) -> Slots:
        return self.x.slot, self.dy.slot

    @property
    def writes(self) -> Slots:
        return (self.weight_slot,)

    def __str__(self) -> str:
        return f"convolution's gradient of the weight, {_extents(self.conv)}"


def _extents(conv: Convolution) -> str:
    return f"{conv.images} x {conv.channels} x {list(conv.size)} by {conv.outputs} x {conv.inputs} x {list(conv.kernel)}" + (
        f" in {conv.groups} groups" if conv.groups > 1 else ""
    )


CPU.lowers(Convolve)(conv_forward_phases)
CPU.prepacks(Convolve)(prepacked)
CPU.lowers(ConvolveInput)(conv_grad_input_phases)
CPU.lowers(ConvolveWeight)(conv_grad_weight_phases)
