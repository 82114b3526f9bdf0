"""The schemas of a declaration: a line for each form of the operator, as PyTorch's dispatcher names operators and lists them.

`OpDef.schemas` has them by packet ("aten::add", "aten::add_") and by overload, in the words of `base/operators.txt`: PyTorch's
own lines for an operator that PyTorch lists, and for any other one those that its declaration says,
`flambeau::frobnicate(Tensor self, Scalar beta=1) -> Tensor | pointwise`. They are worked out when somebody asks;
`schema_index` goes the other way.
Stands on base.aten_schemas; used by OpDef, and by dispatcher, which parses the lines.
"""

from __future__ import annotations

import collections.abc
import inspect
import json
import re
import types
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau.base.aten_schemas import table
from flambeau.base.device import device
from flambeau.base.dtype import dtype

__all__ = ["OWN", "Said", "Schemas", "check", "default_text", "inferred", "listed", "listed_name", "of", "own", "type_text"]

Schemas = dict[str, dict[str, str]]

#: The namespace of operators that PyTorch doesn't list: `aten` is PyTorch's, and a name that it adds must not meet one of ours.
OWN = "flambeau"
#: An operator of the whole name first; torch.lu, which is no declared operator, isn't linalg.lu.
PREFIXES = ("", "special_", "linalg_", "fft_")

_WORDS = {int: "SymInt", float: "float", bool: "bool", str: "str", dtype: "ScalarType", device: "Device"}
_SEQUENCES = (list, collections.abc.Sequence)


def type_text(annotation: Any) -> str | None:
    """An annotation as a schema writes it; None if it can't."""
    if isinstance(annotation, type) and annotation in _WORDS:
        return _WORDS[annotation]
    if isinstance(annotation, type) and annotation.__name__ == "Tensor" and hasattr(annotation, "_layout"):
        return "Tensor"  # the class, which stands on this module's kin
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in parts if part is not type(None)]
        if set(rest) == {int, float, bool}:
            inner: str | None = "Scalar"
        else:
            inner = type_text(rest[0]) if len(rest) == 1 else _one_or_several(rest)
        if inner is None or inner.endswith("?"):
            return None
        return inner + "?" if len(rest) < len(parts) else inner
    if origin in _SEQUENCES and len(parts) == 1:
        inner = type_text(parts[0])
        if inner is None or inner.endswith("]") or (inner.endswith("?") and inner != "Tensor?"):
            return None
        return inner + "[]"
    return None


def _one_or_several(parts: list[Any]) -> str | None:
    """`int | Sequence[int]`: a list, for which one of its items may be given."""
    kinds = sorted([type_text(part) or "" for part in parts], key=len)
    return f"{kinds[0]}[1]" if len(kinds) == 2 and kinds[0] and kinds[1] == f"{kinds[0]}[]" else None


def default_text(default: Any) -> str | None:
    """A default value as a schema writes it; None if it can't."""
    if default is None or isinstance(default, (bool, int, float)):
        return str(default)
    if isinstance(default, (str, device)):
        return json.dumps(str(default))
    if isinstance(default, dtype):
        return str(default).removeprefix("torch.")
    if isinstance(default, (tuple, list)) and all(isinstance(x, (bool, int, float)) for x in default):
        return f"[{', '.join(map(str, default))}]"
    return None


class Said(NamedTuple):
    """What a declaration's signature says to a schema: parameters, the annotation of the result, the names that annotations
    may use, words of the list (`base/operators.txt`: "pointwise", "composite").

    view: whether the result shows the first argument's memory.
    """

    parameters: Sequence[inspect.Parameter]
    returns: Any
    names: dict[str, Any]
    words: tuple[str, ...] = ()
    view: bool = False


class _Argument(NamedTuple):
    """An argument as the text has it: `type name=default`, or `*`, behind which arguments are given by name only."""

    type: str
    name: str
    default: str | None = None

    def __str__(self) -> str:
        return f"{self.type} {self.name}".strip() + ("" if self.default is None else f"={self.default}")


_STAR = _Argument("", "*")
_WRITTEN = re.compile(r"(?P<name>[\w:]+)(?:\.(?P<overload>\w+))?\((?P<arguments>.*)\) -> (?P<returns>.*)", re.DOTALL)
_SEPARATOR = re.compile(r", (?![^\[(]*[\])])")
_NUMBER = "Scalar"
#: What the words of core.operator.annotations are to a schema; an Operand is a number in other forms.
_OPERANDS = {"Tensor": "Tensor", "Operand": "Tensor", "Number": _NUMBER}
#: What arguments of these names are everywhere, whose annotations don't tell.
_BY_NAME = {
    "dtype": "ScalarType?", "device": "Device?", "layout": "Layout?", "memory_format": "MemoryFormat?", "pin_memory": "bool?",
    "generator": "Generator?",
}  # fmt: skip


class _Form(NamedTuple):
    """One overload."""

    arguments: tuple[_Argument, ...]
    returns: str
    words: tuple[str, ...]
    overload: str = ""

    def line(self, packet: str) -> str:
        """The overload as the list has it."""
        name = packet + (f".{self.overload}" if self.overload else "")
        text = f"{name}({', '.join(map(str, self.arguments))}) -> {self.returns}"
        return f"{text} | {' '.join(self.words)}" if self.words else text

    def in_place(self) -> _Form:
        """The form that writes to the first argument."""
        first = self.arguments[0]._replace(type="Tensor(a!)")
        return self._replace(arguments=(first, *self.arguments[1:]), returns="Tensor(a!)", words=(*self.words, "inplace"))

    def with_out(self) -> _Form:
        """The form that writes to `out`, or to a tensor for each result."""
        count = max(self.returns.count("Tensor"), 1)
        marks = [chr(ord("a") + i) for i in range(count)]
        outs = [_Argument(f"Tensor({mark}!)", "out" if count == 1 else f"out{i}") for i, mark in enumerate(marks)]
        star = () if _STAR in self.arguments else (_STAR,)
        written = ", ".join(f"Tensor({mark}!)" for mark in marks)
        return self._replace(
            arguments=(*self.arguments, *star, *outs),
            returns=written if count == 1 else f"({written})",
            words=(*self.words, "out"),
            overload=f"{self.overload}_out" if self.overload else "out",
        )


# ---------------------------------------------------------------- what a declaration says


def of(declared: Any) -> Schemas:
    """The lines of a declaration, by packet and overload: PyTorch's if it lists the operator, else those that it says itself."""
    name = listed_name(declared)
    if name:
        names = (f"aten::{name}", f"aten::{name}_")
        return {packet: table()[packet] for packet in names if packet in table()}
    own_schemas: Schemas = declared.own_schemas
    return own_schemas


def own(declared: Any) -> Schemas:
    """The lines that a declaration says; none where a signature has a default that no schema says, and there is no `schema`."""
    try:
        return inferred(declared)
    except Unsayable:
        return {}


def listed(name: str, declared: bool = True) -> str:
    """PyTorch's name, without "aten::", of the function of this name, or of an operator that is `declared` by it; "" for none."""
    for prefix in PREFIXES if declared else ("",):
        if f"aten::{prefix}{name}" in table():
            return prefix + name
    return ""


def listed_name(declared: Any) -> str:
    """PyTorch's name of a declared operator; "" if it lists none."""
    name: str = declared.schema
    if name:
        return "" if "(" in name else name.removeprefix("aten::")
    return listed(declared.name)


class Unsayable(TypeError):
    """A signature says something that no schema does."""


def inferred(declared: Any) -> Schemas:
    """The lines that a declaration says by its signature, or by its `schema`. Unsayable for what no schema says."""
    packet, forms = _written(declared) if "(" in declared.schema else (f"{OWN}::{declared.name}", _of_signature(declared))
    made = {packet: {form.overload or "default": form.line(packet) for form in forms}}
    if declared.takes_out and all("Any" not in form.returns for form in forms):
        for form in [form.with_out() for form in forms]:
            made[packet].setdefault(form.overload, form.line(packet))
    if declared.in_place is not None:
        writing = [form.in_place() for form in forms if form.arguments and form.arguments[0].type == "Tensor"]
        made[packet + "_"] = {form.overload or "default": form.line(packet + "_") for form in writing}
    return made


def check(declared: Any) -> None:
    """TypeError where a line of a declaration's `schema` is none."""
    for line in declared.schema.strip().splitlines():
        text = line.strip().partition(" | ")[0]
        if _WRITTEN.fullmatch(text) is None:
            form = f"{declared.name}(Tensor self, int n=1) -> Tensor"
            raise TypeError(f"{declared.name}: {text!r} is no schema; write it as {form!r}")


def _written(declared: Any) -> tuple[str, list[_Form]]:
    """The packet and the forms that the text of a declaration's `schema` has, one a line."""
    packet, forms = "", []
    for line in declared.schema.strip().splitlines():
        text, _, words = line.strip().partition(" | ")
        match = _WRITTEN.fullmatch(text)
        assert match is not None
        arguments = []
        for part in _SEPARATOR.split(match["arguments"]) if match["arguments"] else ():
            before, equals, default = part.partition("=")
            kind, _, name = before.rpartition(" ")
            arguments.append(_Argument(kind, name, default if equals else None))
        packet = match["name"] if "::" in match["name"] else f"{OWN}::{match['name']}"
        said = dict.fromkeys((*words.split(), *declared.said().words))
        forms.append(_Form(tuple(arguments), match["returns"], tuple(said), match["overload"] or ""))
    return packet, forms


def _of_signature(declared: Any) -> list[_Form]:
    """The forms that a signature says: one, and where an operand may be a number, one for each choice of which are numbers."""
    said = declared.said()
    arguments: list[_Argument] = []
    operands: list[int] = []
    for parameter in said.parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and _STAR not in arguments:
            arguments.append(_STAR)
        if _text_of(parameter.annotation) == "Operand":
            operands.append(len(arguments))
        arguments.append(_argument(declared, said, parameter, first=not arguments))
    tensors = sum(argument.type in ("Tensor", "Tensor?", "Tensor[]") for argument in arguments)
    forms = []
    for chosen in range(1 << len(operands)):
        numbers = [at for i, at in enumerate(operands) if chosen >> i & 1]
        if numbers and len(numbers) == tensors:
            continue  # a call needs a tensor
        made = [
            argument._replace(type=argument.type.replace("Tensor", _NUMBER)) if at in numbers else argument
            for at, argument in enumerate(arguments)
        ]
        kinds = [_NUMBER if at in numbers else "Tensor" for at in operands]
        overload = "" if not numbers else _NUMBER if len(operands) == 1 else "_".join(kinds)
        forms.append(_Form(tuple(made), _returns(said), said.words, overload))
    if declared.name.endswith("_") and not declared.name.endswith("__"):  # such a name says that it writes
        forms = [form.in_place() for form in forms]
    if said.view:
        forms = [
            form._replace(arguments=(form.arguments[0]._replace(type="Tensor(a)"), *form.arguments[1:]), returns="Tensor(a)")
            for form in forms
        ]
    return forms


def _text_of(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _argument(declared: Any, said: Said, parameter: inspect.Parameter, first: bool) -> _Argument:
    """A parameter as an argument. What an annotation doesn't tell may be anything."""
    text, annotation = _text_of(parameter.annotation), parameter.annotation
    if annotation is parameter.empty and type(parameter.default) in (bool, str):
        annotation = type(parameter.default)
    found = _evaluated(said, annotation)
    kind = _OPERANDS.get(text) or type_text(found) or _list_of_any_length(found)
    if parameter.kind is parameter.VAR_POSITIONAL:
        kind = None if kind is None else kind + "[]"
    default = None if parameter.default is parameter.empty else default_text(parameter.default)
    if default is None and parameter.default is not parameter.empty:
        raise Unsayable(f"{declared.name}: no schema says the default {parameter.default!r} of {parameter.name}")
    if kind is None and default is not None and default.startswith("["):
        kind = "float[]" if "." in default else "SymInt[]"
    elif kind is None:
        kind = _BY_NAME.get(parameter.name, "Any?")
    elif default == "None" and not kind.endswith("?"):
        kind += "?"
    # PyTorch's functions say input where its schemas say self, which is what a method is called on
    subject = first and parameter.name == "input" and declared.published and not listed_name(declared)
    return _Argument(kind, "self" if subject else parameter.name, default)


def _list_of_any_length(annotation: Any) -> str | None:
    """`tuple[int, ...]` as a schema writes it, which knows but lists."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is not tuple or len(parts) != 2 or parts[1] is not Ellipsis:
        return None
    inner = type_text(parts[0])
    return f"{inner}[]" if inner is not None and inner.isalpha() else None


def _returns(said: Said) -> str:
    """What the annotation says of the results; Any where it doesn't."""
    if said.returns is None or said.returns == "None":
        return "()"
    if _text_of(said.returns) == "Planned":
        return "Tensor"
    found = _evaluated(said, said.returns)
    if typing.get_origin(found) is not tuple or Ellipsis in typing.get_args(found):
        return type_text(found) or _list_of_any_length(found) or "Any"
    return f"({', '.join(type_text(part) or 'Any' for part in typing.get_args(found))})"


def _evaluated(said: Said, annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, said.names)
    except Exception:  # a name that only type checkers know
        return None
