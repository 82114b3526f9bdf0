"""The pickler behind torch.save: storages leave the pickle, and every name is PyTorch's.

Stands on the standard library's pickler written in Python, because the one in C can't write a name other than the
object's own. Used by `writing` and by torch.package.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flambeau.base.layout import layout
from flambeau.core.tensor import storage_io
from flambeau.core.tensor.rebuild import get_layout
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.storage_types import BY_DTYPE, UNTYPED, StorageReference, StorageType
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.interop.typed_storage import TypedStorage
from flambeau.serialize import names


class Storages:
    """The storages of one file, numbered in the order in which they are met."""

    def __init__(self, key_of: Callable[[int, Storage], str]):
        self.key_of = key_of
        self.found: dict[int, tuple[str, Storage]] = {}
        self.dtypes: dict[int, Any] = {}

    def identity(self, thing: Any) -> tuple[Any, ...] | None:
        """The persistent id of a storage; None for anything else.

        Raises RuntimeError if one memory was met as two types, which the format can't express.
        """
        if not isinstance(thing, StorageReference):
            if not isinstance(thing, Storage):
                return None
            thing = StorageReference(thing)
        storage, dtype = thing.storage, thing.dtype
        if storage.capacity and self.dtypes.setdefault(id(storage), dtype) is not dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key, _ = self.found.setdefault(id(storage), (self.key_of(len(self.found), storage), storage))
        marker = UNTYPED if dtype is None else BY_DTYPE[dtype]
        return ("storage", marker, key, "cpu", storage.capacity // marker.itemsize)

    def sizes(self, fakes: bool) -> list[tuple[str, int]]:
        """(key, number of bytes) of every storage; those of fake tensors, which have no bytes, only if `fakes`."""
        if fakes:
            return [(key, storage.capacity) for key, storage in self.found.values()]
        return [(key, len(memory)) for key, memory in self.contents()]

    def contents(self) -> list[tuple[str, memoryview]]:
        """(key, bytes) of every storage."""
        return [(key, storage_io.memory_of(storage)) for key, storage in self.found.values()]


def pickler_class(pickle_module: Any) -> type:
    """The pickler to use with this pickle module: its version in Python, if it has one, with our names."""
    base = getattr(pickle_module, "_Pickler", pickle_module.Pickler)

    class SavePickler(base):  # type: ignore[misc, valid-type]
        def __init__(self, file: Any, protocol: int, identity: Callable[[Any], Any]):
            super().__init__(file, protocol=protocol)
            self.identity = identity

        def save_global(self, thing: Any, name: str | None = None) -> None:
            if isinstance(thing, StorageType):
                module, foreign = thing.module, thing.name
            else:
                own = name or getattr(thing, "__qualname__", None) or thing.__name__
                home = pickle.whichmodule(thing, own)  # type: ignore[attr-defined]
                module, foreign = names.outward(home, own)
                if home.partition(".")[0] != names.PACKAGE or "<locals>" in own:
                    super().save_global(thing, name)
                    return
            if self.proto >= 4:
                self.save(module)
                self.save(foreign)
                self.write(pickle.STACK_GLOBAL)
            else:
                self.write(pickle.GLOBAL + f"{module}\n{foreign}\n".encode())
            self.memoize(thing)

        if issubclass(base, getattr(pickle, "_Pickler")):  # noqa: B009 - written in Python, it looks at `dispatch`
            dispatch = {
                **base.dispatch,
                FunctionType: save_global,
                StorageType: save_global,
                Tensor: _save_tensor,
                OrderedDict: _save_ordered,
                Storage: _save_storage,
                StorageReference: _save_storage,
                TypedStorage: _save_storage,
                layout: _save_layout,
            }
        else:

            def persistent_id(self, thing: Any) -> Any:
                return self.identity(thing)

            def reducer_override(self, thing: Any) -> Any:
                return (get_layout, (repr(thing),)) if isinstance(thing, layout) else NotImplemented

    return SavePickler


# What files of many tensors are made of, by fewer calls than any object takes; what is written is the same.


def _save_storage(pickler: Any, storage: Storage | StorageReference) -> None:
    pickler.save_pers(pickler.identity(storage))


def _save_layout(pickler: Any, marker: layout) -> None:
    pickler.save_reduce(get_layout, (repr(marker),), obj=marker)


def _save_tensor(pickler: Any, tensor: Tensor) -> None:
    function, arguments, *rest = tensor.__reduce_ex__(pickler.proto)
    if rest:
        pickler.save_reduce(function, arguments, *rest, obj=tensor)
        return
    pickler.save(function)
    pickler.save(arguments)
    pickler.write(pickle.REDUCE)
    pickler.memoize(tensor)


def _save_ordered(pickler: Any, mapping: OrderedDict) -> None:
    if mapping or mapping.__dict__:
        pickler.save_reduce(*mapping.__reduce_ex__(pickler.proto), obj=mapping)
        return
    pickler.save(OrderedDict)
    pickler.write(pickle.EMPTY_TUPLE + pickle.REDUCE)
    pickler.memoize(mapping)
