"""Nested tensors from lists, padded batches and packed rows. Stands on tensor."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from flambeau.base.dtype import bool_, int64
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.tensor import Jagged, Ragged, Strided, first_nested, jagged, packed, renamed, strided, view_of

# ---------------------------------------------------------------- torch.strided, view_of


def from_list(tensors: Sequence[Tensor], dtype: Any = None, device: Any = None, pin_memory: bool | None = None) -> Strided:
    """A nested tensor with copies of these, in the graph. RuntimeError unless all have the same number of dimensions."""
    if first_nested(tensors) is not None:
        raise RuntimeError("We do not accept nested tensors as input to nested tensors")
    for place, t in enumerate(tensors):
        before = tensors[max(place - 1, 0)]
        if t._layout.ndim != before._layout.ndim:
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{t._layout.ndim} for Tensor at index {place} and dimension {before._layout.ndim} for Tensor at index "
                f"{place - 1}."
            )
    if not tensors:
        return strided(NAMESPACE["empty"](0, dtype=dtype, device=device), [])
    made = packed(
        [
            t.to(device=tensors[0].device if device is None else device, dtype=tensors[0].dtype if dtype is None else dtype)
            for t in tensors
        ]
    )
    made = renamed(made, "NestedTensorFromTensorListBackward0")
    return made.like(made._entries.pin_memory()) if pin_memory else made  # type: ignore[no-any-return]


def _nested_tensor_from_tensor_list(
    list: Sequence[Tensor], dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool | None = None
) -> Strided:
    """A strided nested tensor with copies of these."""
    return from_list(list, dtype, device, pin_memory)


def from_dense(tensor: Tensor) -> Strided:
    """The slices of a contiguous tensor along its first dimension; a view of it."""
    shape = tensor._layout.shape
    made = renamed(strided(tensor.view(-1), [tuple(shape[1:])] * shape[0]), "NestedViewFromBufferBackward0")
    return view_of(made, tensor)  # type: ignore[no-any-return]


def _left_aligned(mask: Tensor) -> bool:
    return not bool((~mask[:, :-1] & mask[:, 1:]).any())


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether each row of the mask (batch, length) begins with what it keeps."""
    return _left_aligned(mask)


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Strided:
    """The rows of a padded batch (batch, length, width) that the mask (batch, length) keeps."""
    if mask.dtype != bool_:
        raise RuntimeError(f"Expected mask to be of ScalarType Bool, but got {_scalar_type(mask.dtype)} instead.")
    if mask._layout.ndim != 2:
        raise RuntimeError("Padding mask should be 2D")
    if t._layout.ndim != 3:
        raise RuntimeError("Input should be a 3D tensor, N * L * D")
    if t._layout.shape[:2] != mask._layout.shape:
        raise RuntimeError("Mask size should match input size")
    if mask_check and not _left_aligned(mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    lengths = mask.sum(1).tolist()
    return renamed(packed([row[:n] for row, n in zip(t.unbind(0), lengths)]), "NestedTensorFromMaskBackward0")  # type: ignore[no-any-return]


def _scalar_type(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    return {
        "float32": "Float",
        "float64": "Double",
        "int64": "Long",
        "int32": "Int",
        "uint8": "Byte",
        "float16": "Half",
        "bfloat16": "BFloat16",
    }.get(name, name)


def _nested_from_padded(padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool = False) -> Strided:
    """The corners of a padded batch that have the sizes of `cpu_nested_shape_example` (batch, dimensions)."""
    if fuse_transform_0213:
        padded = padded.permute(0, 2, 1, 3)
        padded = padded.reshape(*padded._layout.shape[:2], -1)
    parts = [row[tuple(slice(n) for n in size)] for row, size in zip(padded.unbind(0), cpu_nested_shape_example.tolist())]
    return renamed(packed(parts), "NestedFromPaddedBackward0")  # type: ignore[no-any-return]


def _nested_from_padded_and_nested_example(padded: Tensor, nt_example: Strided) -> Strided:
    """The corners of a padded batch that have the sizes of another nested tensor."""
    return renamed(_nested_from_padded(padded, nt_example._nested_tensor_size()), "NestedFromPaddedAndNestedExampleBackward0")  # type: ignore[no-any-return]


def _nested_compute_contiguous_strides_offsets(nested_size: Tensor) -> tuple[Tensor, Tensor]:
    """The strides of contiguous tensors of these sizes, and where each begins if they lie one after the other."""
    made = strided(nested_size.new_empty(0), [tuple(size) for size in nested_size.tolist()])
    return nested_size.new_tensor(made._strides), nested_size.new_tensor(made._starts)


def _nested_view_from_buffer(self: Tensor, nested_size: Tensor, nested_strides: Tensor, offsets: Tensor) -> Strided:
    """The tensors of these sizes and strides that begin at `offsets` in a buffer of one dimension; a view of it."""
    if isinstance(self, Strided):
        raise RuntimeError("Can only a create Nested Tensor from Tensor buffer")
    if self._layout.ndim != 1:
        raise RuntimeError("The input buffer must be flat")
    if (
        nested_size._layout.ndim != 2
        or nested_strides._layout.shape != nested_size._layout.shape
        or tuple(offsets._layout.shape) != (nested_size._layout.shape[0],)
    ):
        raise RuntimeError(
            "_nested_view_from_buffer(): sizes and strides must be of shape (tensors, dimensions), and offsets of "
            "shape "
            f"(tensors,), not {tuple(nested_size.shape)}, {tuple(nested_strides.shape)} and {tuple(offsets.shape)}"
        )
    sizes, steps, starts = nested_size.tolist(), nested_strides.tolist(), offsets.tolist()
    for size, step, start in zip(sizes, steps, starts):
        last = start + sum((n - 1) * s for n, s in zip(size, step)) if all(size) else start - 1
        if start < 0 or min(size + step, default=0) < 0 or last >= self._layout.numel:
            raise RuntimeError(
                f"a tensor of size {size} and strides {step} that begins at {start} lies outside a buffer of "
                f"{self._layout.numel} elements"
            )
    made = strided(self.alias(), [tuple(s) for s in sizes], [tuple(s) for s in steps], starts)
    return view_of(renamed(made, "NestedViewFromBufferBackward0"), self)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- torch.jagged


def jagged_from_list(tensors: Sequence[Tensor], offsets: Tensor | None = None, dtype: Any = None, device: Any = None) -> Jagged:
    """A jagged tensor with copies of these, in the graph; they differ in one dimension at most."""
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if len({t.dtype for t in tensors}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dtype")
    if len({t.device for t in tensors}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must be on the same device")
    if len({t._layout.ndim for t in tensors}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dim")
    shapes = [t._layout.shape for t in tensors]
    ndim = len(shapes[0])
    if ndim == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    ragged = [d for d in range(ndim) if len({shape[d] for shape in shapes}) > 1] or [0]
    if len(ragged) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged "
            "layout only "
            "allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    along = ragged[0]
    values = NAMESPACE["cat"](list(tensors), along).to(dtype=dtype, device=device)
    lengths = [shape[along] for shape in shapes]
    if offsets is None:
        offsets = values.new_tensor([0, *accumulate(lengths)], dtype=int64)
    rows = Ragged(offsets, None, min(lengths), max(lengths))
    return renamed(jagged(values, rows, along + 1), "CatBackward0")  # type: ignore[no-any-return]


def jagged_from_dense(tensor: Tensor, dtype: Any = None, device: Any = None) -> Jagged:
    """The slices of a tensor (batch, length, ...) along its first dimension; a view of it where it is contiguous."""
    count, length = tensor._layout.shape[:2]
    offsets = (
        NAMESPACE["arange"](0, count * length + 1, length, device=tensor.device)
        if length
        else tensor.new_zeros(count + 1, dtype=int64)
    )
    flat = tensor.reshape((count * length, *tensor._layout.shape[2:]))
    values = flat.to(dtype=dtype, device=device)
    made = jagged(values, Ragged(offsets, None, length, length))
    return view_of(made, tensor) if values is flat and flat._is_view() else made  # type: ignore[no-any-return]


def jagged_from_rows(
    values: Tensor, offsets: Tensor | None, lengths: Tensor | None, along: int, least: int | None = None, most: int | None = None
) -> Jagged:
    """Rows packed in `values`; a view of it. offsets: where each begins, and the last ends; lengths: where there are holes."""
    for name, given in (("offsets", offsets), ("lengths", lengths)):
        if given is not None and not (given._layout.ndim == 1 and not given.dtype.is_floating_point):
            raise RuntimeError(f"nested_tensor_from_jagged(): {name} must be integers of one dimension")
    if offsets is None:
        offsets = NAMESPACE["cat"]([lengths.new_zeros(1), lengths.cumsum(0)])  # type: ignore[union-attr]
        lengths = None
    rows = Ragged(offsets, lengths, least, most)
    extent = values._layout.shape[along - 1]
    for start, length in rows.bounds:
        if length < 0 or start < 0 or start + length > extent:
            raise RuntimeError(f"a row of length {length} that begins at {start} lies outside values of {extent} rows")

    def view(base: Tensor) -> Jagged:
        return renamed(jagged(base.alias(), rows, along), "NestedViewFromJaggedBackward0")  # type: ignore[no-any-return]

    return view_of(view(values), values, view)  # type: ignore[no-any-return]


def jagged_from_narrow(tensor: Tensor, starts: Tensor, lengths: Tensor) -> Jagged:
    """Of each slice of a tensor (batch, length, ...) the rows from `starts` on, `lengths` of them; a view."""
    count, extent = tensor._layout.shape[:2]
    begins = (NAMESPACE["arange"](count, device=starts.device) * extent + starts).to(int64)
    offsets = NAMESPACE["cat"]([begins, (begins[-1:] + lengths[-1:])])
    values = tensor.reshape((count * extent, *tensor._layout.shape[2:]))
    kept = lengths.to(int64)
    if bool((offsets[:-1] + kept == offsets[1:]).all()):  # no holes
        first = int(offsets[0])
        made = jagged(values[first : int(offsets[-1])], Ragged(offsets - first))
    else:
        made = jagged(values, Ragged(offsets, kept))
    return view_of(made, tensor) if values._is_view() else made  # type: ignore[no-any-return]
