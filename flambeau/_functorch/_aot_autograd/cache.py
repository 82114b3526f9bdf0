"""The compiled forms of a function, and which of them serves a call.

A form serves calls with the same containers, numbers, geometry of tensors, requirement of gradients, and sharing of memory. Of a
function with symbolic sizes it serves those for which what was assumed of the sizes holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._functorch._aot_autograd import compile as stages
from flambeau._functorch._aot_autograd import synthetic_bases
from flambeau._functorch._aot_autograd.schemas import AOTConfig
from flambeau.utils import _pytree as pytree

__all__ = ["CompiledCalls"]


class CompiledCalls:
    """A function, `calls(args, kwargs)`, that is compiled for what it is called with."""

    def __init__(self, function: Callable[..., Any], config: AOTConfig) -> None:
        self.function, self.config = function, config
        self.known: dict[Any, tuple[Callable[[Sequence[Any]], list[Any]], Any]] = {}

    def __call__(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """What the function gives."""
        leaves, call, out_spec = self._for(args, kwargs)
        return pytree.tree_unflatten(call(leaves), out_spec)

    def prepare(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Compile for such arguments."""
        self._for(args, kwargs)

    def _for(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]], Any]:
        leaves, spec = pytree.tree_flatten((tuple(args), kwargs))
        key = spec, synthetic_bases.sharing(leaves), tuple(map(self._of_leaf, leaves)), stages.wants_gradients(leaves)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._compiled(leaves, spec)
        return leaves, *found

    def _of_leaf(self, x: Any) -> Any:
        """What a compiled form assumes of an argument."""
        if isinstance(x, torch.Tensor):
            kind = type(x) if not isinstance(x, torch.nn.Parameter) else torch.Tensor
            return kind, x._layout, x._offset if x._base is not None else 0, x.requires_grad, x.is_leaf
        try:
            hash(x)
        except TypeError:
            return id(x)
        return type(x), x

    def _compiled(self, leaves: Sequence[Any], spec: Any) -> tuple[Callable[[Sequence[Any]], list[Any]], Any]:
        out_spec: Any = None

        def flat(*given: Any) -> list[Any]:
            nonlocal out_spec
            args, kwargs = pytree.tree_unflatten(list(given), spec)
            made, out_spec = pytree.tree_flatten(self.function(*args, **kwargs))
            return made

        call = stages.compiled(flat, leaves, self.config)
        return call, out_spec
