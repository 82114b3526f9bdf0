"""From an exported program to an ONNX model: each operator of the graph by its translation, names and shapes as in the graph.

Stands on `_builder` and the table of translations; used by `_export`.
"""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload
from flambeau.export import ExportedProgram
from flambeau.export.graph_signature import ConstantArgument, InputKind, OutputKind
from flambeau.fx.node import Node as GraphNode
from flambeau.onnx import translations as _translations  # noqa: F401 - they fill the table
from flambeau.onnx._builder import Builder, Real
from flambeau.onnx._constants import TRANSLATED_OPSET
from flambeau.onnx._control import OPERATORS
from flambeau.onnx._graph import Graph, Model, SymbolicDim, Value
from flambeau.onnx._registry import find
from flambeau.onnx._types import as_array
from flambeau.onnx.errors import OnnxExporterError, UnsupportedOperatorError

__all__ = ["missing", "translate"]

_logger = logging.getLogger(__name__)
_SIZES = ("sym_size", "sym_numel")
_NUMBERS = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.neg,
    operator.truediv,
    operator.pow,
)
_COMPARISONS = {operator.eq: "Equal", operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
                operator.ge: "GreaterOrEqual"}  # fmt: skip
_ROUNDED = {math.trunc: "", torch.sym_int: "", math.floor: "Floor", math.ceil: "Ceil"}
_EXTREMES = {torch.sym_max: "Max", torch.sym_min: "Min"}
#: Operators without results that models need: they check what PyTorch has checked.
_CHECKS = frozenset(
    """_assert_tensor_metadata _assert_async _assert_scalar _functional_assert_async sym_constrain_range
    sym_constrain_range_for_size""".split()
)


def translate(
    program: ExportedProgram, opset: int, custom: Mapping[Any, Callable[..., Any]], call: Callable[..., Any] | None = None
) -> Model:
    """The model of a program.

    opset: the version of the operator set that is asked for; custom: translations by target that come before the table's; call:
    how they are called, `call(builder, target, function, args, kwargs)`. UnsupportedOperatorError for operators without one.
    """
    version = max(opset, TRANSLATED_OPSET)
    graph = Graph()
    model = Model(graph, {"": version})
    translator = _Translator(program, graph, Builder(graph, version, opset), custom, call)
    translator.run()
    domains = {node.domain for node in graph if node.domain}
    model.opset_imports.update((domain, translator.builder.domains.get(domain, 1)) for domain in sorted(domains))
    return model


def missing(program: ExportedProgram, custom: Mapping[Any, Callable[..., Any]]) -> list[OpOverload]:
    """The operators of a program that have no translation."""
    found: dict[OpOverload, None] = {}
    for node in program.graph.nodes:
        target = node.target
        if node.op == "call_function" and isinstance(target, OpOverload) and _translation(target, custom) is None:
            if _name(target) not in (*_CHECKS, *_SIZES):
                found[target] = None
    return list(found)


def _name(target: OpOverload) -> str:
    return target._schema.name.partition("::")[2]


def _own(target: OpOverload, custom: Mapping[Any, Callable[..., Any]]) -> Callable[..., Any] | None:
    """The translation that a program brings, by the operator, its overloads, or its name, that of "relu" for "relu_" too."""
    name = target._schema.name
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    return custom.get(target) or custom.get(target.overloadpacket) or custom.get(name) or custom.get(plain)


def _translation(target: OpOverload, custom: Mapping[Any, Callable[..., Any]]) -> Callable[..., Any] | None:
    namespace, _, name = target._schema.name.partition("::")
    return _own(target, custom) or find(namespace, name, target._overloadname)


class _Translator:
    """Walks the graph; `known` has what the nodes so far stand for: Values, Sizes, numbers, tuples of them."""

    def __init__(
        self,
        program: ExportedProgram,
        graph: Graph,
        builder: Builder,
        custom: Mapping[Any, Callable[..., Any]],
        call: Callable[..., Any] | None,
    ) -> None:
        self.program, self.graph, self.builder, self.custom, self.call = program, graph, builder, custom, call
        self.known: dict[GraphNode, Any] = {}
        self.depth = 0  # of graphs within the graph, whose names are their own
        self.same: dict[GraphNode, list[GraphNode]] = {}  # nodes that are one tensor, written in place

    def run(self) -> None:
        """Fill the graph."""
        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self.known[node] = self._input(node, specs[node.name])
            elif node.op == "call_function":
                self.known[node] = self._call(node)
            elif node.op == "get_attr":
                self.known[node] = getattr(self.program.graph_module, node.target)
            elif node.op == "output":
                self._outputs(node)

    def _inside(self, module: Any, args: Sequence[Any]) -> list[Any]:
        """What a graph within the graph gives for arguments; its nodes are written where the builder is."""
        given = iter(args)
        self.depth += 1
        results: list[Any] = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.known[node] = next(given)
            elif node.op == "get_attr":
                self.known[node] = getattr(module, node.target)
            elif node.op == "call_function":
                self.known[node] = self._call(node)
            else:
                results = [self.known[x] if isinstance(x, GraphNode) else x for x in pytree.tree_leaves(node.args[0])]
        self.depth -= 1
        return results

    # ---------------------------------------------------------------- inputs and outputs

    def _input(self, node: GraphNode, spec: Any) -> Any:
        if spec.kind == InputKind.USER_INPUT:
            if isinstance(spec.arg, ConstantArgument):
                return spec.arg.value
            value = self._typed(Value(node.name), node.meta["val"])
            self.graph.inputs.append(value)
            return value
        tensor = self.program._value_of(spec)
        constant = spec.kind == InputKind.CONSTANT_TENSOR
        value = Value(spec.target, tensor.dtype, tuple(tensor.shape), as_array(tensor), parameter=not constant)
        if not constant:
            self.graph.initializers[spec.target] = value
        return value

    def _outputs(self, node: GraphNode) -> None:
        specs = self.program.graph_signature.output_specs
        seen = {id(x) for x in self.graph.inputs}
        for item, spec in zip(node.args[0], specs):
            if spec.kind != OutputKind.USER_OUTPUT or item is None:
                continue
            if isinstance(spec.arg, ConstantArgument):
                _logger.warning("Skipping constant argument %s", spec.arg)
                continue
            value = self.known[item] if isinstance(item, GraphNode) else item
            if not isinstance(value, Value):
                value = self.builder.number(value, None)
            if id(value) in seen or value.const_value is not None:
                value = self.builder.again(value)
            seen.add(id(value))
            self.graph.outputs.append(value)

    def _typed(self, value: Value, meta: Any) -> Value:
        value.dtype, value.shape = meta.dtype, [_dimension(n) for n in meta.shape]
        return value

    # ---------------------------------------------------------------- operators

    def _call(self, node: GraphNode) -> Any:
        target = node.target
        args, kwargs = pytree.tree_map(lambda x: self.known[x] if isinstance(x, GraphNode) else x, (node.args, dict(node.kwargs)))
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, HigherOrderOperator):
            return self._control(node, args)
        if not isinstance(target, OpOverload):
            return self._number(node, args)
        name = _name(target)
        if name in _CHECKS:
            return None
        if name in _SIZES:
            return self._size(name, args)
        builder = self.builder
        builder.target, builder.out, builder.origin = str(target), node.meta.get("val"), _origin(node)
        own, write = _own(target, self.custom), _translation(target, self.custom)
        if write is None:
            raise self._unsupported(node)
        try:
            if own is not None and self.call is not None:
                made = self.call(builder, target, own, args, kwargs)
            else:
                made = write(builder, *args, **kwargs)
        except UnsupportedOperatorError as error:
            raise self._unsupported(node, error.what, error.supported_version) from None
        except (OnnxExporterError, NotImplementedError):
            raise
        except Exception as error:
            raise OnnxExporterError(
                f"The translation of {target} to ONNX failed: {type(error).__name__}: {error}\n\n"
                f"The node is {node.format_node()}\n\n"
                f"It is called here:\n{_where(node)}"
            ) from error
        made = self._named(node, made)
        if target._schema.is_mutable and isinstance(made, Value):
            self._written(node, made)
        return made

    def _control(self, node: GraphNode, args: Any) -> Any:
        """What an operator of graphs gives."""
        write = OPERATORS.get(node.target.__name__)
        if write is None:
            raise self._unsupported(node)
        self.builder.origin = _origin(node)
        return self._named(node, write(self.builder, self._inside, *args))

    def _written(self, node: GraphNode, made: Value) -> None:
        """Have what stands for a tensor that was written in place be its new value. (`_capture` sees to views.)"""
        target = node.args[0]
        group = self.same.setdefault(target, [target])
        group.append(node)
        self.same[node] = group
        for each in group:
            self.known[each] = made

    def _named(self, node: GraphNode, made: Any) -> Any:
        """The results with the names, dtypes and shapes of the graph."""
        meta = node.meta.get("val")
        if isinstance(made, Value) and isinstance(meta, torch.Tensor):
            if made.node is not None and made.name is None:
                made.name = None if self.depth else node.name
                self._typed(made, meta)
            return made
        if isinstance(made, (tuple, list)) and isinstance(meta, (tuple, list)):
            users = {u.args[1]: u.name for u in node.users if u.target is operator.getitem}
            for i, (value, each) in enumerate(zip(made, meta)):
                if isinstance(value, Value) and isinstance(each, torch.Tensor) and value.node is not None and value.name is None:
                    value.name = None if self.depth else users.get(i, f"{node.name}_{i}")
                    self._typed(value, each)
        return made

    def _size(self, name: str, args: Any) -> Any:
        x = args[0]
        if name == "sym_size":
            return self.builder.size(x, args[1])
        total: Any = 1
        for n in self.builder.sizes(x):
            total = total * n
        return total

    def _number(self, node: GraphNode, args: Any) -> Any:
        """Arithmetic with sizes."""
        target = node.target
        if target in _NUMBERS:
            return target(*args)
        if target in _COMPARISONS:
            if any(isinstance(x, (float, Real)) for x in args):
                return self.builder.op(_COMPARISONS[target], *map(self.builder.real, args))
            return self.builder.op(_COMPARISONS[target], *(self.builder.ints([x]) for x in args))
        if target is torch.sym_float:
            return Real(self.builder, self.builder.real(args[0]))
        if target in _ROUNDED:
            return args[0].rounded(_ROUNDED[target]) if isinstance(args[0], Real) else args[0]
        if target in _EXTREMES and not any(isinstance(x, (float, Real)) for x in args):
            return self.builder.as_size(self.builder.op(_EXTREMES[target], *(self.builder.ints([x]) for x in args)))
        raise self._unsupported(node)

    def _unsupported(self, node: GraphNode, what: str = "", since: int | None = None) -> UnsupportedOperatorError:
        target = node.target
        name = _aten(target) if isinstance(target, OpOverload) else f"{getattr(target, '__module__', '')}::{target.__name__}"
        return UnsupportedOperatorError(name, self.builder.wanted, since, _where(node), str(target), what)


def _aten(target: OpOverload) -> str:
    """How an operator is called where ONNX's exporter speaks of it: aten::add."""
    return target._schema.name


def _where(node: GraphNode) -> str:
    return str(node.meta.get("stack_trace", ""))


def _dimension(n: Any) -> Any:
    """A size as ONNX has it: a number, or the name of what it depends on."""
    known = getattr(n, "node", None)
    return SymbolicDim(str(known.expr)) if known is not None and hasattr(known, "expr") else int(n)


def _origin(node: GraphNode) -> dict[str, str]:
    """Where a node comes from, as PyTorch writes it down."""
    scopes = list(node.meta.get("nn_module_stack", {}).values())
    names = [name for name, _ in scopes] + [node.name]
    classes = [kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}" for _, kind in scopes]
    classes.append(str(node.target))
    made = {
        "namespace": "/".join(f"{name}: {kind}" for name, kind in zip(names, classes)),
        "pkg.torch.onnx.class_hierarchy": str(classes),
        "pkg.torch.onnx.fx_node": str(node.format_node()),
        "pkg.torch.onnx.name_scopes": str(names),
    }
    if "stack_trace" in node.meta:
        made["pkg.torch.onnx.stack_trace"] = node.meta["stack_trace"]
    return made
