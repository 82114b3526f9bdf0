"""einsum as exported graphs have it: operands in common dimensions, then products of two after another."""

from __future__ import annotations

import math
from typing import Any

import flambeau as torch
from flambeau._decomp.composites.registry import composite

__all__: list[str] = []

aten = torch.ops.aten


@composite(aten.einsum.default)
def einsum(equation: str, tensors: Any, *, path: Any = None) -> Any:
    given, _, result = equation.replace(" ", "").partition("->")
    parts = given.split(",")
    broad = [x.dim() - len(part.replace("...", "")) if "..." in part else 0 for part, x in zip(parts, tensors)]
    names = [_labels(part, n, max(broad)) for part, n in zip(parts, broad)]
    if "->" in equation:
        kept = _labels(result, max(broad), max(broad))
    else:
        flat = [label for own in names for label in own]
        kept = [*_labels("..." * ("..." in given), max(broad), max(broad)),
                *sorted({label for label in flat if label.isalpha() and flat.count(label) == 1})]  # fmt: skip
    summed = sorted({label for own in names for label in own} - set(kept))
    order = [*kept, *summed]
    operands = [_arranged(x, own, order) for x, own in zip(tensors, names)]
    if path is not None and len(operands) > 2:
        return NotImplemented
    made = operands[0]
    if len(operands) == 1:
        return aten.sum.dim_IntList(made, list(range(len(kept), len(order)))) if summed else made
    last = {label: max(i for i, own in enumerate(names) if label in own) for label in summed}
    for i, other in enumerate(operands[1:], 1):
        done = [len(kept) + k for k, label in enumerate(summed) if last[label] == i or (i == 1 and last[label] == 0)]
        made = _product(made, other, done)
    return aten.view.default(made, list(made.shape[: len(kept)])) if summed else made


def _labels(part: str, own: int, most: int) -> list[str]:
    """The names of dimensions; those that "..." stands for are numbers, counted from the last."""
    before, dots, after = part.partition("...")
    return [*before, *[str(n) for n in range(most - own, most)] * bool(dots), *after]


def _arranged(x: Any, labels: list[str], order: list[str]) -> Any:
    """A tensor whose dimensions are those of `order`, of size 1 where it has none of that name."""
    own: list[str] = []
    for label in labels:
        if label in own:
            at, dim = own.index(label), len(own)
            x = torch.movedim(aten.diagonal.default(x, 0, at, dim), -1, at)
        else:
            own.append(label)
    places = {label: d for d, label in enumerate(own)}
    for label in order:
        if label not in places:
            places[label] = len(places)
            x = aten.unsqueeze.default(x, places[label])
    return aten.permute.default(x, [places[label] for label in order])


def _product(left: Any, right: Any, done: list[int]) -> Any:
    """The product of two tensors, summed over some dimensions, which stay with size 1."""
    alone = [[d for d in done if x.shape[d] != 1 and y.shape[d] == 1] for x, y in ((left, right), (right, left))]
    both = [d for d in done if left.shape[d] != 1 and right.shape[d] != 1]
    if alone[0]:
        left = aten.sum.dim_IntList(left, alone[0], True)
    if alone[1]:
        right = aten.sum.dim_IntList(right, alone[1], True)
    if not both:
        return aten.mul.Tensor(left, right)
    rest = [d for d in range(left.dim()) if d not in both]
    shared = [d for d in rest if left.shape[d] != 1 and right.shape[d] != 1]
    of_left = [d for d in rest if left.shape[d] != 1 and right.shape[d] == 1]
    of_right = [d for d in rest if left.shape[d] == 1]

    def size(x: Any, dims: list[int]) -> int:
        return math.prod(x.shape[d] for d in dims)

    sizes = [*(left.shape[d] for d in (*shared, *of_left)), *[1] * len(both), *(right.shape[d] for d in of_right)]
    count, width = size(left, shared), size(left, both)
    rows, columns = size(left, of_left), size(right, of_right)
    first = aten.permute.default(left, [*shared, *of_left, *both, *of_right]).reshape(count, rows, width)
    second = aten.permute.default(right, [*shared, *both, *of_right, *of_left]).reshape(count, width, columns)
    made = aten.view.default(aten.bmm.default(first, second), sizes)
    places = [*shared, *of_left, *both, *of_right]
    return aten.permute.default(made, [places.index(d) for d in range(len(places))])
