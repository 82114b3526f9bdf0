"""From the classes of the format to graphs: GraphModuleDeserializer.

A node becomes a call of an operator that is known by its name, on values that are known by theirs. Names go into generated code,
so each must be an identifier. Stands on targets, values and metadata, and on fake tensors for what values are; used by
programs. Its public name is torch._export.serde.serialize.
"""

from __future__ import annotations

import contextlib
import keyword
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau._subclasses.symbolic.state import describe
from flambeau.base.naming import public_module
from flambeau.base.symbolic.expressions import Expr, as_expr
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload
from flambeau.dispatcher.schema_types import TensorType
from flambeau.export.exported_program import ModuleCallEntry
from flambeau.export.serde import schema, values
from flambeau.export.serde.calls import call_of, checked_name
from flambeau.export.serde.metadata import meta_of
from flambeau.export.serde.signatures import signature_of
from flambeau.export.serde.symbols import Symbols, graphs_in
from flambeau.export.serde.targets import answered, is_sym_op, operator_of
from flambeau.export.serde.text import SerializeError, parsed
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node

__all__ = ["GraphModuleDeserializer"]

_CONSTANTS = ("as_int", "as_float", "as_bool", "as_string", "as_none")
_LISTS_OF_NUMBERS = ("as_ints", "as_floats", "as_bools", "as_strings")
#: In how many graphs or dicts an argument may be.
DEEPEST = 32


class _Scope:
    """One graph while it is read: its nodes by the names of their values, and what the values are."""

    def __init__(self, serialized: schema.Graph) -> None:
        self.serialized = serialized
        self.graph = Graph()
        self.module = torch.nn.Module()
        self.nodes: dict[str, Node] = {}
        self.unused: list[Node] = []

    def node(self, name: str) -> Node:
        """The node of a value. SerializeError if there is none yet."""
        found = self.nodes.get(name)
        if found is None:
            raise SerializeError(f"{name[:80]!r} is used before it is defined")
        return found


class GraphModuleDeserializer:
    """Reads the graph of one program."""

    __module__ = public_module("_export.serde.serialize")

    class Result(NamedTuple):
        """What a program consists of."""

        graph_module: GraphModule
        signature: Any
        module_call_graph: list[ModuleCallEntry]
        symbols: Symbols
        state_dict: dict[str, torch.Tensor]
        constants: dict[str, Any]
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None

    def __init__(self) -> None:
        self.symbols: Symbols
        self.fake_mode: FakeTensorMode
        self.constants: dict[str, Any] = {}
        self.scope: _Scope
        self._depth = 0

    def deserialize(
        self,
        serialized_graph_module: schema.GraphModule,
        serialized_state_dict: Mapping[str, torch.Tensor],
        constants: Mapping[str, Any],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        symbol_name_to_range: Mapping[str, schema.RangeConstraint] | None = None,
    ) -> Result:
        """The graph with its signature; the rest is handed on. symbol_name_to_range: the ranges of symbolic sizes.

        SerializeError for what is no graph, NotImplementedError for operators that flambeau lacks.
        """
        self.constants = dict(constants)
        self.symbols = Symbols(symbol_name_to_range or {})
        self.symbols.learn(serialized_graph_module.graph)
        self.fake_mode = FakeTensorMode(
            allow_fallback_kernels=False, allow_non_fake_inputs=True, export=True, shape_env=self.symbols.env, static_shapes=True
        )
        missing = sorted(_missing(serialized_graph_module.graph))
        if missing:
            raise NotImplementedError(
                f"torch.export.load: the program calls operators that are not implemented in flambeau: {', '.join(missing)}; "
                "export a program that does without them"
            )
        signature = signature_of(serialized_graph_module.signature)
        names = [spec.arg.name for spec in signature.input_specs]
        graph_module = self._graph(serialized_graph_module.graph, names)
        if serialized_graph_module.metadata.get("custom"):
            graph_module.meta["custom"] = parsed(serialized_graph_module.metadata["custom"], "the metadata of a graph")
        graph_module.meta["treespec_namedtuple_fields"] = {
            name: fields.field_names for name, fields in serialized_graph_module.treespec_namedtuple_fields.items()
        }
        calls = list(map(call_of, serialized_graph_module.module_call_graph))
        return self.Result(
            graph_module, signature, calls, self.symbols, dict(serialized_state_dict), self.constants, example_inputs
        )

    # ---- graphs

    def _graph(self, serialized: schema.Graph, inputs: list[str] | None = None) -> GraphModule:
        """A graph, whose inputs have these names where they are constants."""
        outer = getattr(self, "scope", None)
        self.scope = scope = _Scope(serialized)
        for i, argument in enumerate(serialized.inputs):
            self._input(argument, inputs[i] if inputs and i < len(inputs) else f"arg{i}")
        for node in serialized.nodes:
            try:
                self._node(node)
            except (SerializeError, NotImplementedError):
                raise
            except Exception as error:
                _explain(node, error)
        self._output(serialized)
        for taken in scope.unused:  # a name that is written for a result that no node takes out
            if not taken.users:
                scope.graph.erase_node(taken)
        made = GraphModule(scope.module, scope.graph)
        if outer is not None:
            self.scope = outer
        return made

    def _input(self, argument: schema.Argument, name: str) -> None:
        kind = argument.type
        if kind in ("as_tensor", "as_custom_obj"):
            name = argument.value.name
        elif kind == "as_sym_int" and argument.value.type == "as_name":
            name = argument.value.as_name
        elif kind not in _CONSTANTS:
            raise SerializeError(f"a graph can't have an input of kind {kind}")
        node = self.scope.graph.placeholder(checked_name(name))
        if kind in _CONSTANTS:
            node.meta["val"] = self.value(argument)
        else:
            self._defined(name, node)

    def _output(self, serialized: schema.Graph) -> None:
        kinds = ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float", *_CONSTANTS)
        for argument in serialized.outputs:
            if argument.type not in kinds:
                raise SerializeError(f"a graph can't have an output of kind {argument.type}")
        found = tuple(self.value(argument) for argument in serialized.outputs)
        if serialized.is_single_tensor_return and (len(found) != 1 or not isinstance(found[0], Node)):
            raise SerializeError(f"a graph that returns a single tensor has {len(found)} outputs")
        result = found[0] if serialized.is_single_tensor_return else found
        node = self.scope.graph.output(result)
        node.meta["val"] = pytree.tree_map(lambda x: x.meta.get("val") if isinstance(x, Node) else x, result)

    # ---- nodes

    def _node(self, serialized: schema.Node) -> None:
        target = operator_of(serialized.target)
        args, kwargs = self._arguments(target, serialized.inputs)
        name = serialized.name or self._usual_name(target, serialized)
        node = self.scope.graph.create_node("call_function", target, args, kwargs, None if name is None else checked_name(name))
        meta = meta_of(serialized.metadata)
        node.meta.update(meta)
        node.meta.setdefault("nn_module_stack", {})
        if isinstance(target, HigherOrderOperator):
            for x in (*args, *kwargs.values()):
                if isinstance(x, Node) and x.op == "get_attr":
                    x.meta.update(meta)
        self._results(serialized, node, meta)

    def _usual_name(self, target: Any, serialized: schema.Node) -> str | None:
        """The name of a node in files that don't say it: that of its only result."""
        outputs = serialized.outputs
        if len(outputs) != 1:
            return None
        if outputs[0].type.startswith("as_sym_") and outputs[0].value.type == "as_name":
            return outputs[0].value.as_name
        single = isinstance(target, OpOverload) and isinstance(target._schema.returns[0].type, TensorType)
        hop = isinstance(target, HigherOrderOperator) and serialized.is_hop_single_tensor_return is not False
        return outputs[0].value.name if outputs[0].type == "as_tensor" and (single or hop) else None

    def _arguments(self, target: Any, inputs: list[schema.NamedArgument]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, as it was written."""
        if is_sym_op(target):
            return tuple(self.value(x.arg) for x in inputs), {}
        if isinstance(target, HigherOrderOperator):
            positional = [x for x in inputs if x.kind == schema.ArgumentKind.POSITIONAL or x.name == ""]
            named = [x for x in inputs if not any(x is y for y in positional)]
            return tuple(self.value(x.arg) for x in positional), {checked_name(x.name): self.value(x.arg) for x in named}
        given = {x.name: x for x in inputs}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for i, argument in enumerate(target._schema.arguments):
            found = given.pop(argument.name, None)
            if found is None:
                if not argument.has_default_value():
                    raise SerializeError(f"a call of {target} lacks its argument {argument.name}")
                continue
            kind = found.kind
            if kind not in (schema.ArgumentKind.POSITIONAL, schema.ArgumentKind.KEYWORD):  # files before 2.5
                positional = not argument.has_default_value() and not argument.kwarg_only
                kind = schema.ArgumentKind.POSITIONAL if positional else schema.ArgumentKind.KEYWORD
            if kind == schema.ArgumentKind.POSITIONAL or keyword.iskeyword(argument.name):
                if len(args) != i or argument.kwarg_only:
                    raise SerializeError(f"the argument {argument.name} of a call of {target} can't be given by position")
                args.append(self.value(found.arg))
            else:
                kwargs[argument.name] = self.value(found.arg)
        if given:
            raise SerializeError(f"{target} has no argument {next(iter(given))[:80]!r}")
        return tuple(args), kwargs

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        """Within a graph or a dict that is an argument. SerializeError beyond what programs have."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise SerializeError(f"graphs and arguments are nested too deeply, in more than {DEEPEST} others")
        try:
            yield
        finally:
            self._depth -= 1

    # ---- results

    def _defined(self, name: str, node: Node) -> None:
        """A value has this name from now on."""
        if name in self.scope.nodes:
            raise SerializeError(f"{name!r} is defined twice")
        if node.name != checked_name(name):
            node._rename(name)
            if node.name != name:  # names of Python's own are kept
                node.name = name
        self.scope.nodes[name] = node
        node.meta["val"] = self._what_is(name)

    def _what_is(self, name: str) -> Any:
        """The fake tensor or number that a value is."""
        graph = self.scope.serialized
        if name in graph.tensor_values:
            return self.tensor(graph.tensor_values[name])
        for table in (graph.sym_int_values, graph.sym_float_values, graph.sym_bool_values):
            if name in table:
                return self.symbols.number(table[name])  # type: ignore[index]
        if name in graph.custom_obj_values:
            raise NotImplementedError(
                f"torch.export.load: objects of custom classes ({graph.custom_obj_values[name].class_fqn[:80]}) are not "
                "implemented in flambeau; export a program of tensors"
            )
        raise SerializeError(f"nothing is known of the value {name!r}")

    def tensor(self, meta: schema.TensorMeta) -> torch.Tensor:
        """A fake tensor."""
        sizes, strides = (list(map(self._extent, some)) for some in (meta.sizes, meta.strides))
        dtype, device = values.dtype_of(meta.dtype), values.device_of(meta.device)
        if values.layout_of(meta.layout) is not torch.strided:
            raise NotImplementedError(
                "torch.export.load: programs of sparse tensors are not implemented in flambeau; export one of dense tensors"
            )
        numbers = [list(map(self.symbols.value, some)) for some in (sizes, strides)]
        with self.fake_mode:
            made = torch.empty_strided(*numbers, dtype=dtype, device=device, requires_grad=meta.requires_grad)
        describe(made, self.symbols.env, sizes, strides)
        return made

    def _extent(self, size: schema.SymInt) -> Expr:
        return as_expr(size.value) if size.type == "as_int" else self.symbols.expr(size.value.expr_str)

    def _results(self, serialized: schema.Node, node: Node, meta: dict[str, Any]) -> None:
        """Name the results of a node; several get a node each that takes them out."""
        outputs = serialized.outputs
        if not outputs:
            return
        only = outputs[0] if len(outputs) == 1 else None
        wrapped = isinstance(node.target, HigherOrderOperator) and serialized.is_hop_single_tensor_return is False
        if only is not None and only.type == "as_none" and not wrapped:
            node.meta["val"] = None
        elif only is not None and not wrapped and (name := _name_of(only)) is not None:
            self._defined(name, node)
        else:
            parts = only.value if only is not None and isinstance(only.value, list) else outputs
            node.meta["val"] = tuple(self._part(part, node, i, meta) for i, part in enumerate(parts))

    def _part(self, part: Any, node: Node, index: int, meta: dict[str, Any]) -> Any:
        """The node of one of several results, and what it is."""
        name = _name_of(part)
        if name is None and not (isinstance(part, schema.Argument) and (part.type == "as_none" or isinstance(part.value, list))):
            raise SerializeError(f"{node.target} can't have a result of kind {getattr(part, 'type', type(part).__name__)}")
        taken = self.scope.graph.create_node("call_function", operator.getitem, (node, index), name=name)
        taken.meta.update(meta)
        taken.meta.setdefault("nn_module_stack", {})
        if name is not None:
            self._defined(name, taken)
            if name.startswith(f"{node.name}_unused_"):
                self.scope.unused.append(taken)
        elif part.type == "as_none":
            taken.meta["val"] = None
        else:
            taken.meta["val"] = [self._part(inner, taken, i, meta) for i, inner in enumerate(part.value)]
        return taken.meta["val"]

    # ---- values

    def value(self, argument: schema.Argument) -> Any:
        """An argument: a node, a constant, or a container of them."""
        kind, value = argument.type, argument.value
        if kind == "as_none":
            return None
        if kind in ("as_int", "as_float", "as_bool", "as_string"):
            return value
        if kind == "as_tensor":
            return self.scope.node(value.name)
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._sym(value)
        read = getattr(self, f"_{kind}", None)
        if read is not None:
            return read(value)
        if kind in _LISTS_OF_NUMBERS:
            return list(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return list(map(self._sym, value))
        raise SerializeError(f"an argument of kind {kind} can't be read")

    def _sym(self, value: Any) -> Any:
        return self.scope.node(value.as_name) if value.type == "as_name" else value.value

    def _as_tensors(self, given: list[schema.TensorArgument]) -> list[Node]:
        return [self.scope.node(x.name) for x in given]

    def _as_nested_tensors(self, given: list[list[schema.TensorArgument]]) -> list[list[Node]]:
        return list(map(self._as_tensors, given))

    def _as_optional_tensor(self, given: schema.OptionalTensorArgument) -> Node | None:
        return None if given.type == "as_none" else self.scope.node(given.value.name)

    def _as_optional_tensors(self, given: list[schema.OptionalTensorArgument]) -> list[Node | None]:
        return list(map(self._as_optional_tensor, given))

    def _as_int_lists(self, given: list[list[int]]) -> list[tuple[int, ...]]:
        return list(map(tuple, given))

    def _as_float_lists(self, given: list[list[float]]) -> list[list[float]]:
        return list(map(list, given))

    def _as_complex(self, given: schema.ComplexValue) -> complex:
        return complex(given.real, given.imag)

    def _as_scalar_type(self, given: schema.ScalarType) -> torch.dtype:
        return values.dtype_of(given)

    def _as_layout(self, given: schema.Layout) -> torch.layout:
        return values.layout_of(given)

    def _as_memory_format(self, given: schema.MemoryFormat) -> torch.memory_format:
        return values.memory_format_of(given)

    def _as_device(self, given: schema.Device) -> torch.device:
        return values.device_of(given)

    def _as_operator(self, given: str) -> Any:
        return operator_of(given)

    def _as_string_to_argument(self, given: dict[str, schema.Argument]) -> dict[str, Any]:
        with self._deeper():
            return {name: self.value(x) for name, x in given.items()}

    def _as_graph(self, given: schema.GraphArgument) -> Node:
        with self._deeper():
            made = self._graph(given.graph)
        self.scope.module.add_module(checked_name(given.name), made)
        return self.scope.graph.create_node("get_attr", given.name, name=given.name)

    def _as_custom_obj(self, given: schema.CustomObjArgument) -> NoReturn:
        raise NotImplementedError(
            f"torch.export.load: objects of custom classes ({given.class_fqn[:80]}) are not implemented in flambeau; export a "
            "program of tensors"
        )


def _name_of(result: Any) -> str | None:
    """The name of a result that is one value."""
    if isinstance(result, schema.Argument):
        single = result.type == "as_tensor" or (result.type.startswith("as_sym_") and not result.type.endswith("s"))
        return _name_of(result.value) if single else None
    if isinstance(result, (schema.SymIntArgument, schema.SymFloatArgument, schema.SymBoolArgument)):
        return result.as_name if result.type == "as_name" else None
    return result.name if isinstance(result, schema.TensorArgument) else None


def _missing(graph: schema.Graph) -> set[str]:
    """The operators of a graph, and of those within it, that are known and not answered."""
    targets = {node.target for part in graphs_in(graph) for node in part.nodes}
    return {target.removeprefix("torch.ops.") for target in targets if not answered(operator_of(target))}


def _explain(node: schema.Node, error: Exception) -> NoReturn:
    shown = node.name or node.target
    raise SerializeError(
        f"Failed deserializing node {shown[:80]} ({node.target[:80]}): {type(error).__name__}: {str(error)[:500]}"
    ) from error
