"""The names of PyTorch's pipes of data sets, none of which are here. Stands on core.operator.unsupported."""

from __future__ import annotations

from typing import Any

from flambeau.core.operator import unsupported

_ADVICE = "write a Dataset or an IterableDataset, whose __iter__ may be a generator"


def pipes(room: str, base: type, **modules: str) -> dict[str, Any]:
    """The classes of pipes of `room`, by their short names: modules, and the short names of the classes in each."""
    return {
        name: unsupported.kind(f"utils.data.datapipes.{room}.{module}.{name}{base.__name__}", _ADVICE, base)
        for module, names in modules.items()
        for name in names.split()
    }
