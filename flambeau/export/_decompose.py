"""ExportedProgram.run_decompositions: the graph without writes, and of the operators that a table leaves whole.

The graph is run on fake tensors and recorded again. An operator that PyTorch makes of others before any table is asked is taken
apart first; FunctionalTensorMode then answers writes by what doesn't write; make_fx's mode, outside of it, asks the table and
records. Used by exported_program.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._decomp.registry import Composite
from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from flambeau._subclasses.functional_tensor import FunctionalTensorMode
from flambeau._subclasses.symbolic.run import run
from flambeau._subclasses.symbolic.state import kept, sizes_of
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.codegen.runtime.launch import watchers
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.modes.modes import local
from flambeau.core.operator.facets import record_of
from flambeau.dispatcher import handlers
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload
from flambeau.export._regions import is_stretch
from flambeau.export.graph_signature import ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument
from flambeau.fx import traceback as fx_traceback
from flambeau.fx.experimental.proxy_mode import (
    ProxyTorchDispatchMode,
    PythonKeyTracer,
    _without_memory,
    track_tensor_tree,
    without_modes,
)
from flambeau.fx.experimental.size_nodes import SizeNodes
from flambeau.fx.experimental.unbacked_bindings import bind_unbacked
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node

if TYPE_CHECKING:
    from flambeau.export.exported_program import ExportedProgram

__all__ = ["SIZES", "decomposed"]

Table = Mapping[Any, Callable[..., Any]]
_MUTATIONS = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
              InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION}  # fmt: skip


#: What asks a tensor for its sizes.
SIZES: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.sym_size.int: lambda x, dim: x.size(dim),
    torch.ops.aten.sym_stride.int: lambda x, dim: x.stride(dim),
    torch.ops.aten.sym_storage_offset.default: lambda x: x.storage_offset(),
}


class _Tracer(PythonKeyTracer):
    """make_fx's, for tensors without values: one that nothing recorded has made is an error, never a constant."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.root, self.graph, self.tensor_attrs = torch.nn.Module(), graph, {}
        self.running: Any = None

    def tracked(self, tensor: Any) -> Any:
        """What is known of a tensor: `_unseen` refuses others."""
        return self.known(tensor)

    def create_node(self, kind: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A node."""
        declared = target.declaration if kind == "call_function" and isinstance(target, OpOverload) else None
        if declared is not None and target.namespace != "aten" and not declared.is_graph_operator:
            raise self.unseen()
        return super().create_node(kind, target, *args, **kwargs)

    def create_arg(self, a: Any) -> Any:
        """A value as a node's argument."""
        if isinstance(a, FakeTensor):
            raise self.unseen()
        return super().create_arg(a)

    def unseen(self) -> NotImplementedError:
        """The error of an operator that is computed by what can't be recorded."""
        return NotImplementedError(
            f"torch.export: a decomposition of {self.running} is not implemented in flambeau: take it out of the table, "
            f"`table = torch.export.default_decompositions(); table.pop({self.running})`, and it stays whole"
        )


class _Again(Interpreter):
    """Runs a program's graph on fake tensors; composite operators that the table has are taken apart, others are kept whole."""

    def __init__(self, module: GraphModule, table: Table, proxies: _Proxies, mode: FunctionalTensorMode) -> None:
        super().__init__(module)
        self.names: dict[int, str] = {}  # of the graphs that operators call
        self.made: dict[str, torch.nn.Module] = {}
        self.renamed: dict[str, str] = {}  # from nodes of the program to the new ones
        self.table, self.proxies, self.mode = table, proxies, mode
        self.tracer: _Tracer = proxies.tracer  # type: ignore[assignment]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the program."""
        watchers.append(self._unseen)
        try:
            return super().run(*args, **kwargs)
        finally:
            watchers.remove(self._unseen)

    def _unseen(self) -> None:
        """Asked before a kernel would run: one that no operator stands for is an error, as what it writes wouldn't be seen."""
        if local.dispatch_modes:
            raise self.tracer.unseen()

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator."""
        self.tracer.running = target
        env = self.proxies.sizes.env
        known = len(env.replacements) if env is not None else 0
        made = self.call(target, args, kwargs)
        if env is not None and any(e.is_number for e in list(env.replacements.values())[known:]):
            raise self._specialized(target)
        for x in pytree.tree_leaves(made):
            if isinstance(x, torch.Tensor) and self.tracer.tracked(self.mode.value_of(x)) is None:
                raise self.tracer.unseen()
        return made

    def run_node(self, n: Node) -> Any:
        """The value of a node. NotImplementedError where sizes with symbols have become numbers."""
        if isinstance(n.target, HigherOrderOperator):
            with self._set_current_node(n):
                return self._higher_order(n, *self.fetch_args_kwargs_from_env(n))
        if n.target is torch.ops.aten._assert_scalar.default and isinstance(n.args[0], Node):
            truth = self.env[n.args[0]]
            if not is_symbolic_number(truth) or truth.node.shape_env.decide(truth.node.expr) is not None:
                return self._check(n)  # known by now, as it is what the check itself says
        env, fresh = self.proxies.sizes.env, n.meta.get("unbacked_bindings")
        with contextlib.nullcontext() if env is None or not fresh else env.again(fresh):
            made = super().run_node(n)
        found = self.tracer.tracked(self.mode.value_of(made)) if isinstance(made, torch.Tensor) else None
        if found is not None:
            self.renamed[n.name] = found.proxy.node.name
        if n.op == "call_function":
            for x, was in zip(pytree.tree_leaves(made), pytree.tree_leaves(n.meta.get("val"))):
                if isinstance(x, torch.Tensor) and isinstance(was, torch.Tensor) and kept(was) is not None:
                    if any(e.is_number and not w.is_number for e, w in zip(sizes_of(x), sizes_of(was))):
                        raise self._specialized(n.target)
        return made

    def _check(self, n: Node) -> None:
        """A check as the program has it."""
        name = self.tracer.graph._target_to_str("_assert_scalar")
        given = self._as_it_was(n.args[0]), n.args[1]
        self.tracer.create_proxy("call_function", n.target, given, {}, name=name)  # type: ignore[arg-type]

    def _as_it_was(self, x: Any) -> Any:
        """The number that a node gives, computed as in the program from what a run tells, whatever is known of it."""
        if not isinstance(x, Node):
            return x
        value = x.meta.get("val")
        found = self.proxies.sizes.proxies.get(value.node._expr) if is_symbolic_number(value) else None
        if found is not None:
            return found
        if x.op == "call_function" and not isinstance(x.target, OpOverload):
            made = self.tracer.create_proxy("call_function", x.target, tuple(map(self._as_it_was, x.args)), {})
            made.node.meta["val"] = value
            return made
        return self.proxies.sizes.proxy(value) if is_symbolic_number(value) else value

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A graph that an operator calls."""
        found = super().get_attr(target, args, kwargs)
        self.names[id(found)] = target
        return found

    def _higher_order(self, n: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of an operator whose functions are graphs, each taken apart by itself; that of a stretch with gradients or
        autocast switched becomes part of this graph.
        """
        if is_stretch(n):
            return n.target(*[self._stretch(x) if isinstance(x, GraphModule) else x for x in args], **kwargs)

        def proxy_of(x: Any) -> Any:
            if isinstance(x, torch.nn.Module):
                return self._inner(x)
            return self.proxies._proxy_of(self.mode.current(x))

        given, named = pytree.tree_map(proxy_of, (args, kwargs))
        name = self.tracer.graph._target_to_str(n.target.__name__)  # type: ignore[union-attr]
        proxy = self.tracer.create_proxy("call_function", n.target, given, named, name=name)  # type: ignore[arg-type]
        return self.proxies.track(pytree.tree_map(_without_memory, n.meta["val"]), proxy)

    def _stretch(self, module: GraphModule) -> Callable[..., Any]:
        again = _Again(module, self.table, self.proxies, self.mode)
        again.names, again.made, again.renamed = self.names, self.made, self.renamed
        return again.run

    def _inner(self, module: Any) -> Any:
        name = self.names[id(module)]
        if name not in self.made:
            with without_modes():
                apart = _Apart(module, self.table)
            if apart.written:
                raise NotImplementedError(
                    f"torch.export: a write to an input of {name} is not implemented in flambeau; return what is written"
                )
            apart.finish(apart.results)
            self.made[name] = GraphModule(apart.submodules, apart.graph)
        return self.tracer.create_proxy("get_attr", name, (), {})

    def _specialized(self, target: Any) -> NotImplementedError:
        return NotImplementedError(
            f"torch.export: a decomposition of {target} with symbolic sizes is not implemented in flambeau: make its dimensions "
            f"static, or take it out of the table, `table = torch.export.default_decompositions(); table.pop({target})`"
        )

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of an operator, by the table's function where it is made of others."""
        if target in SIZES:
            number = SIZES[target](*args)
            self.proxies.sizes.proxy(number)
            return number
        if isinstance(target, OpOverload) and autocasting(record := record_of(target.overloadpacket.__name__)):
            with cast_arguments(record, args, kwargs) as (given, named):
                return self._apart(target, tuple(given), named)
        return self._apart(target, args, kwargs)

    def _apart(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, OpOverload) or not target._composite:
            return super().call_function(target, args, kwargs)
        rule = self.table.get(target)
        if rule is not None:
            return rule(*args, **kwargs)
        if any(a.alias_info is not None for a in [*target._schema.arguments, *target._schema.returns]):
            return Composite(target)(*args, **kwargs)
        return handlers.hand_over(target, args, kwargs)


class _Proxies(ProxyTorchDispatchMode):
    """make_fx's mode, for fake tensors whose sizes may have symbols."""

    def __init__(self, tracer: _Tracer, table: Table, sizes: SizeNodes) -> None:
        super().__init__(tracer, "fake")
        self.sizes = sizes
        self.decomposition_table = table
        self.original: Any = None  # the operator that is being taken apart

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        before = self.original
        self.original = func if before is None else before
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.original = before

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given, named = pytree.tree_map(self._proxy_of, (args, kwargs))
        name = self.tracer.graph._target_to_str(func.overloadpacket.__name__)
        proxy = self.tracer.create_proxy("call_function", func, given, named, name=name)
        proxy.node.meta["original_aten"] = self.original
        made = run(func, args, kwargs, self.sizes.env)
        return self.track(made, proxy)

    def _proxy_of(self, x: Any) -> Any:
        return self.sizes.proxy(x) if is_symbolic_number(x) else self.tracer.unwrap_proxy(x)

    def track(self, made: Any, proxy: Any) -> Any:
        """Let a proxy stand for a tensor, a symbolic number, or several in a list."""
        if is_symbolic_number(made):
            self.sizes.of_number(made, proxy)
            return made
        track_tensor_tree(made, proxy, constant=None, tracer=self.tracer)
        for x in pytree.tree_leaves(made):
            found = self.tracer.tracked(x) if isinstance(x, torch.Tensor) else None
            if found is not None:
                self.sizes.of_tensor(x, found.proxy)
        return made


class _Apart:
    """A graph taken apart: the new graph without its output, the nodes of results, what was written to inputs, inner graphs.

    trained: the names of inputs that want a gradient.
    """

    def __init__(self, module: GraphModule, table: Table, trained: frozenset[str] = frozenset()) -> None:
        self.graph = Graph()
        tracer, fakes = _Tracer(self.graph), _fake_mode_of(module.graph)
        self.shape_env = fakes.shape_env
        sizes = SizeNodes(tracer, self.shape_env)
        rules = {o: rule for o, rule in table.items() if not isinstance(rule, Composite)}
        proxies, functional = _Proxies(tracer, rules, sizes), FunctionalTensorMode()

        def node_of(value: Any) -> Any:
            found = proxies._proxy_of(value)
            return getattr(found, "node", found)

        with fx_traceback.preserve_node_meta():
            inputs = [_input(node, proxies, node.name in trained) for node in module.graph.find_nodes(op="placeholder")]
            with torch.no_grad(), sizes if sizes.env is not None else contextlib.nullcontext(), fakes, proxies, functional:
                again = _Again(module, table, proxies, functional)
                made = again.run(*inputs)
                outputs = functional.current(made)
                written = [(i, functional.current(x)) for i, x in enumerate(inputs)
                           if isinstance(x, torch.Tensor) and functional.written(x)]  # fmt: skip
                self.results = pytree.tree_map(node_of, outputs)
        self.submodules, self.renamed = again.made, again.renamed
        self.written = [(i, node_of(x)) for i, x in written if x is not inputs[i]]

    def finish(self, results: Any, kept: frozenset[str] = frozenset()) -> None:
        """Return `results` from the graph, and take out what nothing needs but the nodes of these names."""
        self.graph.output(results)
        for node in reversed(list(self.graph.nodes)):
            if node.op in ("call_function", "get_attr") and not node.users and node.name not in kept and not _is_needed(node):
                self.graph.erase_node(node)
        if self.shape_env is not None:
            bind_unbacked(self.graph, self.shape_env)
        self.graph.lint()


def decomposed(
    program: ExportedProgram, table: Table
) -> tuple[Graph, ExportGraphSignature, dict[str, torch.nn.Module], dict[str, str]]:
    """The graph and signature of a program without writes, in the operators that the table leaves; the graphs that they call,
    and what nodes are called now.
    """
    signature = program.graph_signature
    trained = frozenset(
        name for name, target in signature.inputs_to_parameters.items() if program.state_dict[target].requires_grad
    )
    apart = _Apart(program.graph_module, table, trained)
    results = list(apart.results)
    changed, specs = _changes(apart.written, signature)
    old = signature.output_specs[len(signature.output_specs) - len(results) :] if results else []
    for node, spec in zip(results, old):
        arg = TensorArgument(node.name) if isinstance(node, Node) else copy.copy(spec.arg)
        specs.append(OutputSpec(spec.kind, arg, spec.target))
    calls = [entry.signature for entry in program.module_call_graph if entry.signature is not None]
    named = [a.name for call in calls for a in (*call.inputs, *call.outputs)]
    apart.finish((*changed, *results), frozenset(apart.renamed.get(name, name) for name in named))
    return apart.graph, ExportGraphSignature(copy.deepcopy(signature.input_specs), specs), apart.submodules, apart.renamed


def _is_needed(node: Node) -> bool:
    """Whether a node without users stays: it checks something, or writes to what only the operator knows."""
    if node.op == "get_attr":
        return False
    return node.is_impure() or (isinstance(node.target, OpOverload) and not node.target._schema.returns)


def _input(node: Node, proxies: _Proxies, trained: bool) -> Any:
    """The placeholder of a node's name, and the value that it stands for."""
    proxy = proxies.tracer.create_proxy("placeholder", str(node.target), (), {}, name=node.name)
    proxy.node.name = proxy.node.target = node.name
    proxy.node.meta.update({n: x for n, x in node.meta.items() if n not in ("val", "tensor_meta")})
    value = node.meta["val"]
    if isinstance(value, torch.Tensor) or is_symbolic_number(value):
        made = _without_memory(value)
        if trained:
            made.requires_grad = True  # the setter counts who holds the tensor; the method would look for views of it
        return proxies.track(made, proxy)
    proxy.node.meta["val"] = value
    return value


def _fake_mode_of(graph: Graph) -> Any:
    values = [node.meta.get("val") for node in graph.nodes]
    found = next((x.fake_mode for x in pytree.tree_leaves(values) if isinstance(x, FakeTensor)), None)
    return FakeTensorMode(allow_non_fake_inputs=True) if found is None else found


def _changes(written: list[tuple[int, Any]], signature: ExportGraphSignature) -> tuple[list[Any], list[OutputSpec]]:
    """The new values of inputs that the program writes to, and what they are."""
    nodes, specs = [], []
    for i, node in written:
        spec = signature.input_specs[i]
        if spec.kind not in _MUTATIONS:
            raise NotImplementedError(
                f"torch.export: a write to the constant {spec.target} is not implemented in flambeau; make it a buffer"
            )
        if spec.kind == InputKind.BUFFER and node.op == "call_function" and node.target is torch.ops.aten.copy.default:
            node = node.args[1]
        nodes.append(node)
        target = spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target
        specs.append(OutputSpec(_MUTATIONS[spec.kind], TensorArgument(node.name), target))
    return nodes, specs
