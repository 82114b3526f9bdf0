"""torch.utils.weak: dictionaries whose keys are objects themselves, not what they equal, and don't stay alive for it.

Tensors compare element by element, so a dictionary keyed by tensors goes by their identity.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from flambeau.core.tensor.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that is equal to another if both are to the same object; its hash is the object's id."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None):
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: Any) -> bool:
        mine, its = self(), other()
        return mine is its if mine is not None and its is not None else self is other


class WeakIdKeyDictionary(MutableMapping):  # type: ignore[type-arg]
    """A dictionary by identity of keys; an entry goes when its key does.

    dict: a mapping to start from. ref_type: the class of references, called with a key and what to do when it goes.
    """

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef):
        self.data: Any = {}
        self.ref_type = ref_type
        mine = weakref.ref(self)

        def remove(reference: Any) -> None:
            found = mine()
            if found is not None:
                found.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what can't be referred to weakly is no key
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):  # keys may go meanwhile
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def popitem(self) -> tuple[Any, Any]:
        """The last entry, which is taken out. Raises KeyError where there is none."""
        while True:
            reference, value = self.data.popitem()
            key = reference()
            if key is not None:
                return key, value

    def update(self, other: Any = None, /, **named: Any) -> None:  # type: ignore[override]
        """Take all entries of a mapping, or none if reading it fails."""
        found = {} if other is None else dict(other.items() if hasattr(other, "items") else other)
        for key, value in {**found, **named}.items() if named else found.items():
            self[key] = value

    def keyrefs(self) -> list[Any]:
        """The references to the keys; some may be gone by the time they are used."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another dictionary of the same keys and values."""
        return WeakIdKeyDictionary(dict(self.items()), ref_type=self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        made = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            made[key] = deepcopy(value, memo)
        return made

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, MutableMapping | dict):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> Any:
        if not isinstance(other, MutableMapping | dict):
            return NotImplemented
        made = type(self)(ref_type=self.ref_type)
        made.update(other)
        made.update(self)
        return made

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {id(key): value for key, value in other.items()}

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; calling it gives the tensor, or None when that is gone."""

    def __init__(self, tensor: Tensor):
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
