"""Schemas: what an operator's arguments and results are, `ns::name.overload(Tensor x, int n=3, *, float? s=None) ->
Tensor`.

`parse_schema` reads the text and refuses it in PyTorch's words; a `FunctionSchema` prints as the text that would be
read back. Stands on schema_types; used by record, calling and overloads.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from flambeau.base.device import device
from flambeau.base.dtype import NUMBERED, all_dtypes
from flambeau.base.lazy_import import kept
from flambeau.base.naming import PACKAGE
from flambeau.dispatcher import schema_compatibility as compatibility
from flambeau.dispatcher import schema_types as types
from flambeau.dispatcher import shaped_types  # noqa: F401  (which says what else a tensor's type may say)
from flambeau.dispatcher.schema_types import ListType, OptionalType, TensorType, Type

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "parse_schema", "qualified"]

_UNKNOWN_TYPE = (
    "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; for a full "
    "list, please "
    "see https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func "
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?j?)|(?P<ident>[A-Za-z_][A-Za-z_0-9]*)|(?P<string>\"(?:\\.|[^\"])*\"|'(?:\\.|"
    r"[^'])*')|(?P<arrow>->)|(?P<dots>\.\.\.)|(?P<sign>::|.))",
    re.DOTALL,
)


class AliasInfo(NamedTuple):
    """How a tensor's memory is shared with other arguments and results: sets of names, and whether it is written to."""

    before_set: set[str]
    after_set: set[str]
    is_write: bool

    def __str__(self) -> str:
        before, after = ("|".join(sorted(names)) for names in (self.before_set, self.after_set))
        return f"({before}{'!' if self.is_write else ''}{'' if before == after else ' -> ' + after})"


class Argument:
    """One argument or result of a schema."""

    __module__ = PACKAGE
    __slots__ = ("_given", "_marked", "alias_info", "default_value", "kwarg_only", "name", "type")

    def __init__(
        self,
        name: str,
        type: Type,
        alias_info: AliasInfo | None,
        default: Any,
        given: bool,
        kwarg_only: bool,
        marked: str = "Tensor",
    ) -> None:
        self.name, self.type, self.alias_info = name, type, alias_info
        self._marked = marked  # the part of the written type that the alias marks stand behind
        self.default_value, self._given, self.kwarg_only = default, given, kwarg_only

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self._given

    @property
    def real_type(self) -> Type:
        """The type, in which dtypes and memory formats are such and not numbers."""
        return types.real(self.type)

    @property
    def N(self) -> int | None:
        """The length of a list of fixed length."""
        kind = self.type.element if isinstance(self.type, OptionalType) else self.type
        return kind.count if isinstance(kind, ListType) else None

    @property
    def is_write(self) -> bool:
        """Whether the operator writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether the result is written to it, as to `out=`."""
        return self.kwarg_only and self.is_write

    def written(self) -> str:
        """The type as a schema writes it, with its alias marks."""
        text = self.type.written
        return text if self.alias_info is None else text.replace(self._marked, f"{self._marked}{self.alias_info}", 1)

    def __str__(self) -> str:
        text = f"{self.written()} {self.name}".rstrip()
        value, kind = self.default_value, self.type.element if isinstance(self.type, OptionalType) else self.type
        if isinstance(value, list) and isinstance(kind, ListType) and (kind.count or 0) > 1 and kind.element.written == "int":
            value = value[0] if len(value) == kind.count and len(set(value)) == 1 else value
        return f"{text}={_written_default(value)}" if self._given else text


def _written_default(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text if re.search(r"[.en]", text) else text + "."
    if isinstance(value, list):
        return f"[{', '.join(map(_written_default, value))}]"
    return str(value)


class FunctionSchema:
    """The schema of one overload: `name` with its namespace, `overload_name` ("" for the default), arguments and
    returns.
    """

    __module__ = PACKAGE

    def __init__(
        self,
        name: str,
        overload_name: str,
        arguments: list[Argument],
        returns: list[Argument],
        is_vararg: bool = False,
        is_varret: bool = False,
    ) -> None:
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = arguments, returns
        self.is_vararg, self.is_varret = is_vararg, is_varret

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to an argument."""
        return any(argument.is_write for argument in self.arguments)

    @kept
    def positional(self) -> int:
        """How many arguments may be given by position."""
        return sum(not argument.kwarg_only for argument in self.arguments)

    def renamed(self, name: str) -> FunctionSchema:
        """The schema under another name."""
        return FunctionSchema(name, self.overload_name, self.arguments, self.returns, self.is_vararg, self.is_varret)

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether calls by an older schema are right by this one."""
        return compatibility.backward_compatible(self, old)

    def is_forward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether calls by this schema are right by an older one."""
        return compatibility.forward_compatible(self, old)[0]

    def check_forward_compatible_with(self, old: FunctionSchema) -> tuple[bool, str]:
        """is_forward_compatible_with, and why not; "" if it is."""
        return compatibility.forward_compatible(self, old)

    @kept
    def _text(self) -> str:
        parts: list[str] = []
        starred = False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                starred = True
                parts.append("*")
            parts.append(str(argument))
        parts += ["..."] * self.is_vararg
        results = [str(result) for result in self.returns]
        plain = len(results) == 1 and not results[0].startswith("(")  # a tuple as the only result stands in parentheses
        made = "..." if self.is_varret else results[0] if plain else f"({', '.join(results)})"
        title = self.name + ("." + self.overload_name if self.overload_name else "")
        return f"{title}({', '.join(parts)}) -> {made}"

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def qualified(name: str) -> tuple[str, str, str]:
    """(namespace, name, overload) of "ns::name.overload"; the namespace is "" where there is none."""
    namespace, _, rest = name.rpartition("::")
    short, _, overload = rest.partition(".")
    return namespace, short, overload


# ---------------------------------------------------------------- reading


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def _tokens(text: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(text.rstrip()):
        kind = match.lastgroup or ""
        word = match.group(kind)
        found.append(_Token(word if kind == "sign" else kind, word, match.start(kind), match.end(kind)))
    found.append(_Token("eof", "", len(text), len(text)))
    return found


class _Reader:
    """Reads one schema from its text."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at = text, _tokens(text), 0

    @property
    def here(self) -> _Token:
        return self.tokens[self.at]

    def fail(self, words: str, token: _Token) -> RuntimeError:
        mark = "" if token.kind == "eof" else f"\n{' ' * token.start}{'~' * (token.end - token.start)} <--- HERE\n"
        return RuntimeError(f"{words}:\n{self.text}{mark}")

    def expect(self, kind: str) -> str:
        token = self.here
        if token.kind != kind:
            raise self.fail(f"expected {kind} but found '{token.kind}' here", token)
        self.at += 1
        return token.text

    def accept(self, *kinds: str) -> bool:
        """Step over these tokens if they are next."""
        if [token.kind for token in self.tokens[self.at : self.at + len(kinds)]] != [*kinds]:
            return False
        self.at += len(kinds)
        return True

    # ---- names
    def name(self) -> tuple[str, str]:
        name = self.expect("ident")
        while self.accept("::"):
            name += "::" + self.expect("ident")
        overload = ""
        if self.accept("."):
            overload = self.expect("ident")
            if overload == "default":
                raise RuntimeError("default is not a legal overload name for aten operators")
        return name, overload

    # ---- types
    def type(self) -> tuple[Type, AliasInfo | None, str]:
        """A type, the alias marks in it, and the part of it that these stand behind."""
        alias: AliasInfo | None = None
        marked = ""
        if self.accept("("):
            elements = []
            while not self.accept(")"):
                elements.append(self.type()[0])
                self.accept(",")
            made: Type = types.TupleType(elements)
        else:
            made = self.simple_type()
        while True:
            if self.here.kind == "(":
                alias, marked = self.alias(), made.written
            elif self.accept("[", "]"):
                made = ListType(made)
            elif self.here.kind == "[":
                self.at += 1
                count = int(self.expect("number"))
                self.expect("]")
                made = ListType(made, count)
            elif self.accept("?"):
                made = OptionalType(made)
            else:
                return made, alias, marked

    def simple_type(self) -> Type:
        token = self.here
        word = self.expect("ident")
        if word in ("Dict", "Future", "Await"):
            self.expect("(")
            first = self.type()[0]
            if word == "Dict":
                self.expect(",")
                made: Type = types.DictType(first, self.type()[0])
            else:
                made = types.FutureType(first, word)
            self.expect(")")
            return made
        if word == "__torch__":
            parts = [word]
            while self.accept("."):
                parts.append(self.expect("ident"))
            short = ".".join(parts[3:])
            if short in types.OBJECTS:
                return types.ObjectType(short)
            raise self.fail(f"\nUnknown custom class type {short}. Please ensure it is registered.", self.tokens[self.at - 1])
        found = types.named(word)
        if found is None:
            raise self.fail(_UNKNOWN_TYPE, token)
        return found

    def alias(self) -> AliasInfo:
        """The marks behind a tensor: `(a!)`, `(a -> *)`, `(a|b)`."""
        self.expect("(")
        before, write = self.alias_set(), self.accept("!")
        after = self.alias_set() if self.accept("arrow") else before
        self.expect(")")
        return AliasInfo(before, after, write)

    def alias_set(self) -> set[str]:
        names = ["*" if self.accept("*") else self.expect("ident")]
        while self.accept("|"):
            names.append("*" if self.accept("*") else self.expect("ident"))
        return set(names)

    # ---- defaults
    def default(self, kind: Type) -> Any:
        if self.here.text == "None" and isinstance(kind, (OptionalType, TensorType)):
            self.at += 1
            return None
        inner = kind.element if isinstance(kind, OptionalType) else kind
        if isinstance(inner, ListType):
            if inner.count is not None and self.here.kind != "[":
                return [self.single(inner.element)] * inner.count
            self.expect("[")
            if isinstance(inner.element, types.BoolType | types.IntType | types.FloatType | types.ComplexType | types.StringType):
                items: list[Any] = []
                if not self.accept("]"):
                    items.append(self.single(inner.element))
                    while self.accept(","):
                        items.append(self.single(inner.element))
                    self.expect("]")
                return items
            if self.accept("]"):
                return []
            raise self.fail("\nlists are only supported for float, int and complex types", self.here)
        return self.single(inner)

    def single(self, kind: Type) -> Any:
        token = self.here
        if token.kind == "string":
            self.at += 1
            text = json.loads('"' + token.text[1:-1].replace("\\'", "'").replace('"', '\\"').replace('\\\\"', '\\"') + '"')
            return device(text) if isinstance(kind, types.DeviceObjType) else text
        if token.kind == "ident":
            self.at += 1
            if token.text in ("True", "False"):
                return token.text == "True"
            known = _CODES.get(token.text)
            if known is None:
                raise self.fail("\ninvalid numeric default value", self.here)
            return known
        text = self.expect("number")
        if text.endswith("j"):
            return complex(text)
        whole = re.fullmatch(r"-?\d+", text) is not None and not isinstance(kind, types.FloatType)
        return int(text) if whole else float(text)

    # ---- all of it
    def argument(self, kwarg_only: bool) -> Argument:
        kind, alias, marked = self.type()
        name = self.expect("ident")
        given = self.accept("=")
        return Argument(name, kind, alias, self.default(kind) if given else None, given, kwarg_only, marked)

    def schema(self) -> FunctionSchema:
        name, overload = self.name()
        arguments: list[Argument] = []
        kwarg_only = is_vararg = is_varret = False
        self.expect("(")
        if not self.accept(")"):
            while True:
                if self.accept("*"):
                    kwarg_only = True
                elif self.accept("dots"):
                    is_vararg = True
                    if any(argument.has_default_value() for argument in arguments):
                        raise self.fail("schemas with vararg (...) can't have default value args", self.here)
                else:
                    arguments.append(self.argument(kwarg_only))
                if self.accept(")"):
                    break
                if not self.accept(","):
                    self.expect(")")
        self.expect("arrow")
        returns: list[Argument] = []
        if self.accept("dots"):
            is_varret = True
        elif self.accept("("):
            while not self.accept(")"):
                returns.append(self.result())
                if not self.accept(",") and self.here.kind != ")":
                    self.expect(")")
        else:
            returns.append(self.result())
        return FunctionSchema(name, overload, arguments, returns, is_vararg, is_varret)

    def result(self) -> Argument:
        kind, alias, marked = self.type()
        name = self.expect("ident") if self.here.kind == "ident" else ""
        return Argument(name, kind, alias, None, False, False, marked)


# Words that stand for numbers in defaults, as PyTorch's enumerations number them.
_CODES: dict[str, Any] = {
    "Mean": 1,
    "Sum": 2,
    "contiguous_format": 0,
    "preserve_format": 1,
    "channels_last": 2,
    "strided": 0,
    **{name: NUMBERED.index(kind.name) for name, kind in all_dtypes().items() if kind.name in NUMBERED},
    "cpu": device("cpu"),
}


def _innermost(kind: Type) -> Type:
    while isinstance(kind, (ListType, OptionalType)):
        kind = kind.element
    return kind


def parse_schema(text: str) -> FunctionSchema:
    """The schema that the text says. RuntimeError, in PyTorch's words, if it says none."""
    made = _Reader(text).schema()
    seen: Argument | None = None
    for argument in made.arguments:
        if argument.has_default_value():
            seen = argument
        elif seen is not None and not argument.kwarg_only and not isinstance(argument.type, ListType):
            raise RuntimeError(f"Non-default positional argument follows default argument. Parameter {argument.name} in {made}")
    return made
