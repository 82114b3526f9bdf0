"""Gradual typing of graphs: the shapes of all nodes from what is annotated, as far as that tells them; contradictions are errors.

A rule says what a function or layer makes of the types it takes. `Refine` gives unknown sizes names, and says which of them are
equal (unify_refinements solves that). Stands on gradual_types; relations between symbols need sympy. Used by programs.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import flambeau as torch
from flambeau.fx.experimental.gradual_types import (
    adaptiveavgpool2d_check,
    broadcast_types,
    calculate_out_dimension,
    expand_to_tensor_dim,
    flatten_check,
    flattened,
    get_greatest_upper_bound,
    linear_check,
    maxpool2d_check,
    reshape_check,
)
from flambeau.fx.experimental.refinement_types import Equality
from flambeau.fx.experimental.unification import Var
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise
from flambeau.nn import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Linear, MaxPool2d, ReLU

__all__ = [
    "GraphTypeChecker", "Refine", "adaptiveavgpool2d_check", "broadcast_types", "calculate_out_dimension",
    "expand_to_tensor_dim", "flatten_check", "get_greatest_upper_bound", "linear_check", "maxpool2d_check",
    "register_algebraic_expressions_inference_rule", "register_inference_rule", "register_refinement_rule",
]  # fmt: skip

Rule = TypeVar("Rule", bound=Callable[..., Any])
_INFERENCE_RULES: dict[Any, Callable[..., Any]] = {}
_REFINEMENT_RULES: dict[Any, Callable[..., Any]] = {}
_RULES: dict[Any, Callable[..., Any]] = {}


def _registering(table: dict[Any, Callable[..., Any]]) -> Callable[[Any], Callable[[Rule], Rule]]:
    def register(call_target: Any) -> Callable[[Rule], Rule]:
        def enter(rule: Rule) -> Rule:
            if call_target in table:
                raise RuntimeError(f"Rule already registered for {call_target}!")
            table[call_target] = rule
            return rule

        return enter

    return register


register_inference_rule = _registering(_INFERENCE_RULES)
register_refinement_rule = _registering(_REFINEMENT_RULES)
register_algebraic_expressions_inference_rule = _registering(_RULES)


def _argument(n: Node, index: int, name: str, default: Any) -> Any:
    return n.args[index] if len(n.args) > index else n.kwargs.get(name, default)


# ---------------------------------------------------------------- what nodes make of types


@register_inference_rule(torch.add)
@register_inference_rule(operator.add)
def add_inference_rule(n: Node) -> Any:
    """The less precise of both types, once they are broadcast. TypeError for types that contradict each other."""
    t1, t2 = (arg.type if isinstance(arg, Node) else type(arg) for arg in n.args[:2])
    for number, other in ((t1, t2), (t2, t1)):
        if number in (int, float) and isinstance(other, TensorType):
            n.type = other
            return n.type
    if t1 in (int, float) and t1 is t2:
        n.type = t1
        return n.type
    new_t1, new_t2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = new_t1 != t1 or new_t2 != t2
    if not is_consistent(new_t1, new_t2):
        raise TypeError(f"Cannot add arguments {n.args[0]} ({t1}) and {n.args[1]} ({t2}) in node {n}")
    n.type = new_t2 if is_more_precise(new_t1, new_t2) else new_t1
    return n.type


@register_inference_rule(getattr)
def get_attr_inference_rule(n: Node, traced: Any) -> Any:
    """A shape, whose type isn't known further."""
    if n.args[1] != "shape":
        raise TypeError("Not yet supported: attributes other than shape")
    n.type = Dyn
    return n.type


@register_inference_rule(torch.transpose)
def transpose_inference_rule(n: Node) -> Any:
    """The sizes, two of them exchanged. TypeError for dimensions that aren't there."""
    t = n.args[0].type  # type: ignore[union-attr]
    if t == Dyn:
        return n.type
    first, second = _argument(n, 1, "dim0", 0), _argument(n, 2, "dim1", 0)
    if not isinstance(t, TensorType) or not all(-len(t.__args__) <= dim < len(t.__args__) for dim in (first, second)):
        raise TypeError(f"Cannot transpose {first} and {second} in type {t} for node {n}")
    sizes = list(t.__args__)
    sizes[first], sizes[second] = sizes[second], sizes[first]
    n.type = get_greatest_upper_bound(TensorType(tuple(sizes)), n.type)
    return n.type


@register_inference_rule(torch.reshape)
def reshape_inference_rule(n: Node) -> Any:
    """The wanted sizes. TypeError where the elements can't be as many."""
    n.type = reshape_check(n.args[0].type, _argument(n, 1, "shape", ()))  # type: ignore[union-attr]
    return n.type


@register_inference_rule(BatchNorm2d)
def bn2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """What is known of the input and of the node; both have four dimensions and the layer's number of features."""
    given = n.args[0]
    assert isinstance(given, Node)
    given.type, n.type = expand_to_tensor_dim(given.type, 4), expand_to_tensor_dim(n.type, 4)
    if not all(is_consistent(t.__args__[1], module_instance.num_features) for t in (given.type, n.type)):
        raise TypeError(f"Cannot apply {module_instance} with input type {given.type} and existing type {n.type} on {n}")
    n.type = get_greatest_upper_bound(given.type, n.type)
    return n.type


@register_inference_rule(Conv2d)
def conv2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The sizes that a convolution gives. TypeError for another number of channels than its weight has."""
    given = n.args[0]
    assert isinstance(given, Node)
    given.type, known = expand_to_tensor_dim(given.type, 4), expand_to_tensor_dim(n.type, 4)
    batch, channels, height, width = given.type.__args__
    if not is_consistent(channels, module_instance.in_channels):
        raise TypeError(f"Cannot apply {module_instance} with input type {given.type} and existing type {n.type} on {n}")
    sizes = [calculate_out_dimension(size, module_instance, i) for i, size in enumerate((height, width))]
    n.type = get_greatest_upper_bound(TensorType((batch, module_instance.out_channels, *sizes)), known)
    return n.type


def _checked(n: Node, check: Callable[[TensorType], TensorType]) -> Any:
    """What `check` makes of the input's type, and what is known of the node."""
    given = n.args[0]
    assert isinstance(given, Node)
    if given.type == Dyn and isinstance(n.type, TensorType):
        given.type = expand_to_tensor_dim(given.type, len(n.type.__args__))
    if isinstance(given.type, TensorType):
        n.type = get_greatest_upper_bound(check(given.type), n.type)
    return n.type


@register_inference_rule(ReLU)
def relu_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of the input."""
    return _checked(n, lambda t: t)


@register_inference_rule(MaxPool2d)
def maxpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The sizes that pooling gives."""
    return _checked(n, lambda t: maxpool2d_check(t, module_instance))


@register_inference_rule(Linear)
def linear_inference_rule(n: Node, module_instance: Any) -> Any:
    """The sizes that a linear layer gives."""
    return _checked(n, lambda t: linear_check(t, module_instance))


@register_inference_rule(AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The sizes that adaptive pooling gives."""
    return _checked(n, lambda t: adaptiveavgpool2d_check(t, module_instance))


def _flattened_dims(n: Node) -> tuple[int, int]:
    return _argument(n, 1, "start_dim", 0), _argument(n, 2, "end_dim", -1)


@register_inference_rule(torch.flatten)
def flatten_inference_rule(n: Node) -> Any:
    """The sizes that flatten gives."""
    start, end = _flattened_dims(n)
    given = n.args[0]
    assert isinstance(given, Node)
    if isinstance(given.type, TensorType):
        n.type = get_greatest_upper_bound(flatten_check(given.type, start, end), n.type)
    return n.type


class GraphTypeChecker:
    """type_check gives every node of a traced module a type, or raises TypeError for types that contradict each other."""

    def __init__(self, env: dict[str, Any], traced: GraphModule) -> None:
        self.env, self.traced = env, traced

    def type_check(self) -> bool:
        """Give every node its type; True."""
        for n in self.traced.graph.nodes:
            self.type_check_node(n)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Give one node its type, behind those that it reads. RuntimeError where there is no rule for what it calls."""
        if n.type is None:
            n.type = Dyn
        if n.op == "get_attr":
            value = operator.attrgetter(str(n.target))(self.traced)
            n.type = TensorType(tuple(value.shape)) if isinstance(value, torch.Tensor) else n.type
        elif n.op == "call_function":
            rule = _rule(_INFERENCE_RULES, n.target)
            return rule(n, self.traced) if n.target is getattr else rule(n)
        elif n.op == "call_module":
            module = self.traced.get_submodule(str(n.target))
            return _rule(_INFERENCE_RULES, type(module), "class ")(n, module)
        elif n.op == "output":
            n.type = map_arg(n.args[0], lambda arg: arg.type)
        elif n.op != "placeholder":
            raise NotImplementedError(f"Method {n.op} not yet supported")
        return n.type


def _rule(table: dict[Any, Callable[..., Any]], target: Any, word: str = "target ") -> Callable[..., Any]:
    if target not in table:
        raise RuntimeError(f"No inference rule registered for {word}{target}!")
    return table[target]


# ---------------------------------------------------------------- which unknown sizes are equal


def _sizes(n: Node) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The sizes of a node's input and its own; none unless both are known to be tensors."""
    given = n.args[0]
    if isinstance(given, Node) and isinstance(given.type, TensorType) and isinstance(n.type, TensorType):
        return given.type.__args__, n.type.__args__
    return (), ()


@register_refinement_rule(ReLU)
@register_refinement_rule(BatchNorm2d)
def all_eq(n: Node) -> list[Equality]:
    """All sizes are those of the input."""
    return [Equality(x, y) for x, y in zip(*_sizes(n))]


@register_refinement_rule(MaxPool2d)
@register_refinement_rule(AdaptiveAvgPool2d)
def first_two_eq(n: Node) -> list[Equality]:
    """The first two sizes are those of the input."""
    return all_eq(n)[:2]


@register_refinement_rule(Conv2d)
@register_refinement_rule(Linear)
def first_eq(n: Node) -> list[Equality]:
    """The first size is that of the input."""
    return all_eq(n)[:1]


@register_refinement_rule(torch.add)
@register_refinement_rule(operator.add)
def element_wise_eq(n: Node) -> list[Equality]:
    """Sizes that both operands have are those of the result; a size that one of them doesn't know may have been broadcast."""
    types = [arg.type for arg in n.args if isinstance(arg, Node)]
    if len(types) != 2 or not all(isinstance(t, TensorType) for t in (*types, n.type)):
        return []
    result: Any = n.type
    one, other = broadcast_types(*types)
    return [Equality(x, z) for x, y, z in zip(one.__args__, other.__args__, result.__args__) if x == y]


@register_refinement_rule(torch.flatten)
def flatten_refinement_rule(n: Node) -> list[Equality]:
    """The sizes that aren't flattened are those of the input."""
    given, own = _sizes(n)
    start, end = flattened(len(given), *_flattened_dims(n))
    return [Equality(x, y) for x, y in zip((*given[:start], *given[end:]), (*own[:start], *own[start + 1 :]))]


@register_algebraic_expressions_inference_rule(Conv2d)
def conv_rule(n: Node, module_instance: Any) -> TensorType | None:
    """A convolution's sizes by those of its input."""
    given, own = _sizes(n)
    if not given:
        return None
    sizes = [calculate_out_dimension(given[i + 2], module_instance, i) for i in (0, 1)]
    n.type = TensorType((*own[:2], *sizes))
    return n.type


class Refine:
    """Names for the unknown sizes of a typed graph (`refine`), and what is known of them: `constraints`, a list of Equality."""

    def __init__(self, traced: GraphModule) -> None:
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count(0, 1)

    def refine(self) -> bool:
        """Name the unknown sizes of all nodes, and say which sizes are equal; True."""
        for n in self.traced.graph.nodes:
            self.refine_node(n)
        return True

    def symbolic_relations(self) -> bool:
        """Put symbols of sympy in the place of names, and expressions where a rule knows one; True."""
        for n in self.traced.graph.nodes:
            self.infer_symbolic_relations(n)
        return True

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """The type, with a new name for every size that isn't known."""
        return Var(next(self.symbol_iter)) if typ == Dyn else _mapped(self.replace_dyn_with_fresh_var, typ)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """The type, with symbols of sympy for names."""
        if isinstance(typ, Var):
            import sympy

            return sympy.symbols(str(typ))
        return _mapped(self.convert_to_sympy_symbols, typ)

    def refine_node(self, n: Node) -> Any:
        """Name a node's unknown sizes, and note which are equal to its input's."""
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        self.constraints += self._ruled(_REFINEMENT_RULES, n, False) or []
        return n.type

    def infer_symbolic_relations(self, n: Node) -> Any:
        """Say a node's type in symbols."""
        n.type = self.convert_to_sympy_symbols(n.type)
        return self._ruled(_RULES, n, True)

    def _ruled(self, table: dict[Any, Callable[..., Any]], n: Node, with_module: bool) -> Any:
        """What the rule for a node says; None if there is none. An output has the types of what it gives."""
        if n.op == "call_function" and n.target in table:
            return table[n.target](n)
        if n.op == "call_module":
            module = self.traced.get_submodule(str(n.target))
            if type(module) in table:
                return table[type(module)](n, module) if with_module else table[type(module)](n)
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda arg: arg.type)
        return None


def _mapped(fn: Callable[[Any], Any], typ: Any) -> Any:
    """A type whose parts `fn` has gone over; what has none is itself."""
    if isinstance(typ, TensorType):
        return TensorType(tuple(map(fn, typ.__args__)))
    return type(typ)(map(fn, typ)) if isinstance(typ, (list, tuple)) else typ
