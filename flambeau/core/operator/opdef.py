"""What a declaration makes: an operator, that is an implementation and its derivative rule, and the nodes of its calls.

A rule's parameters say by their names what is saved. Stands on core.autograd.node and operator_recording; used by
core.operator.define.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from flambeau.core.autograd.node import NO_EDGE, MultiNode, Node, anomaly
from flambeau.core.autograd.node_codegen import (
    PASSED,
    alias_of,
    applier_of,
    holds_indices,
    list_applier_of,
    list_recorder_of,
    recorder_of,
    refuse,
    several_applier_of,
    several_recorder_of,
    single_output,
    straight,
    straight_list,
    straight_several,
    suited,
)
from flambeau.core.autograd.saved_tensors import pack
from flambeau.core.modes import modes
from flambeau.core.operator.facets import Facets, OpDef, Out
from flambeau.core.operator.pointwise import signature_of
from flambeau.core.tensor.tensor import Tensor

TENSOR, TENSORS, OTHER = "tensor", "tensors", "other"
LISTS = frozenset((list, tuple))  # what a plan of several tensors is looked up for: a tensor has rows, and is no list of them


def parameter_kind(annotation: Any) -> str:
    """Whether a parameter is a tensor (perhaps None), a sequence of tensors, or anything else."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = text.replace(" ", "")
    if text in ("Tensor", "Tensor|None", "Operand"):
        return TENSOR
    return TENSORS if text in ("Tensors", "Sequence[Tensor]", "Sequence[Tensor]|None", "Tensors|None") else OTHER


class Operator(OpDef):
    """An implementation with a derivative rule; `record` makes the node of a call."""

    def __init__(
        self,
        name: str,
        implementation: Callable,
        node: str | Callable[[Sequence[Any]], str] | None,
        out: bool | Out = False,
        **facets: Unpack[Facets],
    ):
        super().__init__(name, out, **facets)
        self.implementation = implementation
        self.signature = signature_of(implementation)
        self.parameters = list(self.signature.parameters)
        self.kinds = {n: parameter_kind(p.annotation) for n, p in self.signature.parameters.items()}
        self.tensors = [n for n in self.parameters if self.kinds[n] != OTHER]
        self.kept: dict[Any, Callable] | None = None  # plans by call, of what is declared as planned
        self.kept_in_place: dict[Any, Callable] | None = None
        self.kernel_error: Callable | None = None  # (arguments) -> the exception for bad data that a kernel found
        self.takes_out = bool(out)
        self.returns: Any = self.signature.return_annotation
        self.composite = False  # whether the body is written in other operators, whose gradients are then its own
        self.rule: Callable | None = None
        self.rule_names: tuple[str, ...] = ()
        self.real_gradients: str | None = None  # PyTorch's name of an operator that refuses to record complex results
        self.differentiable: int | None = None  # how many results, from the first, take part in the graph; None: all
        title = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Backward0"
        self.choose_node = node if callable(node) else None
        self.node_classes: dict[Any, type] = {}
        # by node name, and whether of several results; generated where the operator allows it
        self.recorders: dict[tuple[str, bool], Callable] = {}
        self.node_name = title if node is None or callable(node) else node if "Backward" in node else node + "Backward0"

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def said(self) -> Any:
        """What the declaration says to a schema."""
        words = ("composite",) if self.composite else ()
        from flambeau.core.operator.schemas import Said

        names = inspect.unwrap(self.implementation).__globals__
        return Said(tuple(self.signature.parameters.values()), self.returns, names, words)

    def node_class(self, arguments: Sequence[Any], several: bool) -> type:
        """The class of the node of a call; PyTorch names those of the overloads of an operator differently."""
        name = self.node_name if self.choose_node is None else self.choose_node(arguments)
        found = self.node_classes.get((name, several))
        if found is None:
            base = MultiOperatorNode if several else OperatorNode
            body: dict[str, Any] = {"__slots__": (), "operator": self}
            if several and straight_several(self):
                body |= {"counts": (-1,) * len(self.tensors), "apply": several_applier_of(self)}
            elif not several and straight(self):
                body |= {"counts": (-1,) * len(self.tensors), "apply": applier_of(self)}
            elif not several and straight_list(self):
                body |= {"apply": list_applier_of(self)}
            found = self.node_classes[name, several] = type(name, (base,), body)
        return found

    def record(self, arguments: Sequence[Any], result: Any) -> Node:
        """The node of a computed call; `arguments` in order of the signature."""
        local = modes.local
        simple = not (local.saved_tensors_hooks or anomaly.enabled)
        if simple:
            name = self.node_name if self.choose_node is None else self.choose_node(arguments)
            several = isinstance(result, tuple) and self.differentiable != 1
            recorder = self.recorders.get((name, several)) or self._recorder(name, several, arguments, result)
            if recorder is not None:
                return recorder(*arguments, result)
        edges, inputs = self._edges(arguments)
        results = result if isinstance(result, tuple) else (result,)
        values, versions = self._saved(arguments, results)
        if local.saved_tensors_hooks:
            values, versions = pack(values, versions)
        if isinstance(result, tuple):
            node: Any = self.node_class(arguments, True)(len(results), edges, inputs, values, versions)
        else:
            node = self.node_class(arguments, False)(edges, inputs, values, versions)
        if "counts" not in type(node).__dict__:
            node.counts = tuple(
                len(x) if x is not None and self.kinds[n] == TENSORS else -1
                for n, x in zip(self.parameters, arguments)
                if self.kinds[n] != OTHER
            )
        alone = self.rule is not None and len(results[: self.differentiable]) == 1
        for i, y in enumerate(results[: self.differentiable]):
            if isinstance(y, Tensor):
                if suited(self, y._layout.dtype):
                    y._node, y._index = node, i
                elif alone:
                    refuse(self, y)
        return node

    def _recorder(self, name: str, several: bool, arguments: Sequence[Any], result: Any) -> Callable | None:
        """Generate what records calls like this one, and keep it; None where the operator doesn't allow it."""
        if several:
            make = several_recorder_of if straight_several(self) else None
        elif straight(self):
            make = recorder_of
        else:
            make = list_recorder_of if straight_list(self) and not isinstance(result, tuple) else None
        if make is None:
            return None
        made = self.recorders[name, several] = make(self, self.node_class(arguments, several))
        return made

    def _edges(self, arguments: Sequence[Any]) -> tuple[tuple, tuple]:
        """The edges of a call's node, one for each tensor among the arguments, and the layouts of those that have one."""
        edges: list[Any] = []
        inputs: list[Any] = []
        for name, x in zip(self.parameters, arguments):
            kind = self.kinds[name]
            if kind == TENSOR:
                _edge(x, edges, inputs)
            elif kind == TENSORS:
                for y in x or ():
                    _edge(y, edges, inputs)
        return tuple(edges), tuple(inputs)

    def _saved(self, arguments: Sequence[Any], results: tuple) -> tuple[tuple, tuple]:
        """What the rule's parameters ask for, and the version of each tensor of it."""
        saved: list[Any] = []
        versions: list[Any] = []
        for name in self.rule_names:
            if name in PASSED:
                continue
            if name in ("out", "outs") or single_output(name):
                chosen = range(len(results)) if name == "outs" else (0,) if name == "out" else (int(name[3:]),)
                saved += [alias_of(results[i], i) for i in chosen]
                versions += [results[i]._storage.version for i in chosen]
                continue
            x = arguments[self.parameters.index(name)]
            if self.kinds[name] == TENSORS:
                saved += [len(x), *x]
                versions += [None, *(y._storage.version for y in x)]
            elif holds_indices(self, name):
                saved += x
                versions += [None if y is None else y._storage.version for y in x]
            else:
                saved.append(x)
                versions.append(x._storage.version if isinstance(x, Tensor) else None)
        return tuple(saved), tuple(versions)


def _edge(x: Any, edges: list, inputs: list) -> None:
    if isinstance(x, Tensor) and x._node is not None:
        edges.append((x._node, x._index))
        inputs.append(x._layout)
    else:
        edges.append(NO_EDGE)
        inputs.append(None)


def _needs(node: Any) -> dict[str, Any]:
    """Which gradients are wanted, by parameter name (a list of bools for a sequence of tensors)."""
    need: dict[str, Any] = {}
    at = 0
    for name, count in zip(node.operator.tensors, node.counts):
        need[name] = node.needs(at) if count < 0 else [node.needs(at + i) for i in range(count)]
        at += 1 if count < 0 else count
    return need


def _apply(node: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    """One gradient per edge, by the operator's rule."""
    operator = node.operator
    if operator.rule is None:
        raise NotImplementedError(f"the derivative for '{operator.name}' is not implemented.")
    if all(g is None for g in gradients):
        return (None,) * len(node.edges)
    values = iter(node.unpack())
    keywords: dict[str, Any] = {}
    for name in operator.rule_names:
        if name == "g":
            keywords[name] = gradients[0]
        elif name == "gs":
            keywords[name] = tuple(gradients)
        elif name == "layouts":
            keywords[name] = node.inputs
        elif name == "need":
            keywords[name] = _needs(node)
        elif name == "out":
            keywords[name] = node.attach(next(values))
        elif name == "outs":
            keywords[name] = tuple(node.attach(next(values), i) for i in range(node.output_count))
        elif single_output(name):
            keywords[name] = node.attach(next(values), int(name[3:]))
        elif operator.kinds[name] == TENSORS:
            count = next(values)
            keywords[name] = [next(values) for _ in range(count)]
        else:
            keywords[name] = next(values)
    made = operator.rule(**keywords)
    made = made if isinstance(made, tuple) else (made,)
    flat: list[Any] = []
    for i, count in enumerate(node.counts):
        x = made[i] if i < len(made) else None
        if count < 0:
            flat.append(x)
        else:
            flat.extend(x if x is not None else [None] * count)
    return tuple(flat)


def _saves_output(node: Any, value: Any) -> bool:
    """Whether a saved value is an alias of this step's own result."""
    operator, dtype = node.operator, value._layout.dtype
    saves = any(name in ("out", "outs") or (single_output(name) and operator.differentiable != 1) for name in operator.rule_names)
    return (
        saves
        and node.saved is not None
        and value._node is None
        and (dtype.is_floating_point or dtype.is_complex)
        and any(value is kept for kept in node.saved)
    )


class OperatorNode(Node):
    """A recorded call with one result."""

    __slots__ = ("counts",)
    operator: Operator
    saves_output, apply = _saves_output, _apply


class MultiOperatorNode(MultiNode):
    """A recorded call with several results."""

    __slots__ = ("counts",)
    operator: Operator
    saves_output, apply = _saves_output, _apply
