"""torch.einsum in PyTorch's operators: dimensions in one order for all operands, then products of two as batches of matrices.

Used by dispatch_modes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.lowerings import lowering, packets
from flambeau.ops.linalg.einsum import labelled_once, labels_of

__all__ = ["einsum"]


@lowering
def einsum(own: Any, equation: Any, *operands: Any) -> Any:
    """The operands are multiplied from left to right; a label that no later one has is summed on the way."""
    tensors, labels, kept = labels_of(equation, operands)
    sizes: dict[Any, int] = {}
    own_labels = [labelled_once(x, each, n, sizes) for n, (x, each) in enumerate(zip(tensors, labels))]
    tensors, labels = [x for x, _ in own_labels], [each for _, each in own_labels]
    order = [*kept, *sorted({label for each in labels for label in each} - set(kept), key=_place)]
    spread = [_in_order(x, each, order) for x, each in zip(tensors, labels)]
    last = [max(at for at, each in enumerate(labels) if label in each) for label in order]
    summed = range(len(kept), len(order))
    made = spread[0]
    if len(spread) == 1:
        return packets().sum.dim_IntList(made, list(summed)) if summed else made
    alone = [dim for dim in summed if last[dim] == 0]
    if alone:
        made = packets().sum.dim_IntList(made, alone, True)
    for at, x in enumerate(spread[1:], 1):
        here = [dim for dim in summed if last[dim] == at]
        only = [[dim for dim in here if a.shape[dim] != 1 and b.shape[dim] == 1] for a, b in ((made, x), (x, made))]
        both = [dim for dim in here if made.shape[dim] != 1 and x.shape[dim] != 1]
        made, x = (packets().sum.dim_IntList(t, dims, True) if dims else t for t, dims in zip((made, x), only))
        made = _product(made, x, both) if both else packets().mul.Tensor(made, x)
    return packets().view.default(made, list(made.shape[: len(kept)])) if summed else made


def _place(label: Any) -> tuple[bool, Any]:
    return isinstance(label, str), label


def _in_order(x: Tensor, labels: Sequence[Any], order: Sequence[Any]) -> Tensor:
    """A tensor with a dimension for every label, in their order."""
    names = list(labels)
    for label in order:
        if label not in labels:
            x = packets().unsqueeze.default(x, len(names))
            names.append(label)
    return packets().permute.default(x, [names.index(label) for label in order])  # type: ignore[no-any-return]


def _product(left: Tensor, right: Tensor, summed: Sequence[int]) -> Tensor:
    """The sum of products over dimensions that both have, which are left with one element."""
    aten = packets()
    wide = [(left.shape[dim] != 1, right.shape[dim] != 1) for dim in range(left.dim())]
    outer = [dim for dim in range(len(wide)) if dim not in summed]
    batch = [dim for dim in outer if wide[dim] == (True, True)]
    rows = [dim for dim in outer if wide[dim] == (True, False)]
    columns = [dim for dim in outer if dim not in batch and dim not in rows]

    def flat(t: Tensor, *groups: Sequence[int], without: Sequence[int]) -> Tensor:
        turned = aten.permute.default(t, [dim for group in (*groups, without) for dim in group])
        sizes = [math.prod(t.shape[dim] for dim in group) for group in groups]
        return turned.reshape(sizes)  # type: ignore[no-any-return]

    made = aten.bmm.default(flat(left, batch, rows, summed, without=columns), flat(right, batch, summed, columns, without=rows))
    sizes = [*[left.shape[dim] for dim in (*batch, *rows)], *[1] * len(summed), *[right.shape[dim] for dim in columns]]
    places = [*batch, *rows, *summed, *columns]
    made = aten.view.default(made, sizes)
    return aten.permute.default(made, [places.index(dim) for dim in range(len(wide))])  # type: ignore[no-any-return]
