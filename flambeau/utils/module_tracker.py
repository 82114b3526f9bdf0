"""Which modules are at work: their names, from a root's class down, while a program calls them. Used by flop_counter."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import flambeau as torch
from flambeau.core.autograd.node import running

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Context in which `parents` has the names of the modules that are being called: "Global", "Net", "Net.layer", ...

    A module is called after the one it was first called by; one without, by its class. In a backward pass `parents` is what it
    was in the forward pass of the operators only for who keeps it then, as FlopCounterMode does.
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self.open: list[tuple[Any, str, bool]] = []
        self._known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._handles: list[Any] = []

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass is running in this thread."""
        return running.run is not None

    def name_of(self, module: Any) -> str:
        """The name of a module."""
        name = self._known.setdefault(module, type(module).__name__)
        for child_name, child in module.named_children():
            self._known[child] = f"{name}.{child_name}"
        return name

    def _enter(self, module: Any, inputs: Any) -> None:
        name = self.name_of(module)
        self.open.append((module, name, name not in self.parents))
        self.parents.add(name)

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        _, name, added = self.open.pop()
        if added:
            self.parents.discard(name)

    def __enter__(self) -> ModuleTracker:
        rooms = torch.nn.modules.module
        self._handles = [
            rooms.register_module_forward_pre_hook(self._enter),
            rooms.register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.open.clear()
        self.parents = {"Global"}
