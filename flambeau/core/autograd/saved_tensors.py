"""Saved tensors in the custody of hooks: what `saved_tensors_hooks` makes of them, and `SavedTensor`, which hooks a single one.

A pack hook gets a tensor outside the graph, the saved one itself if that is; what an unpack hook returns takes the place in the
graph that the saved tensor had.
Stands on modes; core.autograd.node saves by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.modes import modes

__all__ = ["PACKED", "Packed", "SavedTensor", "pack"]

PACKED = -1  # stands in the `versions` of a node for a Packed value

Hook = Callable[[Any], Any]


class Packed:
    """What a pack hook returned for a saved tensor, the unpack hook to call, and the tensor's place in the graph."""

    __slots__ = ("index", "node", "payload", "unpack")

    def __init__(self, payload: Any, unpack: Hook, node: Any, index: int) -> None:
        self.payload = payload
        self.unpack = unpack
        self.node = node
        self.index = index

    def unpacked(self) -> Any:
        """The saved tensor. Raises TypeError if the hook returns something else."""
        value = self.unpack(self.payload)
        if not hasattr(value, "_storage"):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(value)}")
        if self.node is None or (value._node is self.node and value._index == self.index):
            return value
        value = value.detach()
        value._node, value._index = self.node, self.index
        return value


def _packed(value: Any, version: int, pack_hook: Hook, unpack_hook: Hook) -> Packed:
    payload = pack_hook(value if value._node is None else value.detach())
    if value._storage.version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input "
            "to pack hook can not be modified by in-place operations as this can lead to "
            "unexpected side-effects. Please open an issue if you need to perform in-place "
            "operations on the input to a pack hook."
        )
    return Packed(payload, unpack_hook, value._node, value._index)


def pack(values: tuple[Any, ...], versions: tuple[int | None, ...]) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """Saved values as the innermost `saved_tensors_hooks` of this thread want them; unchanged without any."""
    if not modes.local.saved_tensors_hooks:
        return values, versions
    pack_hook, unpack_hook = modes.local.saved_tensors_hooks[-1]
    kept, marks = list(values), list(versions)
    for position, version in enumerate(versions):
        if version is not None and version != PACKED:
            kept[position] = _packed(values[position], version, pack_hook, unpack_hook)
            marks[position] = PACKED
    return tuple(kept), tuple(marks)


_FREED = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are freed "
    "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph "
    "a second time or if you need to access saved variables after calling backward."
)


class SavedTensor:
    """One of the tensors that a node has saved, as `node._raw_saved_<name>` shows it."""

    __module__ = public_module("_C._autograd")
    __slots__ = ("_at", "_of")

    def __new__(cls, node: Any = None, position: int = 0) -> SavedTensor:
        if node is None:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        return object.__new__(cls)

    def __init__(self, node: Any, position: int) -> None:
        self._of, self._at = node, position

    @property
    def data(self) -> Any:
        """The tensor."""
        return self.unpack()

    def unpack(self) -> Any:
        """The tensor, by the unpack hook if there is one."""
        return self._of.unpack()[self._at]

    def register_hooks(self, *hooks: Hook) -> None:
        """register_hooks(pack, unpack): have this tensor packed now, and unpacked where it is needed.

        Raises TypeError for others than two functions; RuntimeError if the tensor has hooks, is None, or is freed.
        """
        if len(hooks) != 2 or not all(callable(hook) for hook in hooks):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types are "
                "supported:\n"
                "    1. (self: torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: "
                f"collections.abc.Callable) -> None\n\nInvoked with: {', '.join(map(repr, (self, *hooks)))}"
            )
        node, at = self._of, self._at
        if node.saved is None:
            raise RuntimeError(_FREED)
        version = node.versions[at]
        if version is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if version == PACKED:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one "
                "pair of hooks is allowed at a time."
            )
        packed = _packed(node.saved[at], version, *hooks)
        node.saved = (*node.saved[:at], packed, *node.saved[at + 1 :])
        node.versions = (*node.versions[:at], PACKED, *node.versions[at + 1 :])
