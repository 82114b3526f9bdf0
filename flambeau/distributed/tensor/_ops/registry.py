"""What sharding rules are written with: a call as rules see it, the ways they give, and the tables of rules.

A rule says of a call in which ways it can be computed from parts along one dimension of the mesh: a `Way` has a placement for
each result and each operand. Whole operands always do (that way needs no mention). What is said holds for each dimension of the
mesh by itself. Used by the files beside it and by `_dispatch`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _NormPartial

__all__ = [
    "P", "R", "REGISTERED", "RESHAPES", "RULES", "OpCall", "Rule", "S", "Way", "is_ours", "localizes", "outer_dims", "partials",
    "rule",
]  # fmt: skip

R = Replicate()
P = Partial()
S = Shard


@dataclasses.dataclass(frozen=True)
class Way:
    """Placements along one dimension of the mesh: of the results, and of the operands, in their order."""

    results: tuple[Placement, ...]
    operands: tuple[Placement, ...]


class Operand(int):
    """An argument that is a tensor: its index among the operands."""


@dataclasses.dataclass
class OpCall:
    """A call of an operator on the whole tensors, as a rule sees it.

    `arguments` are by the schema's names, with defaults; a tensor among them is its index in `operands` there (an `Operand`).
    `results` are the whole results. `positional` of the arguments were given by position, and `given` are the names of all that
    were given. `mesh_dim` is the dimension of the mesh that is asked about.
    """

    func: Any
    arguments: dict[str, Any]
    operands: list[DTensorSpec]
    results: list[TensorMeta]
    positional: int
    given: tuple[str, ...]
    mesh_dim: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def operand(self, name: str) -> DTensorSpec | None:
        """The tensor that an argument is, or None."""
        index = self.arguments.get(name)
        return self.operands[index] if isinstance(index, Operand) else None

    def dim(self, name: str, ndim: int | None = None) -> int:
        """An argument that is a dimension, counted from the front."""
        count = self.operands[0].ndim if ndim is None else ndim
        value = self.arguments[name]
        return value + count if value < 0 else value

    def dims(self, name: str) -> list[int]:
        """An argument that is a list of dimensions, counted from the front; all of them where it is None or empty."""
        count = self.operands[0].ndim
        value = self.arguments.get(name)
        if value is None or value == []:
            return list(range(count))
        return sorted(d + count if d < 0 else d for d in ([value] if isinstance(value, int) else value))

    def now(self, index: int) -> Placement:
        """How an operand lies along the dimension of the mesh that is asked about."""
        return self.operands[index].placements[self.mesh_dim]

    @property
    def parts(self) -> int:
        """Into how many parts the dimension of the mesh cuts."""
        return self.operands[0].mesh.size(self.mesh_dim)

    def even(self, index: int, dim: int, size: int) -> bool:
        """Whether `size` can be cut evenly by all dimensions of the mesh that cut this one of an operand, and the asked one."""
        spec = self.operands[index]
        others = math.prod(
            spec.mesh.size(i) for i, placement in enumerate(spec.placements) if i != self.mesh_dim and placement.is_shard(dim)
        )
        return size % (others * self.parts) == 0

    def way(self, results: Sequence[Placement] | Placement, /, **operands: Placement) -> Way:
        """A way by the arguments' names; what isn't named is whole, as many results as there are lie alike if one is given."""
        placements: list[Placement] = [R] * len(self.operands)
        for name, placement in operands.items():
            index = self.arguments.get(name)
            for place in index if isinstance(index, list) else [index]:
                if isinstance(place, Operand):
                    placements[place] = placement
        given = (results,) * len(self.results) if isinstance(results, Placement) else tuple(results)
        return Way(given, tuple(placements))


Rule = Callable[[OpCall], Iterable[Way]]
#: By the name of an operator of aten (or of those that aten's are made of), all overloads alike.
RULES: dict[str, Rule] = {}
#: By overloads, of any namespace: what programs have registered, which comes before what is here.
REGISTERED: dict[Any, Rule] = {}
#: Views that merge and split dimensions, where it does matter which elements a rank has.
RESHAPES = ("view", "_unsafe_view", "reshape", "_reshape_alias", "view_copy")
#: By the name of an operator: which argument says the first result's sizes, or its first one, and has to be that of the part.
LOCAL_SIZES: dict[str, str] = {}


def is_ours(func: Any) -> bool:
    """Whether what is said here of an operator by its name is said of this one: aten's, and what aten's are made of here."""
    return func._namespace in ("aten", "flambeau")


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule of these operators of aten."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def localizes(argument: str, *names: str) -> None:
    """Says that an argument of these operators is the result's shape, or its first size: ranks call them with their part's."""
    LOCAL_SIZES.update(dict.fromkeys(names, argument))


def partials(call: OpCall, *indices: int, norms: bool = False) -> list[Partial]:
    """The partial placements that operands have now (of the given ones, or all). norms: those of norms too, which nothing but
    moving elements leaves as they are."""
    chosen = indices or range(len(call.operands))
    found = dict.fromkeys(call.now(index) for index in chosen)
    return [x for x in found if isinstance(x, Partial) and (norms or not isinstance(x, _NormPartial))]


def outer_dims(call: OpCall, excluded: Iterable[int], index: int = 0) -> list[int]:
    """The dimensions of an operand but these."""
    left_out = set(excluded)
    return [dim for dim in range(call.operands[index].ndim) if dim not in left_out]
