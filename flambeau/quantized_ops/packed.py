"""Weights as quantized operators take them: what `linear_prepack`, `conv2d_prepack` and `embedding_bag_prepack` return.

PyTorch's are objects of C++ classes in the processor's own order; these hold the weight and what a call needs of it each time:
the sums of its rows. Stands on ops.quantized; used by the other modules of this room.
"""

from __future__ import annotations

import copyreg
import math
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.base.lazy_import import kept
from flambeau.ops.quantized.products import Weights, packed_rows
from flambeau.ops.quantized.tensor import PerTensor, codes

__all__ = ["CellParams", "ConvParams", "EmbeddingParams", "HalfLinearParams", "LinearParams"]


FEW_CHANNELS = 16  # of a group, which are moved at once


class PackedParams:
    """What all of them have in common."""

    kind = ""
    weight: Any  # a copy: writes to what was packed, or to what `unpack` gives, don't reach it
    _bias: Any = None  # what was given: writes to it count

    def unpack(self) -> Any:
        """(weight, bias)."""
        return _copied(self.weight), self._bias

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # type: ignore[override]  # what isinstance and pickles are told, as in PyTorch
        return torch.ScriptObject

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copyreg.__newobj__, (torch.ScriptObject,), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> Any:
        """The state and the name of the class of C++, as PyTorch has them; `states` reads them."""
        return self.state(), self._type()

    def state(self) -> Any:
        """What files have of it, as PyTorch's do."""
        return self.unpack()

    def __deepcopy__(self, memo: Any) -> Any:
        return self  # its weight doesn't change, and copies share their bias in PyTorch

    def __repr__(self) -> str:
        return f"<torch.ScriptObject of {self.kind}>"

    def _type(self) -> str:
        return f"__torch__.torch.classes.{self.kind}"


def _copied(weight: Any) -> Any:
    return weight.clone(memory_format=torch.preserve_format)


def weights_of(rows: Any, weight: Any, bias: Any, groups: int = 1) -> Weights:
    """What kernels read of a quantized weight, whose integers are `rows`: (output channels, all else)."""
    scales, zeros = scales_and_zeros(weight)
    flat = rows.reshape(rows.shape[0], math.prod(rows.shape[1:]))
    sums, whole = flat.sum(1, dtype=torch.int32), None
    if bool(zeros.any()):
        whole = zeros.to(torch.int32).expand(rows.shape[0]).contiguous()
        sums = sums - whole * flat.shape[1]
    columns = flat.shape[0] // groups
    return Weights(packed_rows(flat, groups), flat.shape[1], columns, groups, scales.contiguous(), sums, _numbers(bias), whole)


def weights_by_channel(integers: Any, weight: Any, bias: Any) -> Weights:
    """The same of a weight (channels, 1, taps...) of which each channel has its own."""
    scales, zeros = scales_and_zeros(weight)
    taps = (integers.flatten(1).to(torch.int16) - zeros.to(torch.int16).reshape(-1, 1)).t().contiguous()
    sums = taps.sum(0, dtype=torch.int32)
    k, channels = taps.shape
    return Weights(taps, k, channels, 1, scales.contiguous(), sums, _numbers(bias), None, depthwise=True)


def _numbers(bias: Any) -> Any:
    return None if bias is None else bias.detach().to(torch.float32).contiguous()


def scales_and_zeros(weight: Any) -> tuple[Any, Any]:
    """The scales (float32) and zero points (float32) of a quantized weight: one, or one for each index of its axis."""
    quantizer = weight._quantizer
    if isinstance(quantizer, PerTensor):
        return torch.tensor([quantizer.scale], dtype=torch.float32), torch.tensor([quantizer.zero_point], dtype=torch.float32)
    return quantizer.scales.to(torch.float32), quantizer.zero_points.to(torch.float32)


class LinearParams(PackedParams):
    """A quantized weight (out, in) of qint8 and a float bias (out) or None."""

    kind = "quantized.LinearPackedParamsBase"

    def __init__(self, weight: Any, bias: Any) -> None:
        self.weight, self._bias = _copied(weight), bias

    def bias(self) -> Any:
        """The bias, or None."""
        return self._bias

    @kept
    def rows(self) -> Weights:
        """What kernels read."""
        return weights_of(codes(self.weight), self.weight, self._bias)  # type: ignore[attr-defined]


class HalfLinearParams(PackedParams):
    """A weight (out, in) rounded to float16 and a float bias (out) or None."""

    kind = "quantized.LinearPackedParamsBase"

    def __init__(self, weight: Any, bias: Any) -> None:
        largest = torch.finfo(torch.float16).max
        self.weight = weight.detach().clamp(-largest, largest).to(torch.float16)
        self._bias = bias

    def unpack(self) -> tuple[Any, Any]:
        """(weight in float32, bias)."""
        return self.weight.to(torch.float32), self._bias

    def bias(self) -> Any:
        """The bias, or None."""
        return self._bias


class ConvParams(PackedParams):
    """A quantized weight of a convolution, a float bias or None, and the numbers of it, one for each dimension."""

    def __init__(
        self,
        dims: int,
        weight: Any,
        bias: Any,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
        output_padding: Sequence[int] = (),
        transposed: bool = False,
    ) -> None:
        self.dims, self.weight, self._bias = dims, _copied(weight), bias
        self._stride, self._padding, self._dilation = list(stride), list(padding), list(dilation)
        self._output_padding = list(output_padding) or [0] * dims
        self._groups, self._transposed = groups, transposed
        self.kind = f"quantized.Conv{max(dims, 2)}dPackedParamsBase"
        self.geometries: dict[Any, Any] = {}  # what calls need, by the layout of their input

    def bias(self) -> Any:
        """The bias, or None."""
        return self._bias

    def stride(self) -> list[int]:
        """The stride along each dimension; padding and the others likewise."""
        return self._stride

    def padding(self) -> list[int]:
        """The padding along each dimension."""
        return self._padding

    def output_padding(self) -> list[int]:
        """The output padding along each dimension."""
        return self._output_padding

    def dilation(self) -> list[int]:
        """The dilation along each dimension."""
        return self._dilation

    def groups(self) -> int:
        """The number of groups."""
        return self._groups

    def transpose(self) -> int:
        """1 if the convolution is a transposed one, else 0."""
        return int(self._transposed)

    @kept
    def along_one(self) -> ConvParams:
        """The same for one dimension: files have such a convolution as one of two."""
        ends = [each[1:] for each in (self._stride, self._padding, self._dilation)]
        weight, more = self.weight.squeeze(2), (self._output_padding[1:], self._transposed)
        return ConvParams(1, weight, self._bias, ends[0], ends[1], ends[2], self._groups, *more)

    def state(self) -> Any:
        """Version 2: the numbers in a vector, the weight, the bias. A convolution of one dimension is one of two."""
        one, none = ([1], [0]) if self.dims == 1 else ([], [])
        numbers = [len(one) + self.dims, *one, *self._stride, *none, *self._padding, *one, *self._dilation]
        numbers += [*none, *self._output_padding, self._groups, int(self._transposed)]
        weight = self.weight.unsqueeze(2) if one else self.weight
        return "2", [torch.tensor(numbers, dtype=torch.int16), weight], [self._bias]

    @property
    def channels(self) -> int:
        """Channels of the input."""
        return self.weight.shape[0] if self._transposed else self.weight.shape[1] * self._groups  # type: ignore[no-any-return]

    @kept
    def rows(self) -> Weights:
        """What kernels read: of each output channel the taps, each with all its channels."""
        integers = codes(self.weight)
        if self._transposed:
            taps = integers.shape[2:]
            turned = integers.reshape(self._groups, -1, integers.shape[1], *taps).transpose(1, 2)  # type: ignore[attr-defined]
            integers = turned.reshape(-1, turned.shape[2], *taps).flip(list(range(2, 2 + self.dims)))
        zeros = scales_and_zeros(self.weight)[1]
        if 1 < self._groups == integers.shape[0] and integers.shape[1] == 1 and bool((zeros.abs() < 1 << 14).all()):
            return weights_by_channel(integers, self.weight, self._bias)
        integers, groups = _merged(integers, self._groups, zeros)
        return weights_of(integers.movedim(1, -1), self.weight, self._bias, groups)  # type: ignore[attr-defined]


def _merged(integers: Any, groups: int, zeros: Any) -> tuple[Any, int]:
    """The integers (output channels, channels of a group, ...) with neighbouring groups made one, by zero points, where they have
    few channels: what is multiplied in vain costs less than handling few bytes at a time. And the number of groups then.
    """
    columns, channels = integers.shape[0] // groups, integers.shape[1]
    count = next(n for n in range(1, groups + 1) if groups % n == 0 and (n * channels >= FEW_CHANNELS or n == groups))
    if count == 1:
        return integers, groups
    whole = integers.new_empty(groups // count, count, columns, count, *integers.shape[1:])
    nothing = zeros.to(integers.dtype).expand(integers.shape[0]).reshape(groups // count, count, columns)
    whole.copy_(nothing.reshape(*nothing.shape, *[1] * (whole.dim() - 3)))
    each = integers.reshape(groups // count, count, columns, *integers.shape[1:])
    for n in range(count):
        whole[:, n, :, n] = each[:, n]
    return whole.reshape(integers.shape[0], count * channels, *integers.shape[2:]), groups // count


class EmbeddingParams(PackedParams):
    """A table quantized by rows with zero points that are floats: quint8 or quint4x2."""

    kind = "quantized.EmbeddingPackedParamsBase"

    def __init__(self, weight: Any) -> None:
        self.weight = _copied(weight)

    def unpack(self) -> Any:
        """The table."""
        return _copied(self.weight)

    def bit_rate(self) -> int:
        """8 or 4."""
        return 4 if self.weight.dtype is torch.quint4x2 else 8

    def version(self) -> int:
        """The version of the format."""
        return 1

    def state(self) -> Any:
        """The version, the table, and how many bits its integers have."""
        return self.version(), [self.weight], [], [self.bit_rate()]


class CellParams(PackedParams):
    """The weights of a recurrent cell: packed ones of the input and the hidden state, and biases."""

    kind = "rnn.CellParamsBase"

    def __init__(self, ih: Any, hh: Any, bias_ih: Any, bias_hh: Any, reduce_range: bool) -> None:
        self.ih, self.hh, self.bias_ih, self.bias_hh, self.reduce_range = ih, hh, bias_ih, bias_hh, reduce_range

    def state(self) -> Any:
        """The kind of the products, biases, whether ranges lack a bit, and the products."""
        products = [self.ih, self.hh]
        if isinstance(self.ih, HalfLinearParams):
            return "quantized_fp16", [], [], [], products
        return "quantized_dynamic", [self.bias_ih, self.bias_hh], [], [int(self.reduce_range)], products
