"""The unpickler of packages: names are looked up by a package's importer."""

from __future__ import annotations

import pickle
from typing import Any

from flambeau.core.tensor.storage_types import BY_NAME
from flambeau.package.importer import Importer

__all__ = ["PackageUnpickler"]


class PackageUnpickler(pickle.Unpickler):
    """Reads a pickle whose classes and functions come from an importer."""

    def __init__(self, importer: Importer, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._importer = importer

    def find_class(self, module: str, name: str) -> Any:
        marker = BY_NAME.get(f"{module}.{name}")
        return self._importer.find(module, name) if marker is None else marker
