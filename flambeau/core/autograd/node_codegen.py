"""Recorders and rules of declared operators as straight-line code, for those without sequences of tensors.

`recorder_of` writes a function that makes the node of a call: edges, what the rule's parameter names save, versions.
`applier_of` writes the node's `apply`: unpack, call the rule, one gradient per tensor. core.operator.opdef uses them;
operators on sequences of tensors go through its general code. Stands on core.autograd.node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.autograd.node import NO_EDGE, next_sequence
from flambeau.core.operator.pointwise import refuse_integers
from flambeau.core.tensor.tensor import Tensor, tensor_from

PASSED = ("g", "gs", "need", "layouts")  # what a rule may ask for that is not saved

_RECORD = """
def record({parameters}, result):
    node = new(kind)
    node.edges = ({edges})
    node.inputs = ({inputs})
    node.saved = ({saved})
    node.versions = ({versions})
    node.sequence = next_sequence()
    node.extras = None
    {first}dtype = result._layout.dtype
    if {suited}:
        result._node = node
    else:
        refuse(operator, result)
    return node
"""


WRITTEN = -1  # the index of an alias of what an in-place call wrote, which takes part in the graph whatever its dtype


def refuse(operator: Any, result: Tensor) -> None:
    """Raise as PyTorch does where a recorded call of an operator has a result that can't take part in a graph."""
    dtype = result._layout.dtype
    if result._index == WRITTEN:
        return
    if dtype.is_complex:
        raise RuntimeError(
            f"{operator.real_gradients} does not support automatic differentiation for outputs with complex dtype."
        )
    refuse_integers(dtype)


def suited(operator: Any, dtype: Any) -> bool:
    """Whether a result of this dtype of a recorded call takes part in the graph."""
    return dtype.is_floating_point or (dtype.is_complex and not operator.real_gradients)


def _suited(operator: Any) -> str:
    """The same as a text about `dtype`."""
    return "dtype.is_floating_point" if operator.real_gradients else "dtype.is_floating_point or dtype.is_complex"


def straight(operator: Any) -> bool:
    """Whether calls of this operator (with one result in the graph) can be recorded by generated code."""
    parameters = operator.signature.parameters
    return (
        operator.rule is not None
        and "tensors" not in operator.kinds.values()
        and not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
        and not (operator.differentiable != 1 and any(map(single_output, operator.rule_names)))
        and "gs" not in operator.rule_names
        and ("outs" not in operator.rule_names or operator.differentiable == 1)
    )


def single_output(name: str) -> bool:
    """Whether a rule's parameter asks for one of several results: out0, out1, ..."""
    return name[:3] == "out" and name[3:].isdigit()


def _saved_names(operator: Any) -> list[str]:
    return [n for n in operator.rule_names if n not in PASSED]


def holds_indices(operator: Any, name: str) -> bool:
    """Whether an argument is a sequence of index tensors: they have no gradient, but must not change before the rule has run."""
    parameter = operator.signature.parameters.get(name)
    return parameter is not None and str(parameter.annotation) == "Sequence[Tensor | None]"


def _saved(operator: Any, name: str) -> tuple[str, str]:
    """The texts of a saved argument and of its version; the tensors of a sequence of indices are saved one by one."""
    if holds_indices(operator, name):
        return f"*{name}", f"*[None if x is None else x._storage.version for x in {name}]"
    return name, _version(operator, name)


_RECORD_SEVERAL = """
def record({parameters}, results):
    node = new(kind)
    node.output_count = len(results)
    node.edges = ({edges})
    node.inputs = ({inputs})
    node.saved = ({saved})
    node.versions = ({versions})
    node.sequence = next_sequence()
    node.extras = None
    for i, result in enumerate(results{differentiable}):
        if isinstance(result, Tensor) and ((dtype := result._layout.dtype).is_floating_point or dtype.is_complex):
            result._node, result._index = node, i
    return node
"""


def straight_several(operator: Any) -> bool:
    """Whether calls of this operator that have several results in the graph can be recorded by generated code."""
    return (
        operator.rule is not None
        and "tensors" not in operator.kinds.values()
        and operator.differentiable != 1
        and not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in operator.signature.parameters.values())
    )


def alias_of(output: Tensor, index: int) -> Tensor:
    """A result as its own node may save it: the result itself would be a cycle. The index is for error messages."""
    made = tensor_from(output._storage, output._offset, output._layout)
    made._index = index
    return made


def _plain(operator: Any, name: str) -> bool:
    return str(operator.signature.parameters[name].annotation) == "Tensor"


def _edges(operator: Any) -> tuple[str, str]:
    """The texts of a node's edges and of the layouts of its inputs."""
    edges, inputs = [], []
    for name in operator.tensors:
        wanted = f"{name}._node is not None"
        has = wanted if _plain(operator, name) else f"isinstance({name}, Tensor) and {wanted}"
        edges.append(f"({name}._node, {name}._index) if {has} else NO_EDGE")
        inputs.append(f"{name}._layout if {has} else None")
    return _tuple(edges), _tuple(inputs)


def _version(operator: Any, name: str) -> str:
    """The text of the version of a saved argument."""
    if name in operator.tensors and _plain(operator, name):
        return f"{name}._storage.version"
    return f"{name}._storage.version if isinstance({name}, Tensor) else None"


def _record(operator: Any, kind: type, template: str, saved: list[str], versions: list[str], **more: str) -> Callable:
    edges, inputs = _edges(operator)
    source = template.format(
        parameters=", ".join(operator.parameters),
        edges=edges,
        inputs=inputs,
        saved=_tuple(saved),
        versions=_tuple(versions),
        suited=_suited(operator),
        **more,
    )
    return _compiled(
        source,
        f"<flambeau record {operator.name}>",
        "record",
        {
            "refuse": refuse,
            "operator": operator,
            "new": object.__new__,
            "kind": kind,
            "NO_EDGE": NO_EDGE,
            "next_sequence": next_sequence,
            "Tensor": Tensor,
            "tensor_from": tensor_from,
            "alias": alias_of,
        },
    )


def recorder_of(operator: Any, kind: type) -> Callable:
    """record(arguments in order of the signature..., result) -> the node of a call with one result."""
    saved, versions = [], []
    for name in _saved_names(operator):
        if name == "outs":  # the first may not be saved itself (a cycle); the others are in no graph
            saved += ["tensor_from(result[0]._storage, result[0]._offset, result[0]._layout)", "result[1:]"]
            versions += ["result[0]._storage.version", "None"]
        elif single_output(name):
            saved.append(f"result[{name[3:]}]")
            versions.append(f"result[{name[3:]}]._storage.version")
        elif name == "out":
            first = "result[0]" if operator.differentiable == 1 else "result"
            saved.append(f"tensor_from({first}._storage, {first}._offset, {first}._layout)")
            versions.append(f"{first}._storage.version")
        else:
            text, version = _saved(operator, name)
            saved.append(text)
            versions.append(version)
    return _record(
        operator, kind, _RECORD, saved, versions, first="result = result[0]\n    " if operator.differentiable == 1 else ""
    )


def several_recorder_of(operator: Any, kind: type) -> Callable:
    """record(arguments in order of the signature..., results) -> the node of a call with several results in the graph."""
    saved, versions = [], []
    for name in _saved_names(operator):
        if name == "outs":
            saved.append("*[alias(x, i) for i, x in enumerate(results)]")
            versions.append("*[x._storage.version for x in results]")
        elif name == "out" or single_output(name):
            at = name[3:] or "0"
            saved.append(f"alias(results[{at}], {at})")
            versions.append(f"results[{at}]._storage.version")
        else:
            text, version = _saved(operator, name)
            saved.append(text)
            versions.append(version)
    return _record(
        operator,
        kind,
        _RECORD_SEVERAL,
        saved,
        versions,
        differentiable="" if operator.differentiable is None else f"[:{operator.differentiable}]",
    )


_RECORD_LIST = """
def record({parameters}, result):
    node = new(kind)
    node.edges = tuple([(x._node, x._index) if x._node is not None else NO_EDGE for x in {tensors}])
    node.inputs = tuple([x._layout if x._node is not None else None for x in {tensors}])
    node.saved = ({saved})
    node.versions = ({versions})
    node.sequence = next_sequence()
    node.extras = None
    node.counts = (len({tensors}),)
    dtype = result._layout.dtype
    if {suited}:
        result._node = node
    else:
        refuse(operator, result)
    return node
"""


def straight_list(operator: Any) -> bool:
    """Whether the operator takes one sequence of tensors, of which its rule saves nothing, and has one result."""
    parameters = operator.signature.parameters
    return (
        operator.rule is not None
        and len(operator.tensors) == 1
        and operator.differentiable is None
        and str(parameters[operator.tensors[0]].annotation) == "Tensors"
        and not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values())
        and all(n in PASSED or (n in parameters and n != operator.tensors[0]) for n in operator.rule_names)
        and "gs" not in operator.rule_names
    )


def list_recorder_of(operator: Any, kind: type) -> Callable:
    """The same as `recorder_of` for an operator on one sequence of tensors."""
    names = _saved_names(operator)
    source = _RECORD_LIST.format(
        parameters=", ".join(operator.parameters),
        tensors=operator.tensors[0],
        saved=_tuple(names),
        versions="None, " * len(names),
        suited=_suited(operator),
    )
    return _compiled(
        source,
        f"<flambeau record {operator.name}>",
        "record",
        {
            "refuse": refuse,
            "operator": operator,
            "new": object.__new__,
            "kind": kind,
            "NO_EDGE": NO_EDGE,
            "next_sequence": next_sequence,
        },
    )


_APPLY_LIST = """
def apply(self, gradients):
    g = gradients[0]
    if g is None:
        return (None,) * len(self.edges)
    {saved} = self.unpack()
    made = rule({arguments})[0]
    return (None,) * len(self.edges) if made is None else tuple(made)
"""


def list_applier_of(operator: Any) -> Callable:
    """The same as `applier_of` for an operator on one sequence of tensors."""
    names = _saved_names(operator)
    needs = f"{{{operator.tensors[0]!r}: [self.needs(i) for i in range(len(self.edges))]}}"
    arguments = {"g": "g", "need": needs, "layouts": "self.inputs"}
    source = _APPLY_LIST.format(
        saved=f"({_tuple([f'saved_{n}' for n in names])})" if names else "_",
        arguments=", ".join(f"{n}={arguments.get(n, f'saved_{n}')}" for n in operator.rule_names),
    )
    return _compiled(source, f"<flambeau gradient of {operator.name}>", "apply", {"rule": operator.rule})


_APPLY = """
def apply(self, gradients):
    if {none}:
        return {nothing}
    {saved} = self.unpack()
    made = rule({arguments})
    if made.__class__ is tuple and len(made) == {count}:
        return made
    made = made if made.__class__ is tuple else (made,)
    return made + (None,) * ({count} - len(made))
"""


def _apply(operator: Any, none: str, attached: Callable[[str], str | None], saved: list[str]) -> Callable:
    """none: the text that asks whether there is no gradient; attached: that of an argument of the rule that is a result; saved:
    what the saved values are unpacked to.
    """
    count, arguments = len(operator.tensors), []
    for name in operator.rule_names:
        if name == "need":
            flags = ", ".join(f"{n!r}: self.needs({i})" for i, n in enumerate(operator.tensors))
            text: str | None = f"{{{flags}}}"
        else:
            text = {"layouts": "self.inputs", "g": "gradients[0]", "gs": "tuple(gradients)"}.get(name) or attached(name)
        arguments.append(f"{name}={text or 'saved_' + name}")
    source = _APPLY.format(
        nothing="(" + "None, " * count + ")",
        saved=f"({_tuple(saved)})" if saved else "_",
        arguments=", ".join(arguments),
        count=count,
        none=none,
    )
    return _compiled(source, f"<flambeau gradient of {operator.name}>", "apply", {"rule": operator.rule})


def applier_of(operator: Any) -> Callable:
    """apply(self, gradients) of the nodes of this operator, if they have one result."""
    attached = {"outs": "(self.attach(saved_outs), *saved_other_outs)", "out": "self.attach(saved_out)"}
    return _apply(
        operator,
        "gradients[0] is None",
        attached.get,
        ["saved_outs, saved_other_outs" if n == "outs" else _unpacked(operator, n) for n in _saved_names(operator)],
    )


def several_applier_of(operator: Any) -> Callable:
    """The same for nodes with several results."""

    def attached(name: str) -> str | None:
        if name == "outs":
            return "tuple([self.attach(x, i) for i, x in enumerate(saved_outs)])"
        return f"self.attach(saved_{name}, {name[3:] or 0})" if name == "out" or single_output(name) else None

    return _apply(
        operator,
        "all([g is None for g in gradients])",
        attached,
        [f"*saved_{n}" if n == "outs" else _unpacked(operator, n) for n in _saved_names(operator)],
    )


def _unpacked(operator: Any, name: str) -> str:
    return f"*saved_{name}" if holds_indices(operator, name) else f"saved_{name}"


def _tuple(parts: list[str]) -> str:
    return "".join(f"{part}, " for part in parts)


def _compiled(source: str, filename: str, name: str, scope: dict[str, Any]) -> Callable:
    import linecache

    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]
