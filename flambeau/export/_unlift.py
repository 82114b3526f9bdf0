"""From an exported program to a module: parameters, buffers and constants are its attributes again. Used by ExportedProgram."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.export._guards import Guard, alike, guards_of, input_texts
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node

if TYPE_CHECKING:
    from flambeau.export.exported_program import ExportedProgram

__all__ = ["GuardsFn", "unlifted"]


class GuardsFn(torch.nn.Module):
    """Checks the inputs of an exported program: forward(*leaves) raises AssertionError where they aren't as they were traced."""

    def __init__(self, guards: list[Guard]) -> None:
        super().__init__()
        self._guards = guards
        self._is_impure = True

    def forward(self, *args: Any) -> None:
        """Check the leaves of the inputs."""
        for text, holds in self._guards:
            if not holds(args):
                raise AssertionError(f"Guard failed: {text}")


def assign(root: torch.nn.Module, target: str, value: Any, how: Callable[[torch.nn.Module, str, Any], None]) -> None:
    """Give a module an attribute `a.b.c`, and the modules on the way there."""
    *path, name = target.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, torch.nn.Module())
        root = root._modules[part]  # type: ignore[assignment]
    how(root, name, value)


def _unlift_exported_program_lifted_states(ep: ExportedProgram, check_guards: bool = True) -> GraphModule:
    """`ep.module()`, by PyTorch's inner name."""
    return unlifted(ep, check_guards)


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any) -> NoReturn:
        raise NotImplementedError(f"Calling {what}() is not supported yet.")

    return refuse


def unlifted(program: ExportedProgram, check_guards: bool) -> GraphModule:
    """A module that computes what the program does."""
    signature = program.graph_signature
    entry = program.module_call_graph[0].signature
    assert entry is not None
    root = torch.nn.Module()
    for spec in signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            continue
        value = program._value_of(spec)
        if spec.kind == InputKind.PARAMETER:
            assign(root, spec.target, value, lambda m, n, v: m.register_parameter(n, v))
        elif spec.kind == InputKind.BUFFER:
            assign(root, spec.target, value, lambda m, n, v, keep=spec.persistent: m.register_buffer(n, v, persistent=keep))
        else:
            assign(root, spec.target, value, lambda m, n, v: m.register_buffer(n, v, persistent=False))
    inner = {str(node.target) for node in program.graph.find_nodes(op="get_attr")}  # the graphs that operators run
    for name in inner:
        root.add_module(name, program.graph_module.get_submodule(name))
    graph, leaves = _with_attributes(program)
    names = entry.forward_arg_names or []
    if check_guards:
        last = graph.find_nodes(op="placeholder") + [n for n in graph.find_nodes(op="get_attr") if n.target not in inner]
        order = {node: i for i, node in enumerate(graph.nodes)}
        anchor = max(last, key=order.__getitem__, default=None)
        root.add_module("_guards_fn", GuardsFn(_guards(program, leaves)))
        if leaves:
            with graph.inserting_after(anchor):
                graph.create_node("call_module", "_guards_fn", tuple(leaves), {}, name="_guards_fn")
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(names), entry.in_spec, entry.out_spec)))
    made = GraphModule(root, graph, "GraphModule")
    for spec in program.graph_signature.input_specs:  # fx copies every tensor as a buffer that is saved
        if spec.kind == InputKind.CONSTANT_TENSOR or (spec.kind == InputKind.BUFFER and not spec.persistent):
            path, _, name = str(spec.target).rpartition(".")
            made.get_submodule(path)._non_persistent_buffers_set.add(name)
    made.train(True)
    made.register_forward_pre_hook(_check_containers(entry.in_spec), with_kwargs=True)
    made.train, made.eval = _refuse("train"), _refuse("eval")  # type: ignore[method-assign, assignment]
    return made


def _with_attributes(program: ExportedProgram) -> tuple[Graph, list[Any]]:
    """A copy of the graph that reads attributes where the program's has placeholders, and the placeholders that are left."""
    graph, known, leaves = Graph(), {}, []
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        spec = specs.get(node.name) if node.op == "placeholder" else None
        if node.op == "output":
            graph.output(_results(program, graph, [known.get(x, x) for x in node.args[0]], known))
        elif spec is not None and spec.kind != InputKind.USER_INPUT:
            known[node] = made = graph.create_node("get_attr", spec.target, (), {}, name=spec.target.replace(".", "_").lower())
            made.meta = dict(node.meta)
        else:
            known[node] = graph.node_copy(node, known.__getitem__)
            if spec is not None:
                leaves.append(known[node])
    return graph, leaves


def _results(program: ExportedProgram, graph: Graph, results: list[Any], known: dict[Any, Any]) -> tuple[Any, ...]:
    """What the module returns; what was written to buffers and inputs is written to them first."""
    signature = program.graph_signature
    of_inputs = {spec.arg.name: node for spec, node in zip(signature.input_specs, program.graph.find_nodes(op="placeholder"))}
    of_state = {spec.target: of_inputs[spec.arg.name] for spec in signature.input_specs if spec.target is not None}
    copies: dict[Any, Any] = {}
    own = []
    for value, spec in zip(results, signature.output_specs):
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            own.append(value)
            continue
        target = of_inputs[spec.target] if spec.kind == OutputKind.USER_INPUT_MUTATION else of_state[spec.target]
        written = (known[target], value)
        made = graph.create_node("call_function", torch.ops.aten.copy_.default, written, {}, name="copy__default")
        made.meta = dict(value.meta)
        copies[value] = made
    return tuple(copies.get(x, x) if isinstance(x, Node) else x for x in own)


def _guards(program: ExportedProgram, leaves: list[Any]) -> list[Guard]:
    """The checks of the inputs."""
    entry = program.module_call_graph[0].signature
    assert entry is not None
    texts = input_texts(entry.in_spec, entry.forward_arg_names or [])
    found = [(text, leaf.meta["val"]) for text, leaf in zip(texts, leaves)]
    places = {leaf.name: (at, text) for at, (leaf, text) in enumerate(zip(leaves, texts))}
    repeated = [(places[leaf.meta["repeats"]], places[leaf.name]) for leaf in leaves if "repeats" in leaf.meta]
    return guards_of(found, program.range_constraints, program._guards) + [alike(*pair) for pair in repeated]


def _check_containers(spec: pytree.TreeSpec) -> Callable[..., Any]:
    def check(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return in_containers(spec, args, kwargs)

    return check


def in_containers(spec: pytree.TreeSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs in the order of the program. ValueError for others than those that it was exported with."""
    wanted = spec.children()[1].context
    if set(kwargs) != set(wanted):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {list(wanted)}"
        )
    kwargs = {name: kwargs[name] for name in wanted}
    given = pytree.tree_structure((args, kwargs))
    if given != spec:
        raise ValueError(
            f"Trying to flatten user inputs with exported input tree spec: \n{spec}\nbut actually got inputs with tree spec "
            f"of: \n{given}.\nPlease check that the inputs have the same number and type of args and kwargs as the ones you "
            "used when tracing."
        )
    return args, kwargs


def check_inputs(module: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the inputs of a module that an exported program gave, without running it. AssertionError and ValueError as it
    raises.
    """
    for hook in module._forward_pre_hooks.values():
        args, kwargs = hook(module, args, kwargs)
    module._guards_fn(*pytree.tree_leaves((args, kwargs)))
