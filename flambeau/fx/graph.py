"""A graph of operations: what a function or module computes, as data that can be read, changed and turned into Python again.

    g = Graph()
    x = g.placeholder("x")
    g.output(g.call_function(torch.relu, (x,)))
    print(g.python_code("self").src)

Stands on fx.node (the nodes), fx.namespace (their names) and fx.codegen (the code); used by fx.graph_module and the tracers.
"""

# ruff: noqa: F401 - PyTorch has the names of codegen, namespace and names in this module

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import flambeau as torch
from flambeau.fx._compatibility import compatibility
from flambeau.fx.codegen import (
    CodeGen,
    PythonCode,
    _BoxedCodeGen,
    _format_target,
    _is_from_torch,
    _parse_stack_trace,
    _ParsedStackTrace,
    _PyTreeCodeGen,
    _PyTreeInfo,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from flambeau.fx.names import _get_qualified_name, _illegal_char_regex, _is_magic, _name_regex, _snake_case, public_name, shown
from flambeau.fx.namespace import _custom_builtins, _CustomBuiltin, _illegal_names, _Namespace, _register_custom_builtin
from flambeau.fx.node import Argument, Node, Target, _legal_ops, _type_repr, map_arg, warn_missing_reference
from flambeau.fx.tables import simple_table
from flambeau.utils._dtype_abbrs import dtype_abbrs as dtype_abbrs

if TYPE_CHECKING:
    from flambeau.fx._symbolic_trace import Tracer
    from flambeau.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

log = logging.getLogger(__name__)
TransformCodeFunc = Callable[[list[str]], list[str]]
_NO_DEFAULT: Any = object()


class _node_list:
    """The nodes of a graph in order; the node at hand may be erased, and others inserted, while they are gone through."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"Invalid direction: {direction}")
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        node = getattr(self.graph._root, self.direction)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


class _InsertPoint:
    """Where new nodes go until the end of a `with` block."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph, self.orig_insert = graph, graph._insert
        graph._insert = new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.graph._insert = self.orig_insert


class Graph:
    """Nodes in the order in which they run. Made by a Tracer, or node by node."""

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._len = 0
        self._ordered = True
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._owners = 0
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._root: Node = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose forward the graph is; None where there are several."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order; also `reversed(graph.nodes)` and `len(graph.nodes)`."""
        return _node_list(self)

    def _number(self) -> None:
        for position, node in enumerate(self.nodes):
            node._position = position
        self._ordered = True

    def output_node(self) -> Node:
        """The node of what is returned, which is the last. Raises AssertionError for another."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of one kind, and with one target where that is given, in order."""
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # ------------------------------------------------------------ making nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A new node at the insert point. name: what to call it if that is free; otherwise it is called after the target."""
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        made = Node(self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(made.name, made)
        self._insert(made)
        self._len += 1
        for hook in getattr(self._owning_module, "_create_node_hooks", ()):
            hook(made)
        return made

    def placeholder(self, name: str, type_expr: Any | None = None, default_value: Any = _NO_DEFAULT) -> Node:
        """An input, with an annotation and a default."""
        args = () if default_value is _NO_DEFAULT else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """The value of a parameter, buffer or other attribute of the module by its dotted path. Warns if there is none."""
        owner = self.owning_module
        if owner is not None and not _reachable(owner, qualified_name):
            warn_missing_reference("get_attr")
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A call of a submodule by its dotted path. Warns if there is none."""
        owner = self.owning_module
        if owner is not None and owner.get_submodule(module_name) is None:
            warn_missing_reference("call_module")
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """args[0].method_name(*args[1:], **kwargs)."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """the_function(*args, **kwargs)."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """What the graph returns: nodes and containers of nodes."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """A copy of a node of another graph; arg_transform gives for each of its inputs the value in this graph."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy the nodes of `g` to the insert point; val_map gives nodes that stand for some of them, and gets the others.

        Returns what the output of `g` is here, and the output node of `g` with return_output_node; None if it has none.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            known = public_name(target)
            name = target.__name__ if known is None else known.rpartition(".")[2]
        else:
            if not isinstance(target, str):
                raise AssertionError(f"Expected target to be str, got {type(target)}")
            name = target
            if _is_magic(name):
                name = name[2:-2]
        return _snake_case(name)

    # ------------------------------------------------------------ changing

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out. Raises RuntimeError if others use it, or if it is another graph's."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!"
            )
        if to_erase.graph != self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            log.warning("erase_node(%s) on an already erased node", to_erase)
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._assign((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """`with graph.inserting_before(n):` - new nodes go in front of n; to the beginning of the graph for None."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph != self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """`with graph.inserting_after(n):` - new nodes go behind n, one after the other; to the end of the graph for None."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph != self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out the nodes that nobody uses and that have no side effect; returns whether there were any.

        is_impure_node: what has a side effect, if not Node.is_impure.
        """
        self.lint()
        impure = is_impure_node or (lambda node: node.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        owner = self.owning_module
        for node in self.find_nodes(op="call_module") if owner is not None else ():
            inner = getattr(owner.get_submodule(str(node.target)), "graph", None) if owner is not None else None
            if isinstance(inner, Graph):
                changed |= inner.eliminate_dead_code()
        return changed

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)

    # ------------------------------------------------------------ code and text

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have another object write the code."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """The values of the placeholders for the arguments of the generated function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the generated function returns for the graph's output."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Register a function of the lines of code; as a context manager, only for the block.

        make_transformer(the one that is registered, or None) returns the function from lines to lines.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def on_generate_code_context_manager() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return on_generate_code_context_manager()

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as the source of a function; root_module is the name by which it refers to the module, usually self.

        verbose: with comments that say where nodes come from, and shapes where meta has them.
        """
        return self._python_code(
            root_module,
            _Namespace(),
            verbose=verbose,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            record_func=record_func,
            additional_meta=additional_meta,
        )

    def _python_code(self, root_module: str, namespace: _Namespace, **options: Any) -> PythonCode:
        return self._codegen._gen_python_code(self.nodes, root_module, namespace, **options)

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [[n.op, n.name, shown(n.target), n.args, n.kwargs] for n in self.nodes]
        print(simple_table(["opcode", "name", "target", "args", "kwargs"], rows))

    # ------------------------------------------------------------ checking and copying

    def lint(self) -> None:
        """Raise RuntimeError if the graph is no graph: used before defined, erased but used, a name twice, a missing target."""
        from flambeau.fx.lint import lint

        lint(self)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = memo if memo is not None else {}
        g = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = g
        copied: dict[Node, Node] = {}
        made = g.graph_copy(self, copied, return_output_node=True)
        g._codegen = copy.deepcopy(self._codegen)
        if made is not None:
            result, old = made
            new = g.output(result, type_expr=getattr(old, "type", None))
            new.meta = copy.copy(old.meta)
        for node in g.nodes:
            node.meta = copy.copy(node.meta)
        return g

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["_insert"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._insert = self._root.prepend


def _reachable(module: Any, path: str) -> bool:
    """Whether a dotted path leads to a parameter, buffer, submodule or other attribute."""
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True
