"""The pickler of packages: names are those that an importer has for objects, and so may be of a package.

Stands on the pickler of torch.save, whose names are PyTorch's.
"""

from __future__ import annotations

import pickle
from types import FunctionType
from typing import Any

from flambeau.core.tensor.storage_types import StorageType
from flambeau.package.importer import Importer, ObjMismatchError, ObjNotFoundError
from flambeau.serialize.pickler import Storages, pickler_class

__all__ = ["PackagePickler", "create_pickler"]

_SavePickler: Any = pickler_class(pickle)


class PackagePickler(_SavePickler):  # type: ignore[misc, valid-type]
    """Pickles objects by the names that `importer` has for them. PicklingError for one that it has not."""

    def __init__(self, importer: Importer, file: Any, protocol: int = 3, identity: Any = None) -> None:
        super().__init__(file, protocol, identity or Storages(lambda n, _: str(n)).identity)
        self.importer = importer

    def save_global(self, thing: Any, name: str | None = None) -> None:
        try:
            module, qualified = self.importer.get_name(thing, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            raise pickle.PicklingError(f"Can't pickle {thing}: {error}") from None
        if self.proto >= 4:
            self.save(module)
            self.save(qualified)
            self.write(pickle.STACK_GLOBAL)
        elif "." in qualified and self.proto < 4:  # a name in a class
            outer, _, inner = qualified.rpartition(".")
            self.save_reduce(getattr, (self.importer.find(module, outer), inner))
            return
        else:
            self.write(pickle.GLOBAL + f"{module}\n{qualified}\n".encode())
        self.memoize(thing)

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        if hasattr(obj, "script_type"):
            raise NotImplementedError(
                f"{type(obj).__name__}: compiled modules can't be put into packages by flambeau; save them by torch.jit.save"
            )
        if hasattr(type(obj), "__reduce_package__"):
            self.save_pers(self.identity(obj))
            return None
        return super().save(obj, save_persistent_id)

    dispatch = {**_SavePickler.dispatch, FunctionType: save_global, StorageType: save_global}


def create_pickler(data_buf: Any, importer: Importer, protocol: int = 4) -> PackagePickler:
    """A pickler that writes to a file by the names of an importer."""
    return PackagePickler(importer, data_buf, protocol)
