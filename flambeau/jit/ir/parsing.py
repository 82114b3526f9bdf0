"""Graphs read from the text that they print as: torch._C.parse_ir.

    graph(%x : Tensor, %y : int[]):
      %1 : int = prim::Constant[value=2]()
      %z : Tensor = aten::add(%x, %x, %1)
      return (%z)

A type may be left out, where it is Tensor. Stands on graph and on schemas, which the nodes of operators are matched to.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import flambeau as torch
from flambeau.dispatcher.schema_types import (
    AnyType,
    DeviceObjType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    StringType,
    TupleType,
    Type,
    named,
)
from flambeau.dispatcher.shaped_types import SCALAR_TYPES, ShapedTensorType
from flambeau.jit.frontend.operators import candidates
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import NONE, TENSOR, is_variable, make_union
from flambeau.jit.ir.values import Value

__all__ = ["match_schema", "parse_ir"]

T = TypeVar("T")
_TOKEN = re.compile(
    r"\s+|\#[^\n]*"
    r"|(?P<string>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<value>%[A-Za-z0-9_.]+)"
    r"|(?P<number>-?(?:inf|nan|\d+\.?\d*(?:[eE][-+]?\d+)?j?)(?![A-Za-z_]))"
    r"|(?P<name>\^?[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_0-9]+)*)"
    r"|(?P<sign>->|[-(){}\[\]<>=:,?*!|])"
)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_ir(input: str, parse_tensor_constants: bool = False) -> Graph:
    """The graph that a text describes. RuntimeError, with the place, for what is no graph.

    parse_tensor_constants: constants whose text doesn't hold their values (`value=<Tensor>`) are random, of the size and dtype of
    their type.
    """
    return _Parser(input, parse_tensor_constants).graph()


class _Parser:
    def __init__(self, text: str, tensor_constants: bool) -> None:
        self.text, self.tensor_constants = text, tensor_constants
        self.tokens: list[_Token] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.fail("unexpected character", at)
            if match.lastgroup:
                kind = match.group() if match.lastgroup == "sign" else match.lastgroup
                self.tokens.append(_Token(kind, match.group(), at))
            at = match.end()
        self.tokens.append(_Token("eof", "", len(text)))
        self.at = 0
        self.values: dict[str, Value] = {}

    def fail(self, words: str, at: int) -> RuntimeError:
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:].split("\n", 1)[0]
        return RuntimeError(f"{words}:\n{line}\n{' ' * (at - start)}~ <--- HERE\n")

    @property
    def here(self) -> _Token:
        return self.tokens[self.at]

    def accept(self, *kinds: str) -> bool:
        """Step over these tokens if they are next."""
        if [token.kind for token in self.tokens[self.at : self.at + len(kinds)]] != [*kinds]:
            return False
        self.at += len(kinds)
        return True

    def expect(self, kind: str) -> str:
        token = self.here
        if token.kind != kind:
            raise self.fail(f"expected {kind} but found '{token.text}' here", token.at)
        self.at += 1
        return token.text

    def listed(self, opening: str, closing: str, item: Callable[[], T]) -> list[T]:
        """What stands between two signs, separated by commas."""
        self.expect(opening)
        found: list[T] = []
        while not self.accept(closing):
            found.append(item())
            if not self.accept(","):
                self.expect(closing)
                break
        return found

    # ---- graphs
    def graph(self) -> Graph:
        if self.expect("name") != "graph":
            raise self.fail("expected graph", 0)
        made = Graph()
        self.inputs(made.block())
        self.expect(":")
        self.nodes(made, made.block())
        for value in self.results("return"):
            made.registerOutput(value)
        self.expect("eof")
        return made

    def inputs(self, block: Block) -> None:
        def one() -> None:
            name, kind = self.typed()
            self.enter(name, block.addInput().setType(kind))

        self.listed("(", ")", one)

    def enter(self, name: str, value: Value) -> None:
        if not name.isdigit():
            value.setDebugName(name)
        self.values[name] = value

    def typed(self) -> tuple[str, Type]:
        """A value's name, and its type behind a colon."""
        name = self.expect("value")[1:]
        return name, self.type() if self.accept(":") else TENSOR

    def value(self) -> Value:
        token = self.here
        name = self.expect("value")[1:]
        if name not in self.values:
            raise self.fail(f"Cannot find a variable with name '{name}'", token.at)
        return self.values[name]

    def results(self, word: str) -> list[Value]:
        token = self.here
        if (self.expect("name") if word == "return" else self.expect("->")) != word:
            raise self.fail(f"expected {word}", token.at)
        return self.listed("(", ")", self.value)

    def nodes(self, graph: Graph, block: Block) -> None:
        """The nodes up to the results of the block."""
        while self.here.text != "return" and self.here.kind != "->":
            self.node(graph, block)

    def node(self, graph: Graph, block: Block) -> None:
        outputs: list[tuple[str, Type]] = []
        while self.here.kind == "value":
            outputs.append(self.typed())
            if not self.accept(","):
                break
        self.expect("=")
        node = block.appendNode(graph.create(self.expect("name").removeprefix("^"), [], 0))
        kinds = [kind for _, kind in outputs]
        if self.here.kind == "[":
            self.listed("[", "]", lambda: self.attribute(node, kinds))
        for each in self.listed("(", ")", self.value):
            node.addInput(each)
        for name, kind in outputs:  # numbered: what nodes give keeps no names, as in PyTorch
            self.values[name] = node.addOutput().setType(kind)
        while self.here.kind == "name" and re.fullmatch(r"block\d+", self.here.text):
            self.at += 1
            inner = node.addBlock()
            self.inputs(inner)
            self.expect(":")
            self.nodes(graph, inner)
            for each in self.results("->"):
                inner.registerOutput(each)
        if node.kind() == "prim::Constant" and not node.attributes and kinds and isinstance(kinds[0], OptionalType):
            node.output().setType(NONE)
        match_schema(node)

    # ---- attributes
    def attribute(self, node: Node, kinds: list[Type]) -> None:
        name = self.expect("name")
        self.expect("=")
        if name.endswith("type") and self.here.kind == "name":
            node.set(name, "ty", self.type())
            return
        value = self.constant(kinds[0] if kinds else TENSOR)
        kind = kinds[0] if kinds and name == "value" else None
        if isinstance(value, list):
            letter = {int: "is", bool: "is", float: "fs", str: "ss"}.get(type(value[0]) if value else int, "ival")
            node.set(name, "ival" if kind is not None else letter, value)
        elif isinstance(value, torch.Tensor):
            node.set(name, "t", value)
        elif isinstance(value, str):
            node.set(name, "s", torch.device(value) if isinstance(kind, DeviceObjType) else value)
        elif isinstance(value, float):
            node.set(name, "f", value)
        elif isinstance(value, complex):
            node.set(name, "c", value)
        elif isinstance(value, int):
            node.set(name, "i", bool(value) if kind is not None and kind.written == "bool" else value)
        else:
            node.set(name, "ival", value)

    def constant(self, kind: Type) -> Any:
        """A constant of a type, as it stands in the brackets of its node."""
        token = self.here
        if token.kind == "string":
            self.at += 1
            return ast.literal_eval(token.text)
        if token.kind == "number":
            self.at += 1
            return _number(token.text, kind)
        if self.accept("-"):
            return -self.constant(kind)
        if token.kind == "[":
            return self.listed("[", "]", lambda: self.constant(kind.element if isinstance(kind, ListType) else kind))
        if token.kind == "(":
            parts = iter(kind.elements() if isinstance(kind, TupleType) else ())
            return tuple(self.listed("(", ")", lambda: self.constant(next(parts, kind))))
        if token.kind == "{":
            number = self.listed("{", "}", lambda: self.constant(StringType()))
            return self.filled(kind, number[0], token)
        if self.accept("<"):
            word = self.expect("name")
            self.expect(">")
            return self.random(kind, word, token)
        word = self.expect("name")
        if word == "annotate":  # annotate(List[int], [])
            self.expect("(")
            depth = 0
            while depth or self.here.kind != ",":
                depth += {"[": 1, "]": -1}.get(self.here.kind, 0)
                self.at += 1
            self.expect(",")
            made = self.constant(kind)
            self.expect(")")
            return made
        if word in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[word]
        raise self.fail("expected a constant", token.at)

    def filled(self, kind: Type, number: Any, token: _Token) -> Any:
        if not self.tensor_constants:
            raise self.fail("Single-element tensor constants are read with parse_tensor_constants=True only", token.at)
        sizes, dtype = _size_and_dtype(kind)
        return torch.full(sizes, number, dtype=dtype)

    def random(self, kind: Type, word: str, token: _Token) -> Any:
        if word != "Tensor" or not self.tensor_constants:
            raise self.fail("Tensor constants are read with parse_tensor_constants=True only", token.at)
        sizes, dtype = _size_and_dtype(kind)
        made = torch.rand(sizes) if dtype.is_floating_point else torch.randint(0, 2, sizes)
        return made.to(dtype)

    # ---- types
    def type(self) -> Type:
        if self.here.kind == "(":
            made: Type = TupleType(self.listed("(", ")", self.type))
        else:
            made = self.named_type()
        while True:
            if self.accept("[", "]"):
                made = ListType(made)
            elif self.accept("?"):
                made = OptionalType(made)
            elif self.here.kind == "(" and self.tokens[self.at + 2].kind == "!":  # what is written to: Tensor(a!)
                self.at += 4
            else:
                return made

    def named_type(self) -> Type:
        token = self.here
        word = self.expect("name")
        if word in SCALAR_TYPES or (word == "Tensor" and self.here.kind == "(" and self.tokens[self.at + 2].kind != "!"):
            return self.shaped_type(word)
        if self.here.kind == "(" and word in ("Dict", "Future", "Await", "Union", "Optional"):
            parts = self.listed("(", ")", self.type)
            if word == "Dict":
                return DictType(*parts)
            if word == "Union":
                return make_union(parts)
            return OptionalType(parts[0]) if word == "Optional" else FutureType(parts[0], word)
        if word in ("None", "NoneType"):
            return NONE
        if word == "Any":
            return AnyType()
        found = named(word)
        if found is None:
            raise self.fail("unknown type specifier", token.at)
        return found

    def shaped_type(self, word: str) -> Type:
        """`Float(2, *, strides=[3, 1], requires_grad=0, device=cpu)`; `Float` alone says nothing of the sizes."""
        sizes: list[int | None] | None = None
        strides: list[int] | None = None
        requires_grad: bool | None = None
        device = None

        def part() -> None:
            nonlocal sizes, strides, requires_grad, device
            if self.here.kind == "name" and self.tokens[self.at + 1].kind == "=":
                name = self.expect("name")
                self.expect("=")
                if name == "strides":
                    strides = self.listed("[", "]", lambda: int(self.expect("number")))
                elif name == "requires_grad":
                    requires_grad = bool(int(self.expect("number")))
                else:
                    device = torch.device(self.device_word())
                return
            sizes = sizes or []
            if self.accept("*"):
                sizes.append(None)
            elif self.here.kind == "name":  # a symbol: SS(-2)
                self.at += 1
                self.listed("(", ")", lambda: self.expect("number"))
                sizes.append(None)
            else:
                sizes.append(int(self.expect("number")))
            if self.accept(":"):
                strides_of.append(int(self.expect("number")))

        strides_of: list[int] = []
        if self.here.kind == "(":
            self.listed("(", ")", part)
            if sizes is None and word != "Tensor":
                sizes = []
        return ShapedTensorType(SCALAR_TYPES.get(word), sizes, strides or strides_of or None, requires_grad, device)

    def device_word(self) -> str:
        word = self.expect("name")
        if self.accept(":"):
            word += ":" + self.expect("number")
        return word


def _number(text: str, kind: Type) -> Any:
    if text.lstrip("-") in ("inf", "nan"):
        return float(text)
    if text.endswith("j"):
        return complex(text)
    if re.fullmatch(r"-?\d+", text):
        return float(text) if kind.written == "float" else int(text)
    return math.inf if text == "inf" else float(text)


def _size_and_dtype(kind: Type) -> tuple[list[int], Any]:
    sizes = kind.sizes() if isinstance(kind, ShapedTensorType) else None
    if not isinstance(kind, ShapedTensorType) or sizes is None or kind.dtype() is None:
        raise RuntimeError("a tensor constant needs a type with all sizes and a dtype")
    return sizes, kind.dtype()


def match_schema(node: Node) -> None:
    """Note which overload an operator's node calls: the first that takes its inputs' types."""
    if node.note is not None or node.kind().startswith("prim::Constant"):
        return
    kinds = [value.type() for value in node.inputs()]
    for candidate in candidates(node.kind()):
        if len(candidate.kinds) == len(kinds) and all(map(_takes, candidate.kinds, kinds)):
            node.note = candidate.schema
            return


def _takes(wanted: Type, kind: Type) -> bool:
    if isinstance(wanted, ListType) and isinstance(kind, ListType):
        return _takes(wanted.element, kind.element)
    return is_variable(wanted) or kind.isSubtypeOf(wanted)
