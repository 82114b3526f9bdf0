"""Sequences of different lengths: padding them to one tensor and packing them without padding.

A PackedSequence holds the time steps one after another, each with only the sequences that are long enough, the
longest sequence first. Used by `nn.modules.rnn`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import flambeau
from flambeau.base.layout import Layout
from flambeau.core.modes.modes import active, local
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import copy_raw

PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
PackedSequence_.__annotations__ = {
    "data": Tensor, "batch_sizes": Tensor, "sorted_indices": "Tensor | None", "unsorted_indices": "Tensor | None",
}  # fmt: skip


class PackedSequence(PackedSequence_):
    """data (rows, *), batch_sizes (T) int64 on the CPU, and how the sequences were sorted by length.

    Made by `pack_padded_sequence` and `pack_sequence`.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            # The old form: data is itself (data, batch_sizes).
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("data must be a (data, batch_sizes) pair when batch_sizes is None")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. "
                "Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence "
                "and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """data as `Tensor.to`; the indices follow its device. Returns self where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if index is None else index.to(data.device) for index in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self) -> PackedSequence:
        """Every tensor in page-locked memory."""
        pinned = [None if tensor is None else tensor.pin_memory() for tensor in (self[0], self[2], self[3])]
        return type(self)(pinned[0], self.batch_sizes, *pinned[1:])

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """`to` a CUDA device."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """`to` the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    def double(self) -> PackedSequence:
        """data as float64."""
        return self.to(dtype=flambeau.double)

    def float(self) -> PackedSequence:
        """data as float32."""
        return self.to(dtype=flambeau.float)

    def half(self) -> PackedSequence:
        """data as float16."""
        return self.to(dtype=flambeau.half)

    def long(self) -> PackedSequence:
        """data as int64."""
        return self.to(dtype=flambeau.long)

    def int(self) -> PackedSequence:
        """data as int32."""
        return self.to(dtype=flambeau.int)

    def short(self) -> PackedSequence:
        """data as int16."""
        return self.to(dtype=flambeau.short)

    def char(self) -> PackedSequence:
        """data as int8."""
        return self.to(dtype=flambeau.int8)

    def byte(self) -> PackedSequence:
        """data as uint8."""
        return self.to(dtype=flambeau.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation (N) that undoes another."""
    if permutation is None:
        return None
    positions = flambeau.arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return flambeau.empty_like(permutation).scatter_(0, permutation, positions)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch.

    Args:
        input: (T, B, *), or (B, T, *) with batch_first.
        lengths: the length of each sequence, on the CPU.
        enforce_sorted: whether they already come in falling order; otherwise they are sorted here.
    """
    if not isinstance(lengths, Tensor):
        lengths = flambeau.as_tensor(lengths, dtype=flambeau.int64, device="cpu")
    else:
        lengths = lengths.to(dtype=flambeau.int64)
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = flambeau.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    data, batch_sizes = _pack(input, lengths)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def _pack(input: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(data, batch_sizes) of (T, B, *) with lengths in falling order."""
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if lengths.dim() != 1 or lengths.device.type != "cpu":
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device.type} Long tensor"
        )
    if lengths.size(0) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.size(0)} (batch_size={input.size(1)})"
        )
    sizes = lengths.tolist()
    if sizes[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if sizes != sorted(sizes, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    alive = flambeau.arange(sizes[0]).unsqueeze(1) < lengths
    batch_sizes = alive.sum(1)
    # PyTorch packs what there is of a sequence that is shorter than its length says
    steps, batch = input.shape[:2]
    rows = alive[:steps].reshape(-1).nonzero().view(-1)
    if not input.is_contiguous() and input.transpose(0, 1).is_contiguous():
        rows = rows % batch * steps + flambeau.div(rows, batch, rounding_mode="floor")
        input = input.transpose(0, 1)
    return input.flatten(0, 1).index_select(0, rows), batch_sizes


def _fitting(data: Tensor, sizes: list[int]) -> Tensor:
    """As many rows of data as the batch sizes count. Raises RuntimeError in PyTorch's words if there are fewer."""
    row = start = 0
    for step in range(1, len(sizes) + 1):
        if step == len(sizes) or sizes[step] != sizes[start]:  # a block of steps with the same number of sequences
            alive, count = sizes[start], step - start
            data[row : row + alive * count].reshape(count, alive, *data.shape[1:])
            row, start = row + alive * count, step
    return data[:row]


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The inverse of `pack_padded_sequence`: ((T, B, *) or (B, T, *), lengths (B))."""
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length "
                "of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    data, sizes = sequence.data, sequence.batch_sizes
    alive = flambeau.arange(int(sizes[0])) < sizes.unsqueeze(1)
    lengths = alive.sum(0)
    rows = alive.view(-1).nonzero().view(-1)
    batch = alive.size(1)
    if rows.numel() != data.size(0):
        data = _fitting(data, sizes.tolist())
    padded = data.new_full((longest * batch, *data.shape[1:]), padding_value).index_copy(0, rows, data)
    padded = padded.unflatten(0, (longest, batch))
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        order = sequence.unsorted_indices
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | list[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences (L_i, *) into (T, B, *), or (B, T, *) with batch_first, T being the longest length."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, "__iter__"):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = tuple(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max([sequence.size(0) for sequence in sequences])
    rest = sequences[0].shape[1:]
    plain = [x.__class__ is Tensor and x._layout.shape[1:] == rest and (x._node is None or not local.grad) for x in sequences]
    if not active.count and all(plain):
        return _padded(sequences, longest, batch_first, padding_value, padding_side == "left")
    rows = []
    for sequence in sequences:
        missing = longest - sequence.size(0)
        if missing:
            filler = sequence.new_full((missing, *sequence.shape[1:]), padding_value)
            sequence = flambeau.cat([sequence, filler] if padding_side == "right" else [filler, sequence])
        rows.append(sequence)
    return flambeau.stack(rows, 0 if batch_first else 1)


def _padded(sequences: tuple[Tensor, ...], longest: int, batch_first: bool, value: float, left: bool) -> Tensor:
    """The sequences copied to their places in a tensor of the padding's value."""
    count, rest = len(sequences), sequences[0].shape[1:]
    made = sequences[0].new_full((count, longest, *rest) if batch_first else (longest, count, *rest), value)
    along, step, *inner = made._layout.strides if not batch_first else (*made._layout.strides[1::-1], *made._layout.strides[2:])
    dtype, device = made._layout.dtype, made._layout.device
    for i, sequence in enumerate(sequences):
        shape = sequence._layout.shape
        place = Layout.of(shape, (along, *inner), dtype, device)
        copy_raw(tensor_from(made._storage, i * step + (longest - shape[0]) * along * left, place), sequence)
    return made


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences (L_i, *) of a padded batch."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[: int(length)] for sequence, length in zip(padded_sequences, lengths)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_i, *); in falling order of length if enforce_sorted."""
    lengths = flambeau.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The inverse of `pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
