"""Which module is running, forward or backward: what CommDebugMode files collectives under.

Stands on nn's hooks on all modules and on autograd's hooks on gradients.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.nn.modules import module as _hooks

__all__ = ["RunningModules"]


def _graded(value: Any) -> list[torch.Tensor]:
    """The tensors in a value that have gradients."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


class RunningModules:
    """The modules that run between `begin` and `end`, by names that begin with the class of the outermost one (`Net.layer1`).

    `parameters` has each module's own parameters by name, in the order in which modules are in the model; `kinds` its class.
    """

    def __init__(self) -> None:
        self.parameters: dict[str, dict[str, nn.Parameter]] = {}
        self.kinds: dict[str, str] = {}
        self._names: dict[nn.Module, str] = {}
        self._forward: list[str] = []
        self._backward: list[str] = []
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Watch modules."""
        self._handles = [_hooks.register_module_forward_pre_hook(self._enter)]

    def end(self) -> None:
        """Watch them no more."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._forward, self._backward = [], [], []

    def now(self) -> tuple[str, bool]:
        """The module that runs ("" for none), and whether that is in a backward pass."""
        backward = torch._C._current_graph_task_id() != -1
        running = self._backward if backward else self._forward
        return (running[-1] if running else ""), backward

    def parent_of(self, name: str) -> str:
        """The module that has this one, "" for an outermost one."""
        return name.rpartition(".")[0]

    def path_of(self, name: str) -> list[str]:
        """A module's name after those of the modules that it is in."""
        parts = name.split(".") if name else []
        return [".".join(parts[: end + 1]) for end in range(len(parts))]

    def _name(self, module: nn.Module) -> str:
        if module not in self._names:
            outermost = type(module).__name__
            for path, each in module.named_modules():
                name = f"{outermost}.{path}" if path else outermost
                self._names[each] = name
                self.parameters[name] = dict(each.named_parameters(recurse=False))
                self.kinds[name] = str(type(each)).strip("<>")
        return self._names[module]

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        name = self._name(module)
        self._forward.append(name)
        last: list[Any] = []

        def leave(module: nn.Module, inputs: Any, outputs: Any) -> None:
            last.pop().remove()
            self._leave(name, outputs)

        last.append(module.register_forward_hook(leave, always_call=True))  # after the module's own, which are part of it
        if torch._C._current_graph_task_id() == -1:
            tensors = [x for x in _graded(inputs) if x.grad_fn is not None]
            if tensors:
                torch.autograd.graph.register_multi_grad_hook(tensors, lambda _: self._end_backward(name))

    def _leave(self, name: str, outputs: Any) -> None:
        if name in self._forward:
            del self._forward[self._forward.index(name) :]
        tensors = _graded(outputs)
        if tensors and self._handles:
            torch.autograd.graph.register_multi_grad_hook(tensors, lambda _: self._backward.append(name), mode="any")

    def _end_backward(self, name: str) -> None:
        if name in self._backward:
            del self._backward[self._backward.index(name) :]
