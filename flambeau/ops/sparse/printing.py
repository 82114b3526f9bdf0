"""How sparse tensors print: PyTorch's text, character for character. Stands on core.tensor.printing and tensor."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.printing import graph_suffixes, is_plain, tensor_body, with_suffixes
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.sparse.tensor import SparseCoo, SparseTensor, rule

INDENT = len("tensor(")


def _part(name: str, part: Tensor) -> str:
    opening = f"{name}=tensor("
    if part._layout.device.type == "meta":
        return f"{opening}..., size={tuple(part._layout.shape)})"
    size = "" if part._layout.numel else f", size={tuple(part._layout.shape)}"
    return f"{opening}{tensor_body(part, INDENT + len(opening))}{size})"


def sparse_repr(x: Any) -> str:
    """repr() of a sparse tensor."""
    entries = x._entries
    if isinstance(x, SparseCoo):
        parts, count = [("indices", x._places)], entries._layout.shape[0]
    else:
        names = ("crow_indices", "col_indices") if x.by_rows else ("ccol_indices", "row_indices")
        parts, count = list(zip(names, (x._bounds, x._others))), x._others._layout.shape[-1]
    text = "tensor(" + (",\n" + " " * INDENT).join(_part(*part) for part in [*parts, ("values", entries)])
    device = x._layout.device
    suffixes = [f"device='{device}'"] if device.type != "cpu" else []
    suffixes.append(f"size={tuple(x._layout.shape)}")
    if device.type != "meta":
        suffixes.append(f"nnz={count}")
    if device.type != "meta" and not is_plain(x._layout.dtype):
        suffixes.append(f"dtype={x._layout.dtype}")
    suffixes.append(f"layout={x.layout}")
    return with_suffixes(text, suffixes + graph_suffixes(x), INDENT, force_newline=isinstance(x, SparseCoo))


@rule("__repr__", "__str__")
def _repr(x: Any, **_: Any) -> str:
    shown = sparse_repr(x)
    return "Parameter containing:\n" + shown if getattr(x, "_is_param", False) else shown


@rule("__format__")
def _format(x: Any, specification: str) -> str:
    return _repr(x)


SparseTensor.__repr__ = SparseTensor.__str__ = _repr
