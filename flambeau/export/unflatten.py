"""torch.export.unflatten: an exported program as modules again, each with the part of the graph that its original ran.

Which module a node belongs to is in its nn_module_stack. Stands on fx and exported_program; used by programs.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.base.symbolic.numbers import is_symbolic_number
from flambeau.export._unlift import assign
from flambeau.export.exported_program import ExportedProgram, ModuleCallSignature
from flambeau.export.graph_signature import ConstantArgument, InputKind, OutputKind
from flambeau.fx.graph import Graph
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_arg

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter:
    """Base class: what makes the leaves of the program's inputs of those of another container."""

    def adapt(
        self, target_spec: Any, input_spec: Any, input_args: list[Any], metadata: dict[str, Any] | None = None, obj: Any = None
    ) -> list[Any]:
        """The leaves for target_spec, of those given for input_spec."""
        raise NotImplementedError


class InterpreterModule(torch.nn.Module):
    """A module that runs a graph. With a signature it takes and gives the containers that the original did."""

    def __init__(self, graph: Graph, ty: str | None = None) -> None:
        super().__init__()
        self.graph, self._ty = graph, ty
        self.signature: ModuleCallSignature | None = None
        graph.owning_module = self  # type: ignore[assignment]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph gives. ValueError for arguments in other containers than the signature's."""
        if self.signature is None:
            return Interpreter(self, self.graph).run(*args, enable_io_processing=False)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.signature.in_spec:
            raise ValueError(f"expected arguments in {self.signature.in_spec}, got {spec}")
        made = Interpreter(self, self.graph).run(*leaves, enable_io_processing=False)
        return pytree.tree_unflatten(list(made), self.signature.out_spec)

    def type_name(self) -> str | None:
        """The class of the original, as PyTorch writes it."""
        return self._ty

    def finalize(self) -> None:
        """Check the graph."""
        self.graph.lint()

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False, include_device: bool = False, colored: bool = False
    ) -> str:
        """The code of the module and of those in it."""
        from flambeau.fx.graph_module import GraphModule

        made = GraphModule(self, copy.deepcopy(self.graph), "InterpreterModule")
        return made.print_readable(print_output, include_stride, include_device, colored=colored)


class InterpreterModuleDispatcher(torch.nn.Module):
    """A module with a signature that was called several times: each call runs the graph of its turn."""

    def __init__(self, call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        self._call_modules = call_modules  # a list is no part of the module's state: that of the first is
        self._turn = 0
        for kind in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            getattr(self, kind).update(getattr(call_modules[0], kind))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the graph whose turn it is gives."""
        module = self._call_modules[self._turn]
        self._turn = (self._turn + 1) % len(self._call_modules)
        return module(*args, **kwargs)

    def call_modules(self) -> list[InterpreterModule]:
        """The modules, by call."""
        return self._call_modules


class UnflattenedModule(torch.nn.Module):
    """An exported program as modules, under the names of the original; submodules may be exchanged for others.

    A submodule takes and gives what its part of the graph needs, or, if it was named in preserve_module_call_signature, what the
    original did. One that was called again is there again, as `name@1`.
    """

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        super().__init__()
        entry = export_module.module_call_graph[0].signature
        assert entry is not None
        self.module_call_graph = copy.deepcopy(export_module.module_call_graph)
        self.graph_signature = copy.deepcopy(export_module.graph_signature)
        self.flat_args_adapter, self.meta = flat_args_adapter, export_module.graph_module.meta
        self._entry = entry
        self.graph = Graph()
        self.graph.owning_module = self  # type: ignore[assignment]
        self.ivals = None
        nodes, self._values = _without_outputs_for_writes(export_module)
        _Builder(self, export_module, nodes).build()
        self.check_input_constraints = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the exported module gives. TypeError for inputs in other containers, unless an adapter takes them."""
        kwargs = {name: kwargs[name] for name in self._entry.in_spec.children()[1].context if name in kwargs} | kwargs
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._entry.in_spec:
            if self.flat_args_adapter is None:
                raise TypeError(
                    "There is no flat args adapter specified. Are you sure you are calling this with the right arguments? \n"
                    f"Input treespec: {spec}.\nExpected treespec: {self._entry.in_spec}"
                )
            leaves = self.flat_args_adapter.adapt(self._entry.in_spec, spec, leaves, self.meta, list(args))
            if len(leaves) != self._entry.in_spec.num_leaves:
                raise TypeError(
                    f"Flat args adaption failed, number of args mismatch Adatped: {len(leaves)} \n"
                    f"Exported module: {self._entry.in_spec.num_leaves}"
                )
        if self.check_input_constraints:
            _check_shapes(self._values, leaves)
        made = Interpreter(self, self.graph).run(*leaves, enable_io_processing=False)
        return pytree.tree_unflatten(list(made), self._entry.out_spec)

    def finalize(self) -> None:
        """Check the graph."""
        self.graph.lint()

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False, include_device: bool = False, colored: bool = False
    ) -> str:
        """The code of the module and of those in it."""
        return InterpreterModule.print_readable(
            self,
            print_output,
            include_stride,
            include_device,
            colored,  # type: ignore[arg-type]
        )


def _check_shapes(values: list[Any], leaves: list[Any]) -> None:
    for i, (known, given) in enumerate(zip(values, leaves)):
        if isinstance(known, torch.Tensor) and isinstance(given, torch.Tensor):
            for d, n in enumerate(known.shape):
                if isinstance(n, int) and (given.dim() != known.dim() or given.shape[d] != n):
                    raise RuntimeError(
                        f"Expected input at *args[{i}].shape[{d}] to be equal to {n}, but got "
                        f"{given.shape[d] if d < given.dim() else 'fewer dimensions'}"
                    )


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """An exported program as modules under the names of the original.

    flat_args_adapter: makes the inputs of those in other containers. RuntimeError for nodes that don't say which module they
    belong to.
    """
    return UnflattenedModule(module, flat_args_adapter)


# ---------------------------------------------------------------- the graph, cut into modules


def _without_outputs_for_writes(program: ExportedProgram) -> tuple[list[Node], list[Any]]:
    """The nodes of a graph that writes where the program has outputs for what is written; the values of the caller's inputs."""
    graph = copy.deepcopy(program.graph)
    placeholders = graph.find_nodes(op="placeholder")
    signature = program.graph_signature
    inputs = {spec.arg.name: node for node, spec in zip(placeholders, signature.input_specs)}
    state = {spec.target: node for node, spec in zip(placeholders, signature.input_specs) if spec.target is not None}
    output = graph.output_node()
    results: list[Any] = []
    for value, spec in zip(output.args[0], signature.output_specs):  # type: ignore[arg-type]
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            results.append(value)
            continue
        target = inputs[spec.target] if spec.kind == OutputKind.USER_INPUT_MUTATION else state[spec.target]
        with graph.inserting_before(output):
            made = graph.call_function(torch.ops.aten.copy_.default, (target, value))
        made.meta = {"nn_module_stack": dict(list(_stack(value).items())[:1]), "val": value.meta.get("val")}
    output.args = (tuple(results),)
    values = [n.meta.get("val") for n, spec in zip(placeholders, signature.input_specs) if spec.kind == InputKind.USER_INPUT]
    return list(graph.nodes), values


def _stack(node: Node) -> dict[str, Any]:
    return node.meta.get("nn_module_stack") or {}


class _Part:
    """A module that is being built: its graph, and which of its nodes stand for which of the program's."""

    def __init__(self, path: list[str], module: Any, outer: _Part | None, original: str = "") -> None:
        self.path, self.module, self.outer, self.original = path, module, outer, original
        self.graph: Graph = module.graph
        self.own: dict[Node, Any] = {}
        self.asked: list[Node] = []  # of the program, that this part gets from around it
        self.inputs: list[Node] = []


class _Builder:
    def __init__(self, root: UnflattenedModule, program: ExportedProgram, nodes: list[Node]) -> None:
        self.root, self.program, self.nodes = root, program, nodes
        self.names = {e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature is not None}
        self.state: dict[Node, str] = {}
        self.copies: dict[int, torch.Tensor] = {}
        self.by_name = {node.name: node for node in nodes}
        self.place = {node: i for i, node in enumerate(nodes)}
        self.at = 0
        self.calls: dict[tuple[int, str], tuple[Any, list[InterpreterModule]]] = {}

    def build(self) -> None:
        """Fill the root with modules and graphs."""
        top = _Part([], self.root, None)
        specs = self.program.graph_signature.input_specs
        for node, spec in zip([n for n in self.nodes if n.op == "placeholder"], specs):
            if spec.kind == InputKind.USER_INPUT:
                top.own[node] = self.root.graph.placeholder(node.name)
                top.own[node].meta = dict(node.meta)
            else:
                self.state[node] = spec.target
                self._attach(self.root, str(spec.target), spec)
        self.nodes = [n for n in self.nodes if n.op != "placeholder"]
        self._fill(top)
        output = self.nodes[-1]
        self.root.graph.output(map_arg(output.args[0], lambda n: self._value(top, n)))
        for (_, name), (holder, modules) in self.calls.items():
            if len(modules) > 1:
                assign(holder, name, InterpreterModuleDispatcher(modules), setattr)
        self.root.finalize()

    def _attach(self, root: torch.nn.Module, name: str, spec: Any) -> None:
        held = self.program._value_of(spec)
        if id(held) not in self.copies:  # the modules' state is their own; what was one tensor is one again
            with torch.no_grad():
                copied = held.clone()
            self.copies[id(held)] = torch.nn.Parameter(copied, held.requires_grad) if spec.kind == InputKind.PARAMETER else copied
        value = self.copies[id(held)]
        if spec.kind == InputKind.PARAMETER:
            assign(root, name, value, lambda m, n, v: m.register_parameter(n, v))
        elif spec.kind == InputKind.BUFFER:
            assign(root, name, value, lambda m, n, v: m.register_buffer(n, v, persistent=spec.persistent))
        else:
            assign(root, name, value, lambda m, n, v: m.register_buffer(n, v, persistent=False))

    def _fill(self, part: _Part) -> None:
        """Take in the nodes of a part, and of those within it, until one comes that isn't in it."""
        depth = len(part.path)
        while self.at < len(self.nodes):
            node = self.nodes[self.at]
            if node.op == "output":
                return
            if node.op == "get_attr":
                self._take(part, node)
                continue
            stack = list(_stack(node).items())
            if not stack:
                raise RuntimeError(f"Unable to find nn_module_stack for node {node}")
            keys = [key for key, _ in stack]
            if keys[1 : depth + 1] != part.path:
                return
            if len(keys) > depth + 1:
                self._inner(part, keys[depth + 1], stack[depth + 1][1][0])
            else:
                self._take(part, node)

    def _take(self, part: _Part, node: Node) -> None:
        if node.op == "get_attr":
            setattr(part.module, str(node.target), self.program.graph_module.get_submodule(str(node.target)))
        made = part.graph.node_copy(node, lambda n: self._value(part, n))
        part.own[node] = made
        self.at += 1

    def _inner(self, part: _Part, key: str, path: str) -> None:
        """The call of a submodule: its module, filled with its nodes, and a node that calls it."""
        signature = self.names.get(key.removeprefix("L__self__"))
        ty = next(kind for k, (_, kind) in _stack(self.nodes[self.at]).items() if k == key)
        module = InterpreterModule(Graph(), ty)
        module.signature = signature
        name = path.removeprefix(part.original + ".") if part.original else path
        own, count = name, 0
        while isinstance(_found(part.module, own), InterpreterModule):  # called before, from here or from another module
            count += 1
            own = f"{name}@{count}"
        _place(part.module, own, module)
        inner = _Part([*part.path, key], module, part, path)
        if signature is not None:
            self.calls.setdefault((id(part.module), name), (part.module, []))[1].append(module)
            for i, arg in enumerate(signature.inputs):
                flat = None if isinstance(arg, ConstantArgument) else self.by_name.get(arg.name)
                self._input(inner, flat, f"_positional_arg_{i}")
        start = self.at
        self._fill(inner)
        inside = set(self.nodes[start : self.at])
        later = [n for n in inner.own if n in inside and any(u not in inside for u in n.users)]
        later.sort(key=self.place.__getitem__)
        if signature is None:
            self._call(part, inner, own, later)
        else:
            self._call_as_before(part, inner, name, signature, inside, later)
        module.finalize()

    def _call(self, part: _Part, inner: _Part, name: str, results: list[Node]) -> None:
        """The call of a module that takes and gives what is needed."""
        made = tuple(inner.own[n] for n in results)
        inner.graph.output(made[0] if len(made) == 1 else made)
        call = part.graph.call_module(name, tuple(self._value(part, n) for n in inner.asked))
        if len(results) == 1:
            part.own[results[0]] = call
            call.meta = dict(results[0].meta)
        else:
            call.meta["val"] = tuple(n.meta.get("val") for n in results)
            for n, item in zip(results, self._items(part, call, len(results))):
                part.own[n] = item
                item.meta = dict(n.meta)

    def _items(self, part: _Part, call: Node, count: int) -> list[Node]:
        return [part.graph.call_function(operator.getitem, (call, i)) for i in range(count)]

    def _call_as_before(
        self, part: _Part, inner: _Part, name: str, signature: ModuleCallSignature, inside: set[Node], later: list[Node]
    ) -> None:
        """The call of a module that takes and gives what the original did."""
        outputs = [None if isinstance(a, ConstantArgument) else self.by_name.get(a.name) for a in signature.outputs]
        missing = [n for n in later if n not in outputs]
        if missing or len(inner.asked) > len(signature.inputs):
            what = missing[0] if missing else inner.asked[-1]
            raise NotImplementedError(
                f"torch.export.unflatten: {name}, whose signature was preserved, shares {what} with the modules around it, which "
                "is none of its arguments and results; leave it out of preserve_module_call_signature"
            )
        # What nothing uses may have been taken out of the graph: None stands for it.
        made = [getattr(a, "value", None) if n is None else self._value(inner, n) for n, a in zip(outputs, signature.outputs)]
        inner.graph.output(tuple(made))
        given = [getattr(a, "value", None) if n is None else self._value(part, n) for n, a in zip(inner.asked, signature.inputs)]
        args, kwargs = pytree.tree_unflatten(given, signature.in_spec)
        call = part.graph.call_module(name, tuple(args), dict(kwargs))
        flat = part.graph.call_function(pytree.tree_leaves, (call,))
        values = [getattr(a, "value", None) if n is None else n.meta.get("val") for n, a in zip(outputs, signature.outputs)]
        flat.meta["val"] = values
        call.meta["val"] = pytree.tree_unflatten(values, signature.out_spec)
        for i, n in enumerate(outputs):
            if n is not None and (n in inside or n in inner.asked):
                part.own[n] = part.graph.call_function(operator.getitem, (flat, i))
                part.own[n].meta = dict(n.meta)

    # ---- values

    def _value(self, part: _Part, node: Node) -> Any:
        """What stands for a node of the program in a part."""
        found = part.own.get(node)
        if found is not None:
            return found
        target = self.state.get(node)
        if target is not None:
            inside = part.original + "." if part.original else ""
            if target.startswith(inside):
                return self._attribute(part, node, target.removeprefix(inside))
        if part.outer is None:
            raise RuntimeError(f"{node} is used before it is made")
        if getattr(part.module, "signature", None) is not None and is_symbolic_number(node.meta.get("val")):
            part.own[node] = part.graph.node_copy(node, lambda n: self._value(part, n))  # a size, worked out again
            return part.own[node]
        return self._input(part, node, node.name)

    def _attribute(self, part: _Part, node: Node, name: str) -> Any:
        if part.outer is not None and not _has(part.module, name):
            spec = next(s for s in self.program.graph_signature.input_specs if s.arg.name == node.name)
            self._attach(part.module, name, spec)
        made = part.own[node] = part.graph.get_attr(name)
        made.meta = dict(node.meta)
        return made

    def _input(self, part: _Part, node: Node | None, name: str) -> Any:
        """A placeholder for what a part gets from around it."""
        with part.graph.inserting_after(part.inputs[-1]) if part.inputs else part.graph.inserting_before(_first(part.graph)):
            made = part.graph.placeholder(name)
        part.inputs.append(made)
        part.asked.append(node)  # type: ignore[arg-type]
        if node is not None:
            part.own[node] = made
            made.meta = dict(node.meta)
        return made


def _place(root: Any, name: str, module: InterpreterModule) -> None:
    """Hang a module below another, with the state and the submodules that lie at its name already."""
    *path, last = name.split(".")
    for step in path:
        if step not in root._modules:
            root.add_module(step, torch.nn.Module())
        root = root._modules[step]
    before = root._modules.get(last)
    if before is not None:
        for kind in ("_parameters", "_buffers", "_modules"):
            getattr(module, kind).update(getattr(before, kind))
        module._non_persistent_buffers_set |= before._non_persistent_buffers_set
    root.add_module(last, module)


def _has(module: torch.nn.Module, name: str) -> bool:
    return _found(module, name) is not None


def _found(module: torch.nn.Module, name: str) -> Any:
    """What lies below a module at a name; None for nothing."""
    found: Any = module
    for step in name.split("."):
        found = getattr(found, step, None)
    return found


def _first(graph: Graph) -> Node:
    """The first node, or the place for one."""
    return next(iter(graph.nodes), graph._root)
