"""Which modules are at work: their names, from a root's class down, while a program calls them and while their gradients are
computed. Used by flop_counter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import flambeau as torch
from flambeau.core.autograd.engine import queue_callback
from flambeau.utils._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Context in which `parents` has the names of the modules that are being called: "Global", "Net", "Net.layer", ...

    A module is called after the one it was first called by; one without, by its class. In a backward pass a module is at work
    from the first gradient of a result of its until all gradients of its inputs are there, or to the end of the pass. `is_bw`
    tells whether the last that was seen was a backward pass.
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self.is_bw = False
        self._known_modules: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._seen_modules: WeakSet[Any] = WeakSet()
        self._has_callback = False
        self._hooks: list[Any] = []

    def _get_mod_name(self, module: Any) -> str:
        name = self._known_modules.setdefault(module, type(module).__name__)
        if module not in self._seen_modules:
            self._seen_modules.add(module)
            for child_name, child in module.named_children():
                self._known_modules[child] = f"{name}.{child_name}"
                self._get_mod_name(child)  # lists of modules are never called themselves
        return name

    def _begins(self, name: str, is_bw: bool) -> Callable[..., None]:
        def begin(*_: Any) -> None:
            if is_bw:
                self._end_with_the_pass()
            self.is_bw = is_bw
            self.parents.add(name)

        return begin

    def _ends(self, name: str, is_bw: bool) -> Callable[..., None]:
        def end(*_: Any) -> None:
            self.is_bw = is_bw
            self.parents.discard(name)

        return end

    def _end_with_the_pass(self) -> None:
        if not self._has_callback:
            self._has_callback = True
            queue_callback(self._pass_ended)

    def _pass_ended(self) -> None:
        self.parents, self._has_callback = {"Global"}, False

    def _fw_pre_hook(self, module: Any, inputs: Any) -> None:
        name = self._get_mod_name(module)
        self._begins(name, False)()
        wanted = [x for x in tree_leaves(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
        if wanted:
            self._hooks.append(torch.autograd.graph.register_multi_grad_hook(wanted, self._ends(name, True)))

    def _fw_post_hook(self, module: Any, inputs: Any, output: Any) -> None:
        name = self._get_mod_name(module)
        self._ends(name, False)()
        made = [x for x in tree_leaves(output) if isinstance(x, torch.Tensor) and x.requires_grad]
        if made:
            self._hooks.append(torch.autograd.graph.register_multi_grad_hook(made, self._begins(name, True), mode="any"))

    def __enter__(self) -> ModuleTracker:
        rooms = torch.nn.modules.module
        self._fw = [
            rooms.register_module_forward_pre_hook(self._fw_pre_hook),
            rooms.register_module_forward_hook(self._fw_post_hook, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in (*self._fw, *self._hooks):
            handle.remove()
        self._hooks.clear()
