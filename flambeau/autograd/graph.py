"""`flambeau.autograd.graph`: looking at and into the graph; hooks on saved tensors."""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.base.locks import long_lock
from flambeau.core.autograd.function import BackwardCFunction
from flambeau.core.autograd.gradient_edge import GradientEdge, edge_of
from flambeau.core.autograd.hooks import RemovableHandle
from flambeau.core.autograd.node import Node as _Node
from flambeau.core.autograd.node import choose_constructor, running
from flambeau.core.modes import observing
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor, empty_layout

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class Node(abc.ABC):
    """What the graph's nodes have in common; all of them, and the contexts of custom Functions, are instances."""

    @abc.abstractmethod
    def name(self) -> str:
        """The name of the step, such as "AddBackward0"."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[Any, ...]:
        """Per input, the node that made it (None if it needs no gradient) and which output of that it is."""

    @abc.abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dict for the user's notes."""

    @property
    @abc.abstractmethod
    def _input_metadata(self) -> list[Any]:
        raise NotImplementedError

    @abc.abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call fn(gradients of the inputs, gradients of the outputs) after the step; it may return replacements."""

    @abc.abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call fn(gradients of the outputs) before the step; it may return replacements."""

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        if cls is Node and issubclass(subclass, (_Node, BackwardCFunction)):
            return True
        return NotImplemented


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge a tensor's gradient arrives at. Raises RuntimeError if the tensor doesn't require grad."""
    observing.settle()
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return edge_of(tensor)


def increment_version(tensor: Any) -> None:
    """Tell the graph that the memory of a tensor (or of several) was written to."""
    observing.settle()
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        each._storage.writes += 1


class saved_tensors_hooks:
    """Context: tensors saved for backward go through pack_hook now, and what it returned through unpack_hook later."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if local.saved_tensors_disabled is not None:
            raise RuntimeError(local.saved_tensors_disabled)
        local.saved_tensors_hooks.append((self.pack_hook, self.unpack_hook))
        choose_constructor(+1)

    def __exit__(self, *exception: Any) -> None:
        if local.saved_tensors_hooks:
            local.saved_tensors_hooks.pop()
            choose_constructor(-1)


class save_on_cpu(saved_tensors_hooks):
    """Context: saved tensors are kept as copies. All memory here is the CPU's, so nothing moves."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack_to_cpu(tensor: Any) -> Any:
            copy = empty_layout(tensor._layout.dense())
            copy.copy_(tensor.detach())
            return copy

        super().__init__(pack_to_cpu, lambda packed: packed)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Context: using saved tensor hooks raises RuntimeError(error_message)."""
    if local.saved_tensors_hooks:
        raise RuntimeError(error_message)
    before, local.saved_tensors_disabled = local.saved_tensors_disabled, error_message
    try:
        yield
    finally:
        local.saved_tensors_disabled = before


class allow_mutation_on_saved_tensors:
    """Context: tensors saved for backward may be written to afterwards, as long as the backward pass is in the context too.

    They are copied when they are saved: not every write could be told beforehand. RuntimeError inside another such context;
    AssertionError for a backward pass outside of it.
    """

    def __init__(self) -> None:
        self._hooks = saved_tensors_hooks(lambda tensor: tensor.clone(), self._unpack)

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        if local.mutation_allowed is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self._hooks.__enter__()
        local.mutation_allowed = self
        return self

    def __exit__(self, *exception: Any) -> None:
        local.mutation_allowed = None
        self._hooks.__exit__()

    def _unpack(self, copy: Any) -> Any:
        if local.mutation_allowed is not self:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the "
                "graph was originally recorded."
            )
        return copy


class _MultiHandle:
    """Removes several hooks at once."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Take the hooks back."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> _MultiHandle:
    """Call a hook once per backward pass.

    mode "all": fn(gradients) when the gradients of all tensors that take part are there, None for the others; "any":
    fn(gradient) with the first.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    nodes = [tensor._node for tensor in tensors]
    if any(node is None for node in nodes):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    lock = long_lock()
    passes: dict[int, list[Any]] = {}  # per backward pass under way: gradients so far, how many will arrive, how many did

    def hook_for(position: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            run = running.run
            number = -1 if run is None else run.number
            with lock:
                state = passes.get(number)
                if state is None:
                    expected = sum(_runs(node, run) for node in nodes)
                    state = passes[number] = [[None] * len(nodes), expected, 0]
                    if run is not None:
                        run.callbacks.append(functools.partial(passes.pop, number, None))
                state[0][position] = gradient
                state[2] += 1
                ready = state[2] == (1 if mode == "any" else state[1])
            if ready:
                fn(gradient if mode == "any" else state[0])

        return hook

    return _MultiHandle(tuple(tensor.register_hook(hook_for(position)) for position, tensor in enumerate(tensors)))


def _runs(node: Any, run: Any) -> bool:
    """Whether a backward pass gets to a node."""
    return bool(run is None or node in (run.reached if run.needed is None else run.needed))
