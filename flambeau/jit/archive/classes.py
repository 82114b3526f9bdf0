"""The text of a program's classes and functions, as archives have it: one definition after another, each with what it needs.

Stands on printing; used by saving.
"""

from __future__ import annotations

from typing import Any

from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.constants import type_of_value
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.source import ErrorReport
from flambeau.jit.ir.types import ClassType, EnumType, InterfaceType, NamedTupleType
from flambeau.jit.printing.code import ConstantTable, Printer

__all__ = ["Code"]

#: Operators that meant something else in older files: the version from which they mean what they do now.
CHANGED = {"aten::div": 4, "aten::div_": 4, "aten::full": 5, "aten::linspace": 8, "aten::logspace": 9, "aten::gelu": 10}


class Code:
    """The definitions of a program by file, in the order in which they are needed."""

    def __init__(self) -> None:
        self.constants = ConstantTable()
        self.needed: list[Any] = []
        self.files: dict[str, list[str]] = {}
        self.version = 3

    def add(self, thing: Any) -> None:
        """Write a class or function, and all that it needs."""
        done = len(self.needed)
        self._need(thing)
        while done < len(self.needed):
            self._define(self.needed[done])
            done += 1

    def _need(self, thing: Any) -> None:
        if not any(known is thing for known in self.needed):
            self.needed.append(thing)

    def _define(self, thing: Any) -> None:
        dependencies: list[Any] = []
        printer = Printer(self.constants, dependencies)
        if isinstance(thing, Function):
            text = self._function(printer, thing, 0)
        elif isinstance(thing, ClassType):
            text = self._class(printer, thing)
        elif isinstance(thing, NamedTupleType):
            text = _tuple(printer, thing)
        elif isinstance(thing, EnumType):
            text = _enum(printer, thing)
        else:
            text = _interface(printer, thing)
        prefix = thing.qualified_name.rpartition(".")[0]
        self.files.setdefault(prefix, []).append(text)
        for dependency in dependencies:
            self._need(dependency)

    def _function(self, printer: Printer, function: Function, level: int) -> str:
        self._see(function.graph.block())
        return printer.function(function, level, typed_self=True)

    def _see(self, block: Block) -> None:
        """Note the version that the operators of a block need."""
        for node in block.nodes():
            if node.kind() == "prim::PythonOp":
                raise ErrorReport(
                    node._range,
                    f"\nCould not export Python function call '{node.s('name')}'. Remove calls to Python functions before "
                    "export. Did you forget to add @script or @script_method annotation? If this is a nn.ModuleList, add it to "
                    "__constants__",
                )
            self.version = max(self.version, CHANGED.get(node.kind(), 0))
            for inner in node.blocks():
                self._see(inner)

    def _class(self, printer: Printer, kind: ClassType) -> str:
        lines = [f"class {kind.name()}{'(Module)' if kind.is_module else ''}:"]
        if kind.is_module:
            parameters = [name for name, attribute in kind.attributes.items() if attribute.is_parameter]
            buffers = [name for name, attribute in kind.attributes.items() if attribute.is_buffer]
            lines += [_names("__parameters__", parameters), _names("__buffers__", buffers)]
            for word, hooks in (("__forward_pre_hooks__", kind.pre_hooks), ("__forward_hooks__", kind.hooks)):
                if hooks:
                    lines.append(_names(word, [hook.name for hook in hooks]))
        for name, attribute in kind.attributes.items():
            shown = printer.words.type(attribute.type)
            lines.append(f"  {name} : {shown}" if name.isidentifier() else f'  __annotations__["{name}"] = {shown}')
        for name, value in kind.constants.items():
            value = tuple(value) if isinstance(value, list) else value
            own = type_of_value(value)
            if own is not None:
                lines.append(f"  {name} : Final[{printer.words.type(own)}] = {printer.words.constant(value, own)}")
        text = "\n".join(lines) + "\n"
        written = [*kind.methods.values(), *kind.static_methods.values(), *kind.hooks, *kind.pre_hooks]
        for function in dict.fromkeys(written):
            text += self._function(printer, function, 1)
        return text if len(lines) > 1 or written else text + "  pass\n"


def _names(word: str, names: list[str]) -> str:
    return f"  {word} = [" + "".join(f'"{name}", ' for name in names) + "]"


def _tuple(printer: Printer, kind: NamedTupleType) -> str:
    first = len(kind.names) - len(kind.defaults)
    text = f"class {kind.qualified_name.rpartition('.')[2]}(NamedTuple):\n"
    for at, (name, each) in enumerate(zip(kind.names, kind.elements())):
        default = f" = {printer.words.constant(kind.defaults[at - first], each)}" if at >= first else ""
        text += f"  {name} : {printer.words.type(each)}{default}\n"
    return text


def _enum(printer: Printer, kind: EnumType) -> str:
    text = f"class {kind.qualified_name.rpartition('.')[2]}(Enum):\n"
    for name, value in kind.members:
        text += f"  {name} = {printer.words.constant(value, kind.value_type)}\n"
    return text


def _interface(printer: Printer, kind: InterfaceType) -> str:
    text = f"class {kind.qualified_name.rpartition('.')[2]}({'ModuleInterface' if kind.is_module else 'Interface'}):\n"
    for name, method in kind.methods.items():
        shown = ["self"]
        for argument in method.schema.arguments[1:]:
            default = f"={printer.words.constant(argument.default_value, argument.type)}" if argument.has_default_value() else ""
            shown.append(f"{argument.name}: {printer.words.type(argument.type)}{default}")
        returns = printer.words.type(method.schema.returns[0].type)
        text += f"  def {name}({', '.join(shown)}) -> {returns}:\n    pass\n"
    return text
