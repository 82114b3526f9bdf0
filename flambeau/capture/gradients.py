"""Gradients in a call: those that tensors of the environment have, those that the call gives them, and what `backward` asks for.

A gradient that is there before the call is another tensor each time, as a step forgets it: it is an input of the program that is
found by its tensor. What the call leaves is an effect. Stands on provenance and core.autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from flambeau.capture.kinds import TENSORS, is_a
from flambeau.capture.provenance import Provenance
from flambeau.codegen.programs import Tape
from flambeau.core.autograd.node import AccumulateGrad, held_gradient, next_sequence
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Gradients"]


class Gradients(Provenance):
    """`found`: gradients from before the call, further inputs of the program, whose tensors are `owners`; `changed`: tensors of
    the environment to which the call gives another gradient; `without`, `unhooked`: arguments that must have no gradient, and no
    hooks where the graph ends; `first_node`: the number of the call's first node.
    """

    _handed_over: Callable[[Any, FunctionType], None]

    def __init__(self, tape: Tape | None = None) -> None:
        super().__init__()
        self.tape = tape or Tape(())
        self._held: dict[int, int] = {}  # by tensor: its gradient before the call
        self.owners: list[Tensor] = []
        self.found: list[Tensor] = []
        self.changed: dict[int, Tensor] = {}
        self.without: list[Tensor] = []
        self.unhooked: list[Tensor] = []
        self.first_node = next_sequence()
        self._looked_up: set[int] = set()

    def _keep_tensor(self, tensor: Tensor) -> None:
        super()._keep_tensor(tensor)
        self._held[id(tensor)] = id(held_gradient(tensor))

    def look_back(self) -> None:
        super().look_back()
        for key, tensor in self.tensors.items():
            if self._held[key] != id(held_gradient(tensor)) and key not in self.changed:
                self.refuse("a tensor of the surroundings got another gradient")

    def gradient(self, owner: Tensor) -> Any:
        """owner.grad"""
        self._look(owner)
        return owner.grad

    def set_gradient(self, owner: Tensor, gradient: Any) -> None:
        """owner.grad = gradient"""
        self._changes(owner)
        owner.grad = gradient

    def _changes(self, owner: Tensor) -> None:
        if id(owner) in self.tensors:
            if any(owner is each for each in self.found):
                self.refuse("a gradient gets a gradient")
            self.changed[id(owner)] = owner

    def _look(self, owner: Tensor) -> None:
        """Pin whether a tensor has a gradient, before the call gives it another one."""
        if self.reason is not None or id(owner) in self._looked_up or id(owner) in self.changed or id(owner) not in self.tensors:
            return
        self._looked_up.add(id(owner))
        held = held_gradient(owner)
        if any(owner is each for each in self.found):
            self.refuse("the gradient of a gradient is read")
        if held is None:
            owner._grad = None  # which it may not have been set to
        if id(owner) in self.arguments:
            if held is None:
                self.without.append(owner)
        else:
            self.guards.gradient(owner)
        if held is None:
            return
        if type(held) is not Tensor or held._node is not None or held.__dict__ or id(held) in self.environment:
            self.refuse("a gradient that is no plain tensor, or is found elsewhere in the surroundings")
            return
        self.owners.append(owner)
        self.found.append(held)
        self.environment[id(held)] = self.arguments[id(held)] = held
        self._keep_tensor(held)
        self.tape.add_input(held)

    # ---- backward
    def differentiate(self, f: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function that runs the graph backwards."""
        for each in (*args, *kwargs.values()):
            self._handed_over(each, f)
        given = {**dict(zip(f.__code__.co_varnames, args)), **kwargs}
        roots = given.get(f.__code__.co_varnames[0])
        accumulates = f.__name__ != "grad"
        leaves = self._leaves_behind(roots if type(roots) in (tuple, list) else (roots,))
        for leaf in leaves if accumulates else ():
            self._look(leaf)
        if given.get("create_graph") and accumulates:
            self.refuse("backward is called with create_graph=True")
        before = [held_gradient(leaf) for leaf in leaves]
        result = f(*args, **kwargs)
        for leaf, held in zip(leaves, before, strict=True):
            if held_gradient(leaf) is not held:
                self._changes(leaf)
        return result

    def _leaves_behind(self, roots: Any) -> list[Tensor]:
        """The tensors at which a graph ends; refuses what a later run of it could do in another way."""
        if not all(is_a(each, Tensor) for each in roots):
            self.refuse("a graph is run backwards from an edge")
            return []
        leaves: list[Tensor] = []
        pending, seen = [each._node for each in roots], set()
        while pending:
            node = pending.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            if type(node) is AccumulateGrad:
                leaf = node.variable
                if leaf is None:
                    self.refuse("a graph ends at a view, or at a tensor that is gone")
                    continue
                leaves.append(leaf)
                self._pin_end(leaf, node)
            elif node.sequence < self.first_node:
                self.refuse("a graph from before the call is run backwards")
            elif node.extras is not None:
                self.refuse("a node has hooks, or what its gradients are kept for")
            pending += [target for target, _ in node.edges]
        return leaves

    def _pin_end(self, leaf: Tensor, node: AccumulateGrad) -> None:
        if node.extras is not None:  # the order of leaves is another one then
            self.refuse("a tensor whose gradient is computed has hooks, or had some")
        if type(leaf) not in TENSORS:
            self.refuse("the gradient of a tensor of a class of its own is computed")
        if id(leaf) in self.arguments:
            self.unhooked.append(leaf)
        elif id(leaf) in self.tensors:
            self.guards.leaf(leaf, node)
