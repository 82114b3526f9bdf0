"""The jagged nested tensor under PyTorch's names. Stands on ops.nested."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from flambeau.base.symbolic.nested_int import nested_int
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.construction import jagged_from_dense, jagged_from_narrow, jagged_from_rows
from flambeau.ops.nested.construction import jagged_from_list as _from_list
from flambeau.ops.nested.jagged import values as _values
from flambeau.ops.nested.tensor import Jagged as NestedTensor
from flambeau.ops.nested.tensor import Ragged

__all__ = [
    "NestedTensor",
    "_tensor_symint_registry",
    "buffer_from_jagged",
    "get_tensor_symint",
    "jagged_from_list",
    "jagged_from_tensor_and_lengths",
    "nested_from_padded",
    "nested_view_from_values_offsets",
    "nested_view_from_values_offsets_lengths",
]


class _SizesOfRows(MutableMapping[Tensor, Any]):
    """The sizes that stand for the lengths which tensors of offsets or lengths hold, by the tensors.

    An entry of one tensor is written for another that holds the same lengths: both then stand for equal sizes.
    """

    def __getitem__(self, rows: Tensor) -> Any:
        if id(rows) not in Ragged._numbers:
            raise KeyError(rows)
        return nested_int(Ragged.number(rows))

    def __setitem__(self, rows: Tensor, size: Any) -> None:
        Ragged.give_number(rows, size.node.nested_int())

    def __delitem__(self, rows: Tensor) -> None:
        if Ragged._numbers.pop(id(rows), None) is None:
            raise KeyError(rows)

    def __iter__(self) -> Iterator[Tensor]:
        return (rows for rows in [seen() for seen, _ in Ragged._numbers.values()] if rows is not None)

    def __len__(self) -> int:
        return len(Ragged._numbers)


_tensor_symint_registry = _SizesOfRows()


def get_tensor_symint(tensor: Tensor, *, coeff: int = 1) -> Any:
    """The size that stands for the lengths which a tensor of offsets or lengths holds."""
    return nested_int(Ragged.number(tensor), coeff)


def buffer_from_jagged(jagged: Any) -> Tensor:
    """The rows of all tensors, in the graph."""
    return _values(jagged)


def jagged_from_list(tensors: Any, offsets: Tensor | None, dtype: Any = None, device: Any = None) -> tuple[Any, Tensor]:
    """A jagged tensor with copies of a list of tensors, and its offsets."""
    made = _from_list(tensors, offsets, dtype, device)
    return made, made._rows.offsets


def jagged_from_tensor_and_lengths(tensor: Tensor, starts: Tensor, lengths: Tensor) -> tuple[Any, Tensor, Tensor | None]:
    """Of each slice of a tensor the rows from `starts` on, `lengths` of them; with its offsets and lengths."""
    made = jagged_from_narrow(tensor, starts, lengths)
    return made, made._rows.offsets, made._rows.lengths


def nested_view_from_values_offsets(
    values: Tensor, offsets: Tensor, ragged_idx: int = 1, min_seqlen: int | None = None, max_seqlen: int | None = None
) -> Any:
    """A jagged tensor over rows packed in `values`; a view of it."""
    return jagged_from_rows(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(
    values: Tensor,
    offsets: Tensor,
    lengths: Tensor,
    ragged_idx: int = 1,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Any:
    """The same, with holes between the rows."""
    return jagged_from_rows(values, offsets, lengths, ragged_idx, min_seqlen, max_seqlen)


def nested_from_padded(
    padded: Tensor,
    offsets: Tensor,
    ragged_idx: int = 1,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
    sum_S: Any = None,
) -> Any:
    """The rows of a padded batch (batch, length, ...) that `offsets` keeps."""
    lengths = offsets.diff()
    inside = jagged_from_dense(padded)
    kept = (NAMESPACE["arange"](padded.shape[1]) < lengths.unsqueeze(1)).reshape(-1)
    return jagged_from_rows(inside._entries[kept], offsets, None, ragged_idx, min_seqlen, max_seqlen)
