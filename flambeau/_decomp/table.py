"""CustomDecompTable, the table by which an exported program is taken apart. Stands on decompositions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import flambeau as torch
from flambeau._decomp import decompositions
from flambeau._decomp.registry import Composite, decomposition_table
from flambeau.core.operator.schema_index import graph_composites
from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.record import RECORDS

__all__ = ["CustomDecompTable", "core_decompositions"]

_aten = torch.ops.aten
#: Made of others in PyTorch, and kept whole all the same.
_KEPT = frozenset([
    _aten.upsample_bilinear2d.vec, _aten.upsample_nearest2d.vec, _aten.silu_backward.default, _aten.mish_backward.default,
    _aten._fused_rms_norm.default,
])  # fmt: skip


def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions into core operators that aren't what an operator is made of anyhow."""
    own = decompositions.__name__
    return {overload: rule for overload, rule in decomposition_table.items() if rule.__module__.startswith(own)}


def _can_be_kept(schema: Any) -> bool:
    """Whether an operator that others make up writes nothing, and gives no views."""
    return not any(a.alias_info is not None for a in [*schema.arguments, *schema.returns])


def _composites() -> Iterator[Any]:
    for name in builtin_schemas.names("aten"):
        full = f"aten::{name}"
        for overload in builtin_schemas.overloads_of(full):
            if builtin_schemas.is_composite(full, overload) and not builtin_schemas.is_script(full, overload):
                if _can_be_kept(builtin_schemas.schema_of(full, overload)):
                    yield getattr(getattr(_aten, name), overload)


def _own_composites() -> Iterator[Any]:
    """Operators of programs that are made of others, and declared ones that PyTorch doesn't list."""
    for packet in graph_composites():
        namespace, _, plain = packet.partition("::")
        for overload in builtin_schemas.overloads_of(packet):
            if _can_be_kept(builtin_schemas.schema_of(packet, overload)):
                yield getattr(getattr(getattr(torch.ops, namespace), plain), overload)
    for name, records in RECORDS.items():
        namespace, _, plain = name.partition("::")
        for overload, record in records.items():
            if "CompositeImplicitAutograd" in record.kernels and record.schema is not None and _can_be_kept(record.schema):
                yield getattr(getattr(getattr(torch.ops, namespace), plain), overload or "default")


class CustomDecompTable(dict[Any, Callable[..., Any]]):
    """A dict from overloads to decompositions. Operators that programs define may be taken out before they are defined.

    `pop` and `del` of an operator leave it whole in the graph; setting one puts a function of one's own in its place.
    """

    def __init__(self) -> None:
        super().__init__(core_decompositions())
        self.deleted_custom_ops: set[Any] = set()
        self._seen: set[Any] = set()
        for operator in _composites():
            if operator not in _KEPT:
                super().setdefault(operator, Composite(operator))

    def _complete(self) -> None:
        """Take in the operators that programs have defined meanwhile."""
        for operator in _own_composites():
            if operator not in self._seen:
                self._seen.add(operator)
                if operator not in self.deleted_custom_ops and not super().__contains__(operator):
                    super().__setitem__(operator, Composite(operator))

    def __getitem__(self, key: Any) -> Callable[..., Any]:
        self._complete()
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Callable[..., Any]) -> None:
        super().__setitem__(key, value)
        self.deleted_custom_ops.discard(key)

    def __delitem__(self, key: Any) -> None:
        self.pop(key)

    def __contains__(self, key: object) -> bool:
        self._complete()
        return super().__contains__(key)

    def __len__(self) -> int:
        self._complete()
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:
        self._complete()
        return super().__iter__()

    def keys(self) -> Any:
        """The overloads."""
        self._complete()
        return super().keys()

    def items(self) -> Any:
        """Overloads and decompositions."""
        self._complete()
        return super().items()

    def values(self) -> Any:
        """The decompositions."""
        self._complete()
        return super().values()

    def get(self, key: Any, default: Any = None) -> Any:
        """The decomposition of an operator."""
        self._complete()
        return super().get(key, default)

    def update(self, other: Mapping[Any, Callable[..., Any]]) -> None:  # type: ignore[override]
        """Set several."""
        for key, value in other.items():
            self[key] = value

    def pop(self, key: Any, *default: Any) -> Any:
        """Take an operator out; one that a program defines later as well. KeyError for one of aten that isn't in the table."""
        self._complete()
        if len(default) > 1:
            raise TypeError(f"pop expected at most 2 arguments, got {len(default) + 2}")
        if super().__contains__(key) or key.namespace == "aten":
            found = super().pop(key, *default)
            if key.namespace != "aten":
                self.deleted_custom_ops.add(key)
            return found
        if key in self.deleted_custom_ops:
            if default:
                return default[0]
            raise KeyError(f"{key} doesn't exist in the table")
        self.deleted_custom_ops.add(key)
        return Composite(key)

    def copy(self) -> CustomDecompTable:
        """Another table with the same entries."""
        made = CustomDecompTable.__new__(CustomDecompTable)
        dict.__init__(made, self.items())
        made.deleted_custom_ops, made._seen = set(self.deleted_custom_ops), set(self._seen)
        return made

    __copy__ = copy

    def materialize(self) -> dict[Any, Callable[..., Any]]:
        """A plain dict of what is in it now."""
        return dict(self.items())
