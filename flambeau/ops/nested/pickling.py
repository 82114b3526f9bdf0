"""Nested tensors in pickles and files, in PyTorch's format. Stands on construction; core.tensor.rebuild is its like for dense
ones."""

from __future__ import annotations

from typing import Any

from flambeau.base.naming import called, findable
from flambeau.core.tensor.rebuild import refuse_graph
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.construction import _nested_view_from_buffer, jagged_from_rows
from flambeau.ops.nested.strided import sizes, starts, strides
from flambeau.ops.nested.tensor import Jagged, Strided, _shown, rule_of_jagged, rule_of_strided


@rule_of_strided("__reduce_ex__", "__reduce__")
def reduce_strided(x: Strided, protocol: int = 2) -> tuple[Any, ...]:
    """The (function, arguments) by which pickle writes a strided nested tensor."""
    refuse_graph(x)
    return findable(rebuild_nested_tensor), (x._entries.detach(), sizes(x), strides(x), starts(x))


@called("_utils", "_rebuild_nested_tensor")
def rebuild_nested_tensor(buffer: Tensor, sizes: Tensor, strides: Tensor, storage_offsets: Tensor) -> Strided:
    """A strided nested tensor from the parts that a file holds; parts that don't fit together are refused."""
    if not all(isinstance(part, Tensor) for part in (buffer, sizes, strides, storage_offsets)):
        raise TypeError("a nested tensor in a file must be made of tensors")
    return _nested_view_from_buffer(buffer, sizes, strides, storage_offsets)


@rule_of_jagged("__reduce_ex__", "__reduce__")
def reduce_jagged(x: Jagged, protocol: int = 2) -> tuple[Any, ...]:
    """The (function, arguments) by which pickle writes a jagged nested tensor."""
    refuse_graph(x)
    state = {
        "values": x._entries.detach(),
        "offsets": x._rows.offsets,
        "lengths": x._rows.lengths,
        "_ragged_idx": x._ragged_idx,
        "_metadata_cache": x._rows.known,
        "requires_grad": x.requires_grad,
    }
    return findable(rebuild_njt), (state,)


@called("nested._internal.nested_tensor", "_rebuild_njt")
def rebuild_njt(constructor_kwargs: dict[str, Any]) -> Jagged:
    """A jagged nested tensor from the parts that a file holds; rows that lie outside of the values are refused."""
    given = dict(constructor_kwargs)
    known = given.get("_metadata_cache") or {}
    made = jagged_from_rows(
        given["values"],
        given["offsets"],
        given.get("lengths"),
        given.get("_ragged_idx", 1),
        _shown(known.get("min_seqlen")),
        _shown(known.get("max_seqlen")),
    )
    return made.requires_grad_() if given.get("requires_grad") else made
