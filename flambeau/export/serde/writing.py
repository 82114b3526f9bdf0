"""From graphs to the classes of the format: GraphModuleSerializer.

A call is written with the names of its operator's schema and without arguments that it doesn't give; nodes that take one of
several results out are written as that result. Stands on targets, values, signatures and metadata; used by programs.
Its public name is torch._export.serde.serialize.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import flambeau as torch
from flambeau.base.naming import public_module
from flambeau.dispatcher import schema_types as types
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload
from flambeau.export.exported_program import ModuleCallEntry
from flambeau.export.graph_signature import ExportGraphSignature
from flambeau.export.serde import schema, values
from flambeau.export.serde.calls import call_data
from flambeau.export.serde.metadata import custom_text, text_of
from flambeau.export.serde.schema import Argument, ArgumentKind, NamedArgument, TensorArgument
from flambeau.export.serde.signatures import signature_data
from flambeau.export.serde.targets import is_sym_op, name_of
from flambeau.export.serde.text import SerializeError
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node

__all__ = ["GraphModuleSerializer"]

# A value of exactly this class is written in this field, a list of them in the other.
_PLAIN = {bool: ("as_bool", "as_bools"), int: ("as_int", "as_ints"), float: ("as_float", "as_floats"),
          str: ("as_string", "as_strings")}  # fmt: skip
# An empty list of a schema's type is written in this field.
_EMPTY: tuple[tuple[type, str], ...] = (
    (types.BoolType, "as_bools"), (types.IntType, "as_ints"), (types.FloatType, "as_floats"), (types.StringType, "as_strings"),
    (types.NumberType, "as_floats"), (types.TensorType, "as_tensors"),
)  # fmt: skip
# What is written as a number, and in which field.
_NUMBERED = (("as_scalar_type", torch.dtype), ("as_memory_format", torch.memory_format), ("as_layout", torch.layout))
# Numbers that depend on sizes: the field of an argument, that of a list, the class of both, the field of a plain number.
_SYMBOLIC: tuple[tuple[str, str, Any, str, tuple[type, ...]], ...] = (
    ("as_sym_int", "as_sym_ints", schema.SymIntArgument, "as_int", (int, torch.SymInt)),
    ("as_sym_float", "as_sym_floats", schema.SymFloatArgument, "as_float", (float, torch.SymFloat)),
    ("as_sym_bool", "as_sym_bools", schema.SymBoolArgument, "as_bool", (bool, torch.SymBool)),
)


class GraphModuleSerializer:
    """Writes the graph of one program."""

    __module__ = public_module("_export.serde.serialize")

    def __init__(self, graph_signature: ExportGraphSignature, module_call_graph: Sequence[ModuleCallEntry]) -> None:
        self.graph_signature, self.module_call_graph = graph_signature, module_call_graph
        self.treespec_namedtuple_fields: dict[str, schema.NamedTupleDef] = {}

    def serialize(self, graph_module: GraphModule) -> schema.GraphModule:
        """The graph with its signature and modules. SerializeError for what the format doesn't have."""
        custom = graph_module.meta.get("custom")
        return schema.GraphModule(
            graph=_GraphWriter(graph_module.graph).graph(),
            signature=signature_data(self.graph_signature),
            module_call_graph=[call_data(entry, self.treespec_namedtuple_fields) for entry in self.module_call_graph],
            metadata={"custom": custom_text(custom, "graph")} if custom else {},
            treespec_namedtuple_fields=self.treespec_namedtuple_fields,
        )


class _GraphWriter:
    """Writes one graph: what its values are is gathered on the way."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.made = schema.Graph([], [], [], {}, {}, {})
        self.same: dict[str, str] = {}  # nodes that take out what another one does, and that one

    def graph(self) -> schema.Graph:
        """The graph. SerializeError says which node can't be written."""
        for node in self.source.nodes:
            try:
                getattr(self, f"_{node.op}")(node)
            except SerializeError:
                raise
            except (AssertionError, KeyError, TypeError, ValueError) as error:
                raise SerializeError(f"Failed serializing node {node} in graph: {node.format_node()}\n{error}") from error
        return self.made

    # ---- nodes

    def _placeholder(self, node: Node) -> None:
        value = node.meta["val"]
        if isinstance(value, (int, float, bool, str, type(None))):
            self.made.inputs.append(self.value(value))
        else:
            self.made.inputs.append(self.result(node.name, value))

    def _output(self, node: Node) -> None:
        made = node.args[0]
        self.made.is_single_tensor_return = isinstance(made, Node)
        self.made.outputs = [self.value(x) for x in ([made] if isinstance(made, Node) else made)]  # type: ignore[union-attr]

    def _get_attr(self, node: Node) -> None:
        """Graphs are written where operators take them."""

    def _call_function(self, node: Node) -> None:
        target = node.target
        if target is operator.getitem:
            return
        alone: bool | None = None
        if isinstance(target, OpOverload):
            inputs, outputs = self._arguments(target, node), self._results(node, target._schema.returns)
        elif isinstance(target, HigherOrderOperator):
            alone = isinstance(node.meta.get("val"), torch.Tensor)
            inputs = [NamedArgument("", self.value(x), ArgumentKind.POSITIONAL) for x in node.args]
            inputs += [NamedArgument(name, self.value(x), ArgumentKind.KEYWORD) for name, x in node.kwargs.items()]
            outputs = self._results(node, None)
        elif is_sym_op(target):
            names = inspect.signature(target).parameters  # type: ignore[arg-type]
            inputs = [NamedArgument(name, self.value(x), ArgumentKind.POSITIONAL) for name, x in zip(names, node.args)]
            outputs = [self.result(node.name, node.meta["val"])]
        else:
            raise SerializeError(f"Serializing {target} is not supported")
        self.made.nodes.append(schema.Node(name_of(target), inputs, outputs, text_of(node), alone, node.name))

    def _arguments(self, target: OpOverload, node: Node) -> list[NamedArgument]:
        made = []
        for i, argument in enumerate(target._schema.arguments):
            if argument.name in node.kwargs:
                given = self.value(node.kwargs[argument.name], argument.type)
                made.append(NamedArgument(argument.name, given, ArgumentKind.KEYWORD))
            elif not argument.kwarg_only and i < len(node.args):
                made.append(NamedArgument(argument.name, self.value(node.args[i], argument.type), ArgumentKind.POSITIONAL))
        return made

    # ---- results

    def _results(self, node: Node, returns: Sequence[Any] | None) -> list[Argument]:
        """What a call gives; returns: of its schema, None for a higher-order operator, whose results speak for themselves."""
        value = node.meta.get("val")
        if returns is not None and len(returns) == 0:
            return []
        if returns is not None and len(returns) == 1:
            return [self._list(node, node, value) if isinstance(value, (list, tuple)) else self.result(node.name, value)]
        if not isinstance(value, (list, tuple)):
            return [self.result(node.name, value)]
        taken = self._taken(node)
        made = []
        for i, part in enumerate(value):
            if isinstance(part, (list, tuple)):
                made.append(self._list(node, taken.get(i), part, f"_{i}"))
            elif part is None:
                made.append(Argument.create(as_none=True))
            else:
                made.append(self.result(taken[i].name if i in taken else f"{node.name}_unused_{i}", part))
        return made

    def _list(self, node: Node, taker: Node | None, value: Sequence[Any], place: str = "") -> Argument:
        """A list of tensors, which `taker` is."""
        taken = {} if taker is None else self._taken(taker)
        made = []
        for i, part in enumerate(value):
            name = taken[i].name if i in taken else f"{node.name}_unused{place}_{i}"
            made.append(self._tensor(name, part))
        return Argument.create(as_tensors=made)

    def _taken(self, node: Node) -> dict[int, Node]:
        """By place, the first node that takes that result out; further ones are the same."""
        found: dict[int, Node] = {}
        for user in node.users:
            if user.target is not operator.getitem:
                raise SerializeError(f"{user} uses {node} as a whole, of which a program can only take the parts")
            first = found.setdefault(user.args[1], user)  # type: ignore[arg-type]
            if first is not user:
                self.same[user.name] = first.name
        return found

    def _tensor(self, name: str, value: Any) -> TensorArgument:
        if not isinstance(value, torch.Tensor):
            raise SerializeError(f"{name} is in a list of results, and no tensor but a {type(value).__name__}")
        self.made.tensor_values[name] = values.tensor_meta(value)
        return TensorArgument(name)

    def result(self, name: str, value: Any) -> Argument:
        """A value of the graph by its name; what it is, is noted."""
        if value is None:
            return Argument.create(as_none=True)
        if isinstance(value, torch.Tensor):
            return Argument.create(as_tensor=self._tensor(name, value))
        if isinstance(value, (bool, torch.SymBool)):
            self.made.sym_bool_values[name] = values.truth_meta(value)
            return Argument.create(as_sym_bool=schema.SymBoolArgument.create(as_name=name))
        if isinstance(value, (int, torch.SymInt)):
            self.made.sym_int_values[name] = values.size_meta(value)
            return Argument.create(as_sym_int=schema.SymIntArgument.create(as_name=name))
        if isinstance(value, (float, torch.SymFloat)):
            self.made.sym_float_values[name] = values.float_meta(value)
            return Argument.create(as_sym_float=schema.SymFloatArgument.create(as_name=name))
        raise SerializeError(f"Unable to serialize output {value!r} of {name}")

    # ---- arguments

    def value(self, given: Any, wanted: Any = None) -> Argument:
        """An argument; wanted: its type in the operator's schema."""
        if given is None:
            return Argument.create(as_none=True)
        if isinstance(given, Node):
            return self._node(given)
        if type(given) in _PLAIN:
            return Argument.create(**{_PLAIN[type(given)][0]: given})
        if type(given) is complex:
            return Argument.create(as_complex=schema.ComplexValue(given.real, given.imag))
        if isinstance(given, (list, tuple)):
            return self._sequence(list(given), wanted)
        if isinstance(given, dict):
            if not all(isinstance(name, str) for name in given):
                raise SerializeError(f"Dict keys must be strings, got {list(map(type, given))}")
            return Argument.create(as_string_to_argument={name: self.value(x) for name, x in given.items()})
        if isinstance(given, torch.device):
            return Argument.create(as_device=values.device_meta(given))
        if isinstance(given, (OpOverload, HigherOrderOperator)):
            return Argument.create(as_operator=name_of(given))
        for field, cls in _NUMBERED:
            if isinstance(given, cls):
                return Argument.create(**{field: values.serialized(given)})
        raise SerializeError(f"Unsupported argument type: {type(given)} with schema arg_type {wanted}")

    def _node(self, node: Node) -> Argument:
        if node.op == "get_attr":
            inner = getattr(self.source.owning_module, str(node.target), None)
            if not isinstance(inner, GraphModule):
                raise SerializeError(f"Unsupported getattr attribute {node.target} with type: {type(inner)}")
            return Argument.create(as_graph=schema.GraphArgument(str(node.target), _GraphWriter(inner.graph).graph()))
        for (field, _, cls, _, _), table in zip(_SYMBOLIC, self._tables()):
            if node.name in table:
                return Argument.create(**{field: cls.create(as_name=node.name)})
        return Argument.create(as_tensor=self._named(node))

    def _tables(self) -> tuple[Mapping[str, Any], ...]:
        return self.made.sym_int_values, self.made.sym_float_values, self.made.sym_bool_values

    def _named(self, node: Node) -> TensorArgument:
        return TensorArgument(self.same.get(node.name, node.name))

    def _sequence(self, given: list[Any], wanted: Any) -> Argument:
        if not given:
            element = _element(wanted)
            field = next((f for cls, f in _EMPTY if isinstance(element, cls)), "as_tensors" if wanted is None else None)
            if field is None:
                raise SerializeError(f"Empty list with type {wanted} nyi.")
            return Argument.create(**{field: []})
        for cls, (_, field) in _PLAIN.items():
            if all(type(x) is cls for x in given):
                return Argument.create(**{field: given})
        for (_, field, cls, number, kinds), table in zip(_SYMBOLIC, self._tables()):
            if all(x.name in table if isinstance(x, Node) else type(x) in kinds for x in given):
                listed = [cls.create(as_name=x.name) if isinstance(x, Node) else cls.create(**{number: x}) for x in given]
                return Argument.create(**{field: listed})
        if any(isinstance(x, Node) and x.op == "get_attr" for x in given):
            raise SerializeError("getattr nodes containing tensors should not appear in the graph")
        if all(isinstance(x, Node) for x in given):
            return Argument.create(as_tensors=list(map(self._named, given)))
        if all(x is None or isinstance(x, Node) for x in given):
            return Argument.create(as_optional_tensors=list(map(self._optional, given)))
        if all(isinstance(x, (list, tuple)) for x in given):
            return self._nested(given)
        raise SerializeError(f"Unsupported list/tuple argument type: {list(map(type, given))}")

    def _optional(self, node: Node | None) -> schema.OptionalTensorArgument:
        if node is None:
            return schema.OptionalTensorArgument.create(as_none=True)
        return schema.OptionalTensorArgument.create(as_tensor=self._named(node))

    def _nested(self, given: list[Sequence[Any]]) -> Argument:
        flat = [x for inner in given for x in inner]
        for field, cls in (("as_nested_tensors", Node), ("as_int_lists", int), ("as_float_lists", float)):
            if all(isinstance(x, cls) for x in flat):
                return Argument.create(**{field: [[self._named(x) if cls is Node else x for x in inner] for inner in given]})
        raise SerializeError(f"Unsupported list/tuple argument type: {list(map(type, flat))}")


def _element(wanted: Any) -> Any:
    """The type of the items of a list of a schema's type, which may be optional, as may they."""
    if isinstance(wanted, types.OptionalType):
        wanted = wanted.element
    element = wanted.element if isinstance(wanted, types.ListType) else None
    return element.element if isinstance(element, types.OptionalType) else element
