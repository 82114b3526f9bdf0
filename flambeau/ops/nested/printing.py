"""How nested tensors print: PyTorch's text. Stands on core.tensor.printing and tensor."""

from __future__ import annotations

from typing import Any

from flambeau.core.modes.modes import no_grad
from flambeau.core.tensor.printing import graph_suffixes
from flambeau.ops.nested.tensor import Jagged, Strided, pieces, rule_of_jagged, rule_of_strided


@rule_of_strided("__repr__", "__str__")
def strided_repr(x: Strided, **_: Any) -> str:
    """nested_tensor([...]) with the text of each tensor."""

    def indented(text: str) -> str:
        return "\n".join(f"  {line}" for line in text.split("\n"))

    with no_grad():
        shown = ",\n".join(indented(repr(p.detach())) for p in pieces(x))
    suffix = "".join(f", {each}" for each in graph_suffixes(x))
    return f"nested_tensor([\n{shown}\n]{suffix})"


@rule_of_jagged("__repr__", "__str__")
def jagged_repr(x: Jagged, **_: Any) -> str:
    """NestedTensor(size=..., offsets=...)."""
    graph = ""
    if x.requires_grad:
        graph = ", requires_grad=True" if x.grad_fn is None else f", grad_fn={x.grad_fn}"
    shape = tuple(x.shape)
    return f"NestedTensor(size={shape}, offsets={x._rows.offsets}{graph}, contiguous={x.is_contiguous()})"


@rule_of_strided("__format__")
@rule_of_jagged("__format__")
def formatted(x: Any, specification: str) -> str:
    """The same text."""
    return repr(x)


Strided.__repr__ = Strided.__str__ = strided_repr  # type: ignore[method-assign]
Jagged.__repr__ = Jagged.__str__ = jagged_repr  # type: ignore[method-assign]
