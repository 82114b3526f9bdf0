"""Declarations of operators that are no scalar bodies: `@operator` (an implementation and its derivative) and `@composite`
(a body in other operators).

From the implementation's signature a public function is generated that hands subclasses and special modes on, records a node when
an argument requires grad, and accepts `out=`. Rules (`@function.vjp`) are written in differentiable operators; the names of their
parameters say what is saved. Stands on core.derive; used by flambeau.ops and flambeau.nn.functional.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core import arguments, modes, overrides
from flambeau.core import inplace as rewiring
from flambeau.core.autocast import autocasting, cast_arguments
from flambeau.core.derive import NAMESPACE, OPERATORS, compile_source
from flambeau.core.node import NO_EDGE, MultiNode, Node, anomaly, one_step, pack
from flambeau.core.op import signature_of
from flambeau.core.operator_recording import (
    applier_of,
    list_recorder_of,
    recorder_of,
    single_output,
    straight,
    straight_list,
)
from flambeau.core.tensor import Tensor, tensor_from
from flambeau.core.variants import convertible, copy_into, deliver

TENSOR, TENSORS, OTHER = "tensor", "tensors", "other"


def parameter_kind(annotation: Any) -> str:
    """Whether a parameter is a tensor (perhaps None), a sequence of tensors, or anything else."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = text.replace(" ", "")
    if text in ("Tensor", "Tensor|None", "Operand"):
        return TENSOR
    return TENSORS if text in ("Tensors", "Sequence[Tensor]", "Sequence[Tensor]|None", "Tensors|None") else OTHER


class Operator:
    """An implementation with a derivative rule; `record` makes the node of a call."""

    def __init__(self, name: str, implementation: Callable, node: str | Callable[[Sequence[Any]], str] | None):
        self.name, self.implementation = name, implementation
        self.signature = signature_of(implementation)
        self.parameters = list(self.signature.parameters)
        self.kinds = {n: parameter_kind(p.annotation) for n, p in self.signature.parameters.items()}
        self.tensors = [n for n in self.parameters if self.kinds[n] != OTHER]
        self.composite = False      # whether the body is written in other operators, whose gradients are then its own
        self.rule: Callable | None = None
        self.rule_names: tuple[str, ...] = ()
        self.differentiable: int | None = None      # how many results, from the first, take part in the graph; None: all
        title = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Backward0"
        self.choose_node = node if callable(node) else None
        self.node_classes: dict[Any, type] = {}
        self.recorders: dict[str, Callable] = {}    # by node name; generated where the operator allows it
        self.node_name = title if node is None or callable(node) else node if "Backward" in node else node + "Backward0"

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def node_class(self, arguments: Sequence[Any], several: bool) -> type:
        """The class of the node of a call; PyTorch names those of the overloads of an operator differently."""
        name = self.node_name if self.choose_node is None else self.choose_node(arguments)
        found = self.node_classes.get((name, several))
        if found is None:
            base = MultiOperatorNode if several else OperatorNode
            body: dict[str, Any] = {"__slots__": (), "operator": self}
            if not several and straight(self):
                body |= {"counts": (-1,) * len(self.tensors), "apply": applier_of(self)}
            found = self.node_classes[name, several] = type(name, (base,), body)
        return found

    def record(self, arguments: Sequence[Any], result: Any) -> Node:
        """The node of a computed call; `arguments` in order of the signature."""
        local = modes.local
        simple = not (local.saved_tensors_hooks or local.saved_tensors_disabled or anomaly.enabled)
        if simple and (not isinstance(result, tuple) or self.differentiable == 1):
            name = self.node_name if self.choose_node is None else self.choose_node(arguments)
            recorder = self.recorders.get(name)
            if recorder is None and straight(self):
                recorder = self.recorders[name] = recorder_of(self, self.node_class(arguments, False))
            elif recorder is None and straight_list(self) and not isinstance(result, tuple):
                recorder = self.recorders[name] = list_recorder_of(self, self.node_class(arguments, False))
            if recorder is not None:
                return recorder(*arguments, result)
        edges: list[Any] = []
        inputs: list[Any] = []
        for name, x in zip(self.parameters, arguments):
            kind = self.kinds[name]
            if kind == TENSOR:
                _edge(x, edges, inputs)
            elif kind == TENSORS:
                for y in x or ():
                    _edge(y, edges, inputs)
        saved: list[Any] = []
        marks: list[Any] = []
        results = result if isinstance(result, tuple) else (result,)
        for name in self.rule_names:
            if name in ("g", "gs", "need", "layouts"):
                continue
            if name == "out" or name == "outs":
                for index, y in enumerate(results if name == "outs" else results[:1]):
                    saved.append(_alias(y, index))
                    marks.append(y._storage.version)
                continue
            if single_output(name):
                y = results[int(name[3:])]
                saved.append(_alias(y, int(name[3:])))
                marks.append(y._storage.version)
                continue
            x = arguments[self.parameters.index(name)]
            if self.kinds[name] == TENSORS:
                saved.append(len(x))
                marks.append(None)
                saved.extend(x)
                marks.extend([y._storage.version for y in x])
            else:
                saved.append(x)
                marks.append(x._storage.version if isinstance(x, Tensor) else None)
        values, versions = tuple(saved), tuple(marks)
        if modes.local.saved_tensors_hooks or modes.local.saved_tensors_disabled:
            values, versions = pack(values, versions)
        if isinstance(result, tuple):
            node: Any = self.node_class(arguments, True)(len(results), tuple(edges), tuple(inputs), values, versions)
        else:
            node = self.node_class(arguments, False)(tuple(edges), tuple(inputs), values, versions)
        if "counts" not in type(node).__dict__:
            node.counts = tuple(len(x) if x is not None and self.kinds[n] == TENSORS else -1
                                for n, x in zip(self.parameters, arguments) if self.kinds[n] != OTHER)
        for i, y in enumerate(results[:self.differentiable]):
            if isinstance(y, Tensor) and (y._layout.dtype.is_floating_point or y._layout.dtype.is_complex):
                y._node, y._index = node, i
        return node


def _alias(output: Tensor, index: int) -> Tensor:
    """A result as its own node may save it: the result itself would be a cycle. The index is for error messages."""
    made = tensor_from(output._storage, output._offset, output._layout)
    made._index = index
    return made


def _edge(x: Any, edges: list, inputs: list) -> None:
    if isinstance(x, Tensor) and x._node is not None:
        edges.append((x._node, x._index))
        inputs.append(x._layout)
    else:
        edges.append(NO_EDGE)
        inputs.append(None)


class Need(dict):
    """Which gradients are wanted, by parameter name (a list of bools for a sequence of tensors)."""


def _apply(node: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
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
            need, at = Need(), 0
            for n, count in zip(operator.tensors, node.counts):
                if count < 0:
                    need[n] = node.needs(at)
                    at += 1
                else:
                    need[n] = [node.needs(at + i) for i in range(count)]
                    at += count
            keywords[name] = need
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
    operator, dtype = node.operator, value._layout.dtype
    saves = any(name in ("out", "outs") or (single_output(name) and operator.differentiable != 1)
                for name in operator.rule_names)
    return (saves and node.saved is not None and value._node is None and (dtype.is_floating_point or dtype.is_complex)
            and any(value is kept for kept in node.saved))


class OperatorNode(Node):
    """A recorded call with one result."""

    __slots__ = ("counts",)
    operator: Operator

    def saves_output(self, value: Any) -> bool:
        """Whether a saved value is an alias of this step's own result."""
        return _saves_output(self, value)

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return _apply(self, gradients)


class MultiOperatorNode(MultiNode):
    """A recorded call with several results."""

    __slots__ = ("counts",)
    operator: Operator

    def saves_output(self, value: Any) -> bool:
        """Whether a saved value is an alias of this step's own result."""
        return _saves_output(self, value)

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return _apply(self, gradients)


_SOURCE = '''
def {name}({signature}):
    """{doc}"""
    try:
{aliases}        if active.count or {special}:
            return general({arguments_tuple}, {{{keyword_dict}}}{out_argument})
{out_code}        if {wanted} and local.grad:
            local.grad = False
            try:
                result = implementation({arguments})
            finally:
                local.grad = True
            record(({arguments_tuple_values},), result)
            return result
        return implementation({arguments})
    except caught as error:
        answer = explain(error, ({in_order},))
        if answer is None:
            raise
        return answer
'''


def _aliases(function: Callable) -> tuple[dict[str, str], str]:
    """NumPy's names that PyTorch takes too ({axis: dim, keepdims: keepdim}), and the code that translates them."""
    parameters = signature_of(function).parameters
    names = {"axis": "dim"} if "dim" in parameters else {}
    if not names:
        return {}, ""
    after = list(parameters.values())[list(parameters).index("dim") + 1:]
    required = parameters["dim"].default is inspect.Parameter.empty
    if required and any(p.default is p.empty for p in after if p.kind is p.POSITIONAL_OR_KEYWORD):
        return {}, ""
    code = "        if axis is not None:\n            dim = axis\n"
    if required:
        code += (f"        elif dim is None:\n            raise TypeError(\"{function.__name__}() missing 1 required "
                 "positional arguments: "
                 "\\\"dim\\\"\")\n")
    if "keepdim" in parameters:
        names["keepdims"] = "keepdim"
        code += "        if keepdims is not None:\n            keepdim = keepdims\n"
    return names, code


def _signature(function: Callable, out: bool, aliases: dict[str, str]) -> tuple[str, str, list[str], list[str]]:
    """(parameters text, call text, positional names, keyword-only names) of a function."""
    parts, call, positional, keywords, star = [], [], [], [], False
    for name, p in signature_of(function).parameters.items():
        if name == "dim" and aliases and p.default is p.empty:
            p = p.replace(default=None)
        if p.kind is p.VAR_POSITIONAL:
            parts.append(f"*{name}")
            call.append(f"*{name}")
            star = True
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        parts.append(name if p.default is p.empty else f"{name}={_default(p.default)}")
        call.append(f"{name}={name}" if p.kind is p.KEYWORD_ONLY else name)
        (keywords if p.kind is p.KEYWORD_ONLY else positional).append(name)
    if out or aliases:
        parts += [*([] if star else ["*"]), *(f"{name}=None" for name in aliases), *(["out=None"] if out else [])]
    return ", ".join(parts), ", ".join(call), positional, keywords


def _default(value: Any) -> str:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    text = repr(value)
    if text.startswith(("<", "torch.")):
        raise TypeError(f"the default {text} can't be written in generated source; use None")
    return text


def operator(
    method: bool = True,
    function: bool = True,
    inplace: bool = False,
    out: bool = False,
    node: str | None = None,
    name: str | None = None,
    dunder: str | None = None,
    differentiable: int | None = None,
) -> Callable[[Callable], Callable]:
    """Declare an operator by its implementation, which runs without recording and returns fresh tensors.

    method, function: where it appears; inplace: also `name_`, which writes the result into the first argument; out: accept `out=`
    (a tensor, or a tuple of them for several results); node: the name of its graph node, or a function of the arguments
    that gives it;
    dunder: the Python operator's method; differentiable: how many of several results, from the first, take part in the graph.
    """
    def declare(implementation: Callable) -> Callable:
        public = name or implementation.__name__
        declared = Operator(public, implementation, node)
        declared.differentiable = differentiable
        made = _generate(declared, implementation, public, out, method, function)
        _publish(made, public, method, function, dunder)
        made.operator = declared
        declared.public = made
        OPERATORS[public] = declared
        if inplace:
            _publish(_inplace_variant(declared, made, public), public + "_", method, function, None)

        def vjp(rule: Callable) -> Callable:
            declared.rule, declared.rule_names = rule, tuple(signature_of(rule).parameters)
            return rule
        made.vjp = vjp
        return made
    return declare


def _generate(declared: Operator, implementation: Callable, public: str, out: bool, method: bool, function: bool) -> Callable:
    aliases, alias_code = _aliases(implementation)
    signature, call, positional, keywords = _signature(implementation, out, aliases)
    tensors = [n for n in declared.tensors if declared.kinds[n] == TENSOR]
    lists = [n for n in declared.tensors if declared.kinds[n] == TENSORS]
    checks = [f"({n}.__class__ not in plain)" for n in tensors] + [f"unusual_list({n})" for n in lists]
    wanted = [
        f"({n} is not None and {n}._node is not None)"
        if declared.signature.parameters[n].default is None
        or any(word in str(declared.signature.parameters[n].annotation) for word in ("Operand", "None"))
        else f"{n}._node is not None"
        for n in tensors
    ]
    wanted = [w if "Operand" not in str(declared.signature.parameters[n].annotation) else
              f"getattr({n}, '_node', None) is not None" for w, n in zip(wanted, tensors)]
    wanted += [f"any_node({n})" for n in lists]
    out_code = (
        "        if out is not None:\n            return write_out(" + ", ".join([*positional, *keywords]) + ", out=out)\n"
        if out
        else ""
    )
    source = _SOURCE.format(
        name=public, signature=signature, doc=(inspect.getdoc(implementation) or "").replace('"""', "'''").replace("\\", "\\\\"),
        aliases=alias_code, special=" or ".join(checks) or "False", arguments=call,
        wanted="(" + (" or ".join(wanted) or "False") + ")",
        arguments_tuple="[" + ", ".join(positional) + "]", keyword_dict=", ".join(f"{k!r}: {k}" for k in keywords),
        out_argument=", out" if out else ", None", out_code=out_code,
        arguments_tuple_values=", ".join([*positional, *keywords]), in_order=", ".join(declared.parameters))

    def general(given: list, named: dict, out_tensor: Any) -> Any:
        answer = _answered(declared, scope[public], given, named, out_tensor)
        if answer is not UNANSWERED:
            return answer
        tensors_given = list(_flat_tensors(declared, given, named))
        if modes.active.count and out_tensor is None and modes.local.autocast_enabled.get("cpu"):
            with cast_arguments(declared, given, named) as (given, named):
                return unmodified(given, named, out_tensor, list(_flat_tensors(declared, given, named)))
        return unmodified(given, named, out_tensor, tensors_given)

    def unmodified(given: list, named: dict, out_tensor: Any, tensors_given: list) -> Any:
        for n, x in zip(positional, given):
            if declared.kinds[n] == TENSOR and not isinstance(x, Tensor) and "Operand" not in str(
                    declared.signature.parameters[n].annotation) and not (
                    x is None and "None" in str(declared.signature.parameters[n].annotation)):
                raise TypeError(f"{public}(): argument '{n}' (position {positional.index(n) + 1}) must be Tensor, "
                                f"not {type(x).__name__}")
        if out_tensor is not None:
            return write_out(*given, *named.values(), out=out_tensor)
        if modes.local.grad and any(x._node is not None for x in tensors_given):
            modes.local.grad = False
            try:
                result = implementation(*given, **named)
            finally:
                modes.local.grad = True
            declared.record([*given, *named.values()], result)
            return result
        return implementation(*given, **named)

    def write_out(*given: Any, out: Any) -> Any:
        values = list(given)
        named = dict(zip(keywords, values[len(positional):]))
        values = values[:len(positional)]
        outs = out if isinstance(out, (tuple, list)) else (out,)
        for each in outs:
            if not isinstance(each, Tensor):
                raise arguments.refused(public, "out", "Tensor", each)
        if modes.local.grad and any(x._node is not None for x in [*_flat_tensors(declared, values, named), *outs]):
            raise RuntimeError(f"{public}(): functions with out=... arguments don't support automatic differentiation, "
                               "but one of "
                               "the arguments requires grad.")
        result = implementation(*values, **named)
        if isinstance(result, tuple) and isinstance(out, Tensor):
            raise arguments.refused_out(public, values, out, "tuple of Tensors")
        if outs is out and not isinstance(result, tuple):
            raise arguments.refused_out(public, values, out)
        return deliver(outs if isinstance(result, tuple) else outs[0], result, public, _flat_tensors(declared, values, named))
    scope: dict[str, Any] = {
        "active": modes.active, "local": modes.local, "plain": overrides.PLAIN, "implementation": implementation,
        "general": general, "record": declared.record, "write_out": write_out, "any_node": _any_node,
        "unusual_list": _unusual_list, "caught": arguments.CAUGHT,
        "explain": lambda error, values: arguments.explain(error, public, declared.signature, values, method, function)}
    compile_source(f"<flambeau {public}>", source, scope)
    made = scope[public]
    made.__module__ = "flambeau"
    return made


UNANSWERED = object()


def _answered(declared: Operator, public: Callable, given: list, named: dict, out: Any) -> Any:
    """What a mode or an overriding class answers to a call; UNANSWERED where there is none."""
    moded = modes.active.count and modes.local.modes
    asked = overrides.askable([*given, *named.values(), out])
    if not moded and not asked:
        return UNANSWERED
    parameters = declared.signature.parameters
    positional = list(zip(parameters.values(), given)) if len(given) <= len(parameters) else []
    while positional and positional[-1][1] is positional[-1][0].default:
        positional.pop()
    arguments = tuple(x for _, x in positional) if positional else tuple(given)
    keywords = {n: x for n, x in named.items() if x is not parameters[n].default}
    if out is not None:
        keywords["out"] = out
    if moded:
        return modes.dispatch(declared, public, arguments, keywords)
    return overrides.dispatch(public, arguments, keywords, asked)


def _flat_tensors(declared: Operator, given: Sequence[Any], named: dict[str, Any]):
    for n, x in [*zip(declared.parameters, given), *named.items()]:
        if isinstance(x, Tensor):
            yield x
        elif declared.kinds.get(n) == TENSORS and x is not None:
            yield from (y for y in x if isinstance(y, Tensor))


def _any_node(tensors: Any) -> bool:
    return tensors is not None and any([x is not None and x._node is not None for x in tensors])  # noqa: C419 - faster


def _unusual_list(tensors: Any) -> bool:
    return tensors is not None and (isinstance(tensors, Tensor) or any([x.__class__ not in overrides.PLAIN for x in tensors]))  # noqa: C419 - faster


def _publish(made: Callable, public: str, method: bool, function: bool, dunder: str | None) -> None:
    if function:
        NAMESPACE[public] = made
    if method:
        setattr(Tensor, public, made)
    if dunder:
        setattr(Tensor, dunder, made)


def _inplace_variant(declared: Operator, made: Callable, public: str) -> Callable:
    """`name_`: compute, then write into the first argument, which takes the place of the result in the graph."""
    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        bound = declared.signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        arguments = list(bound.arguments.values())
        tensors = list(_flat_tensors(declared, arguments, {}))
        if modes.active.count and modes.local.modes:
            return modes.dispatch(inplace, inplace, (self, *args), kwargs)
        if overrides.any_override(tensors):
            return overrides.dispatch(inplace, [self, *args], kwargs, tensors)
        recording = modes.local.grad and any(x._node is not None for x in tensors)
        if recording:
            rewiring.check(self)
        before = modes.local.grad
        modes.local.grad = False
        try:
            saved_self = tensor_from(self._storage, self._offset, self._layout)
            if recording and declared.parameters[0] in declared.rule_names:
                saved_self = self.clone()
                saved_self._node, saved_self._index = self._node, self._index
            result = declared.implementation(*bound.args, **bound.kwargs)
            if tuple(result._layout.shape) != tuple(self._layout.shape):
                raise RuntimeError(f"output with shape {list(self._layout.shape)} doesn't match the broadcast shape "
                                   f"{list(result._layout.shape)}")
            copy_into(self, result)
        finally:
            modes.local.grad = before
        if recording:
            edge_self = (self._node, self._index)
            arguments[0] = saved_self
            saved_self._node, saved_self._index = edge_self
            alias = tensor_from(self._storage, self._offset, self._layout)
            rewiring.rebase(self, declared.record(arguments, alias))
        return self
    inplace.__name__ = inplace.__qualname__ = public + "_"
    inplace.__module__ = "flambeau"
    inplace.__doc__ = f"In-place version of {public}()."
    return inplace


_COMPOSITE = '''
def {name}({signature}):
    """{doc}"""
    try:
{aliases}        if active.count or {special}:
            return general({arguments_tuple}, {{{keyword_dict}}}{out_argument})
{out_code}        return implementation({arguments})
    except caught as error:
        answer = explain(error, ({in_order},))
        if answer is None:
            raise
        return answer
'''


def composite(method: bool = True, function: bool = True, inplace: bool | str = False, out: bool = False,
              name: str | None = None, dunder: str | None = None, node: str | None = None) -> Callable[[Callable], Callable]:
    """Declare an operator whose body is written in other operators; its derivative is theirs. inplace: also as a method
    `name_` ("function": in the namespace too); node: the name of its last step, where PyTorch takes but one."""
    def declare(implementation: Callable) -> Callable:
        if node is not None:
            implementation = one_step(node)(implementation)
        public = name or implementation.__name__
        declared = Operator(public, implementation, None)
        declared.composite = True
        aliases, alias_code = _aliases(implementation)
        signature, call, positional, keywords = _signature(implementation, out, aliases)
        tensors = [n for n in declared.tensors if declared.kinds[n] == TENSOR]
        lists = [n for n in declared.tensors if declared.kinds[n] == TENSORS]
        checks = [f"({n}.__class__ not in plain)" for n in tensors] + [f"unusual_list({n})" for n in lists]
        source = _COMPOSITE.format(
            name=public, signature=signature, aliases=alias_code, special=" or ".join(checks) or "False", arguments=call,
            doc=(inspect.getdoc(implementation) or "").replace('"""', "'''").replace("\\", "\\\\"),
            arguments_tuple="[" + ", ".join(positional) + "]", keyword_dict=", ".join(f"{k!r}: {k}" for k in keywords),
            out_argument=", out" if out else ", None",
            in_order=", ".join(declared.parameters),
            out_code="        if out is not None:\n            return write_out("
                     f"implementation({call}), out, [{', '.join(tensors)}])\n" if out else "")

        def general(given: list, named: dict, out_tensor: Any) -> Any:
            answer = _answered(declared, scope[public], given, named, out_tensor)
            if answer is not UNANSWERED:
                return answer
            if modes.active.count and out_tensor is None and autocasting(declared):
                with cast_arguments(declared, given, named) as (given, named):
                    return implementation(*given, **named)
            result = implementation(*given, **named)
            return result if out_tensor is None else write_out(result, out_tensor, [*_flat_tensors(declared, given, named)])

        def write_out(result: Any, out_tensor: Any, inputs: list) -> Any:
            return deliver(out_tensor, result, public, inputs)
        scope: dict[str, Any] = {"active": modes.active, "plain": overrides.PLAIN, "implementation": implementation,
                                 "general": general, "unusual_list": _unusual_list, "write_out": write_out,
                                 "caught": arguments.CAUGHT, "explain": lambda error, values: arguments.explain(
                                     error, public, declared.signature, values, method, function)}
        compile_source(f"<flambeau {public}>", source, scope)
        made = scope[public]
        made.__module__ = "flambeau"
        made.operator = declared
        declared.public = made
        _publish(made, public, method, function, dunder)
        OPERATORS[public] = declared
        if inplace:
            def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
                source = self.clone() if self._node is not None and modes.local.grad else self     # the rules may save it
                result = made(source, *args, **kwargs)
                convertible(result._layout.dtype, self._layout.dtype)
                return self.copy_(result)
            in_place.__name__ = in_place.__qualname__ = public + "_"
            in_place.__module__ = "flambeau"
            in_place.__doc__ = f"In-place version of {public}()."
            _publish(in_place, public + "_", method, inplace == "function", None)
        return made
    return declare
