"""Jagged nested tensors: sums and other reductions. Stands on jagged.

Along dimensions that aren't ragged the values are reduced and the rows stay; along the rows each tensor is reduced by itself,
which gives a dense result; along batch and rows the values are reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.geometry import wrap_dims
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nested.jagged import contiguous
from flambeau.ops.nested.tensor import Jagged, jagged, renamed, row_views, rule_of_jagged

rule = rule_of_jagged
NAMES = "sum mean amax amin max min prod any all argmax argmin var std logsumexp norm count_nonzero nansum nanmean".split()
#: Those whose result along the rows PyTorch has; of others it raises.
ALONG_ROWS = frozenset("sum mean amax amin max min prod any all argmax argmin".split())


def _reduction(name: str) -> None:
    method: Callable[..., Any] = getattr(Tensor, name)

    @rule(name)
    def reduce(x: Jagged, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        if isinstance(dim, Tensor):
            raise x.refused(name, (x, dim))
        if name not in ALONG_ROWS:
            raise NotImplementedError(
                {"var": "aten.var.correction", "std": "aten.std.correction", "norm": "aten.norm.ScalarOpt_dim"}.get(
                    name, f"aten.{name}.default"
                )
            )
        if dim is None or (isinstance(dim, (tuple, list)) and not dim):
            whole = contiguous(x) if x._rows.lengths is not None else x
            return method(whole._entries, **kwargs)
        dims = wrap_dims([dim] if isinstance(dim, int) else dim, x._layout.ndim)
        rows, batch = x._ragged_idx in dims, 0 in dims
        if batch and not rows:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
            )
        if rows and not batch and len(dims) > 1:
            raise RuntimeError(f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors")
        if rows and batch:
            return _of_all(x, dims, keepdim, kwargs)
        if rows:
            return _of_rows(x, keepdim, kwargs)
        inner = [d - 1 for d in dims]
        made = method(x._entries, inner[0] if isinstance(dim, int) else inner, keepdim, **kwargs)
        at = x._ragged_idx if keepdim else x._ragged_idx - sum(d < x._ragged_idx for d in dims)
        if isinstance(made, Tensor):
            return renamed(jagged(made, x._rows, at), f"{name.capitalize()}Backward1")
        return type(made)([jagged(each, x._rows, at) for each in made])

    def _of_all(x: Jagged, dims: tuple[int, ...], keepdim: bool, kwargs: dict[str, Any]) -> Any:
        _refuse_holes(x)
        inner = [d - 1 for d in dims if d]
        made = method(x._entries, inner[0] if len(inner) == 1 else inner, keepdim, **kwargs)
        return made.unsqueeze(0) if keepdim and isinstance(made, Tensor) else made

    def _refuse_holes(x: Jagged) -> None:
        if x._rows.lengths is not None:
            raise RuntimeError(
                f"{name}(): reducing across the ragged dimension is not supported for non-contiguous nested tensors with holes"
            )

    def _of_rows(x: Jagged, keepdim: bool, kwargs: dict[str, Any]) -> Any:
        _refuse_holes(x)
        parts = [method(row, x._ragged_idx - 1, keepdim, **kwargs) for row in row_views(x)]
        if isinstance(parts[0], Tensor):
            return NAMESPACE["stack"](parts)
        return type(parts[0])([NAMESPACE["stack"](list(each)) for each in zip(*parts)])


for _name in NAMES:
    _reduction(_name)
