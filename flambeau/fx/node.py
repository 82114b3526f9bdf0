"""A node of a graph: one operation, where its arguments come from, and who uses its result.

    placeholder    an input of the graph; target is its name, args may hold a default
    get_attr       a parameter, buffer or other value of the module by its dotted path
    call_function  target(*args, **kwargs)
    call_method    args[0].target(*args[1:], **kwargs)
    call_module    the submodule `target` called with args and kwargs
    output         args[0] is what the graph returns

Nodes of a graph form a ring that the graph's root closes; `users` is kept by assigning `args` and `kwargs`, whose containers
therefore refuse to be changed. Stands on fx.immutable_collections and fx.names; used by all of fx.
"""

from __future__ import annotations

import functools
import logging
import operator
import types
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import flambeau as torch
from flambeau.dispatcher.overloads import OpOverload, OpOverloadPacket
from flambeau.fx._compatibility import compatibility
from flambeau.fx.immutable_collections import immutable_dict, immutable_list
from flambeau.fx.names import _get_qualified_name, shown, shown_type
from flambeau.fx.tensor_text import tensor_annotation
from flambeau.nn import Module

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

log = logging.getLogger(__name__)

base_types = (
    str, int, float, bool, complex, torch.dtype, torch.Tensor, torch.device, torch.memory_format, torch.layout
)  # fmt: skip
BaseArgumentTypes = (
    str | int | float | bool | complex | torch.dtype | torch.Tensor | torch.device | torch.memory_format | torch.layout
)
Target = Callable[..., Any] | str
Argument = Any
"""What a node's argument may be: nodes, plain values, tensors, and tuples, lists, dicts, slices and ranges of them."""

_legal_ops = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])
_side_effectful_functions: set[Callable[..., Any]] = {operator.setitem, torch._assert, torch._assert_async}

_RANDOM = frozenset(
    getattr(torch, name)
    for name in """rand randn randint randperm rand_like randn_like randint_like normal poisson bernoulli
    multinomial""".split()
)
"""Functions that move the random stream, so that a graph without them would give other numbers later on."""


#: Operators that check something or mark a stretch, and write to no argument.
_SIDE_EFFECTS = frozenset(
    """aten::_assert_async.msg aten::_assert_scalar aten::_assert_tensor_metadata aten::sym_constrain_range
    aten::sym_constrain_range_for_size prims::_sink_tokens profiler::_record_function_enter profiler::_record_function_enter_new
    profiler::_record_function_exit profiler::_record_function_exit._RecordFunction""".split()
)


@functools.cache
def _changes_something(operator: Any, impure_random: bool) -> bool:
    """Whether a call of an operator of torch.ops matters though nobody uses its result: it writes, checks, or draws numbers."""
    if isinstance(operator, OpOverloadPacket):
        return any(_changes_something(getattr(operator, name), impure_random) for name in operator.overloads()[:1])
    schema = operator._schema
    name = schema.name if not schema.overload_name else f"{schema.name}.{schema.overload_name}"
    return schema.is_mutable or name in _SIDE_EFFECTS or (impure_random and torch.Tag.nondeterministic_seeded in operator.tags)


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of `fn` in graphs even where nobody uses their result; returns fn, so it decorates too."""
    _side_effectful_functions.add(fn)
    return fn


def _type_repr(obj: object) -> str:
    """A type as an annotation shows it: `int`, `torch.Tensor`, `typing.List[int]`."""
    if isinstance(obj, type):
        module = obj.__module__
        return obj.__qualname__ if module == "builtins" else f"{shown_type(obj)}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    """An argument as str(graph) shows it: nodes as %name, strings bare, long lists cut at max_list_len."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list):
        items = ", ".join(_format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        rest = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        return f"[{items}{rest}]"
    if isinstance(arg, tuple):
        items = ", ".join(_format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        rest = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        return f"({items}{',' if len(arg) == 1 else ''}{rest})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return "%" + repr(arg) if isinstance(arg, Node) else shown(arg)


@compatibility(is_backward_compatible=False)
class Node:
    """One operation of a Graph; made by the graph's methods, such as `graph.call_function(torch.relu, (x,))`.

    Attributes: graph, name, op, target, args, kwargs, users (a dict whose keys are nodes), type (an annotation or None),
    meta (a dict for passes).
    """

    graph: Graph
    op: str
    target: Target
    users: dict[Node, None]
    type: Any | None
    meta: dict[str, Any]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {torch.typename(target)} "
                    "but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {shown(target)} has type {torch.typename(target)} "
                "but a str is expected"
            )
        self.graph, self._name, self.op, self.target = graph, name, op, target
        self.users, self.meta = {}, {}
        self.type = return_type
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._position = 0
        self._repr_fn: Callable[[Node], str] | None = None
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._assign(args, kwargs)

    @property
    def name(self) -> str:
        """What it is called in the graph; hooks of the graph's module are told of another name, for each node that uses it."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            for user in self.users:
                hook(old=self, new=name, user=user)
        self._name = name

    # ------------------------------------------------------------ the ring

    @property
    def next(self) -> Node:
        """The node after this one; the graph's root after the last."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one; the graph's root before the first."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move or insert the node `x` in front of this one."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            log.debug("Trying to prepend a node to itself. This behavior has no effect on the graph.")
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        if self.op == "root" and before.op != "root":
            x._position = before._position + 1
        else:
            self.graph._ordered = False

    def append(self, x: Node) -> None:
        """Move or insert the node `x` behind this one."""
        if self._next is not x or self is x:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _place(self) -> int:
        """The node's place in its graph, counted again where nodes have been inserted since."""
        if not self.graph._ordered:
            self.graph._number()
        return self._position

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def __gt__(self, other: Node) -> bool:
        return self._place() > other._place()

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # ------------------------------------------------------------ arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments. Assigning them tells the nodes among them who uses them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._assign(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The arguments by name. Assigning them tells the nodes among them who uses them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._assign(self._args, k)

    def _assign(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def used(n: Node) -> Node:
            self._input_nodes.setdefault(n)
            n.users.setdefault(self)
            return n

        self._args = map_arg(args, used)
        self._kwargs = map_arg(kwargs, used)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in the order in which they appear."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace a positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument in front of the one at `idx`; at the end for idx = len(args)."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Put `replace_with` in the place of this node in the arguments of all its users; returns those it was replaced in.

        delete_user_cb(user) decides whether a user is changed. propagate_meta copies this node's meta to the other, whose
        own must be empty.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has "
                    ".meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user._tell_replaced(self, replace_with)
            user._swap(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Put `new_input` in the place of `old_input` in this node's arguments."""
        self._tell_replaced(old_input, new_input)
        self._swap(old_input, new_input)

    def _swap(self, old: Node, new: Node) -> None:
        def put(n: Node) -> Node:
            return new if n is old else n

        self._assign(map_arg(self.args, put), map_arg(self.kwargs, put))

    def _tell_replaced(self, old: Node, new: Node) -> None:
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old, new=new.name, user=self)

    # ------------------------------------------------------------ facts

    @property
    def stack_trace(self) -> str | None:
        """Where the operation was written, if the tracer recorded it (`record_stack_traces`)."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay although nobody uses its result: an input, the output, or a call with side effects.

        impure_random: whether moving the random stream is one.
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions:
                return True
            if isinstance(self.target, (OpOverload, OpOverloadPacket)):
                return _changes_something(self.target, impure_random)
            return impure_random and self.target in _RANDOM
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self.target)  # type: ignore[arg-type]
            if module is None:
                raise AssertionError(f"Did not find expected submodule target {self.target}")
            return getattr(module, "_is_impure", False)
        return False

    def normalized_arguments(
        self,
        root: Module,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """The arguments bound to the signature of the function or submodule called, as ArgsKwargsPair; None for others."""
        from flambeau.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target,  # type: ignore[arg-type]
                self.args,
                self.kwargs,
                arg_types,
                kwarg_types,
                normalize_to_only_use_kwargs=normalize_to_only_use_kwargs,
            )
        if self.op == "call_module":
            return normalize_module(
                root,
                self.target,  # type: ignore[arg-type]
                self.args,  # type: ignore[arg-type]
                self.kwargs,
                normalize_to_only_use_kwargs=normalize_to_only_use_kwargs,
            )
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    # ------------------------------------------------------------ printing

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        if isinstance(target, str):
            return target
        if hasattr(target, "__module__"):
            name = getattr(target, "__name__", None)
            if name is None:
                return _get_qualified_name(target)  # type: ignore[arg-type]
            if target.__module__ == "builtins":
                return f"builtins.{name}"
            if target.__module__ == "_operator":
                return f"operator.{name}"
        return _get_qualified_name(target)  # type: ignore[arg-type]

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node's line in str(graph).

        placeholder_names, maybe_return_typename: lists in which the text of the inputs and of the annotation of the result is
        collected; with the former given, a placeholder has no line of its own (None).
        """
        if self.op == "placeholder":
            if not isinstance(self.target, str):
                raise AssertionError(f"Expected target to be str, got {type(self.target)}")
            text = self.target + (f": {_type_repr(self.type)}" if self.type else "")
            if placeholder_names is not None:
                placeholder_names.append(text)
                return None
            kind = f"{_type_repr(self.type)} " if self.type else ""
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self.target}]{default}"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        kind = f"{_type_repr(self.type)} " if self.type else ""
        if include_tensor_metadata:
            kind = f"{kind}{_metadata(self)}"
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target="
        head += f"{self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_repr_fn"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _metadata(node: Node) -> str:
    text = tensor_annotation(node.meta.get("val"), stride=True, device=True)
    return f"Tensor {text}" if text else ""


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`a` with every node in it, at any depth of tuples, lists, dicts and slices, replaced by fn(node)."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`a` with every leaf of its tuples, lists, dicts and slices replaced by fn(leaf); lists and dicts become immutable ones."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        made = immutable_dict()
        for key, value in a.items():
            dict.__setitem__(made, key, map_aggregate(value, fn))
        return made
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def warn_missing_reference(kind: str) -> None:
    """The warning for a node that names something its module lacks."""
    warnings.warn(
        f"Attempted to insert a {kind} Node with no underlying reference in the owning GraphModule! Call "
        "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
        "Parameter, or nn.Module.register_buffer to add the necessary buffer",
        stacklevel=3,
    )


def nodes_in(a: Any) -> Iterable[Node]:
    """The nodes among arguments, in order."""
    found: list[Node] = []
    map_arg(a, found.append)
    return found
