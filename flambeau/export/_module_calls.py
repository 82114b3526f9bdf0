"""Which modules run while a program is exported, and what they are called with: nodes' nn_module_stack, and module_call_graph.

Used by _export.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.export._tracer import ExportMode
from flambeau.export.exported_program import ModuleCallEntry, ModuleCallSignature
from flambeau.export.graph_signature import ConstantArgument, TensorArgument
from flambeau.nn.modules import hooks

__all__ = ["ModuleCalls"]


class ModuleCalls:
    """Follows the calls of a module's submodules. kept: the names of those whose arguments and results are written down."""

    def __init__(self, mod: torch.nn.Module, mode: ExportMode, kept: Sequence[str]) -> None:
        self.mode, self.kept = mode, frozenset(kept)
        self.paths = {id(m): path for path, m in mod.named_modules()}
        self.called: dict[str, ModuleCallSignature | None] = {"": None}
        self.again: dict[str, ModuleCallSignature] = {}
        self._count: Counter[str] = Counter()
        self._given: list[Any] = []
        unknown = self.kept - set(self.paths.values())
        if unknown:
            raise ValueError(f"preserve_module_call_signature: the module has no submodules {sorted(unknown)}")

    def entries(self, own: ModuleCallSignature) -> list[ModuleCallEntry]:
        """The module_call_graph; `own` is the signature of the whole."""
        found = [ModuleCallEntry(path, signature if path else own) for path, signature in self.called.items()]
        return found + [ModuleCallEntry(path, signature) for path, signature in self.again.items()]

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Have the tracer know which modules are running."""
        handles: list[Any] = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextlib.contextmanager
    def written_down(self, mod: torch.nn.Module) -> Iterator[None]:
        """Have the arguments and results of the modules that are kept written down."""
        handles: list[Any] = []
        for path in self.kept:
            module = mod.get_submodule(path)
            handles.append(module.register_forward_pre_hook(self._take, with_kwargs=True))
            handles.append(module.register_forward_hook(self._give))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        path = self.paths.get(id(module))
        if path is None:
            return
        self.called.setdefault(path, None)
        key = f"L__self__{path}" + (f"@{self._count[path]}" if self._count[path] else "")
        self._count[path] += 1
        cls = type(module)
        self.mode.module_stack.append((key, (path, f"{cls.__module__}.{cls.__qualname__}")))

    def _leave(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if id(module) in self.paths:
            self.mode.module_stack.pop()

    def _take(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        self._given.append(([self._argument(x) for x in leaves], spec))

    def _give(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        inputs, in_spec = self._given.pop()
        leaves, out_spec = pytree.tree_flatten(result)
        made = ModuleCallSignature(inputs, [self._argument(x) for x in leaves], in_spec, out_spec)
        path = self.paths[id(module)]
        first = self.called[path]
        if first is None:
            self.called[path] = made
            return
        for name in ("in_spec", "out_spec"):
            if getattr(first, name) != getattr(made, name):
                raise AssertionError(f"{name} mismatch for _export_root.{path}: {getattr(first, name)} != {getattr(made, name)}")
        self.again[f"{path}@{self._count[path] - 1}"] = made

    def _argument(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor) or is_symbolic_number(x):
            return TensorArgument(self.mode.node_of(x).name)
        return ConstantArgument("", x)
