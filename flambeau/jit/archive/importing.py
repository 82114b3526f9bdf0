"""The classes and functions of an archive's code: found by qualified name, compiled when they are asked for.

Stands on the front end's reader of texts, whose names come from a table, and on container; used by loading.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.archive.container import Archive
from flambeau.jit.archive.text import check_text
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.text import MethodSelf, TextResolver, define_from_tree, parse_text
from flambeau.jit.ir.function import Function, argument
from flambeau.jit.ir.source import ErrorReport
from flambeau.jit.ir.types import FLOAT, INT, STRING, ClassType, EnumType, InterfaceType, NamedTupleType

__all__ = ["Importer"]

_LISTS = ("__parameters__", "__buffers__", "__forward_pre_hooks__", "__forward_hooks__")
_VALUES: dict[type, Type] = {int: INT, float: FLOAT, str: STRING}


class Importer:
    """What the code of an archive defines. constants: what CONSTANTS names."""

    def __init__(self, archive: Archive, constants: tuple[Any, ...]) -> None:
        self.archive = archive
        self.resolver = TextResolver(self.lookup, constants)
        self.found: dict[str, Any] = {}
        self._files: dict[str, dict[str, tree.Def | tree.ClassDef]] = {}
        self.functions: list[Function] = []

    # ---- finding

    def lookup(self, name: str) -> Any:
        """The function or type of a qualified name; None if the archive has none."""
        if name in self.found:
            return self.found[name]
        prefix, _, last = name.rpartition(".")
        definition = self._definitions(prefix).get(last) if prefix.startswith("__torch__") else None
        if definition is None:
            return None
        if isinstance(definition, tree.Def):
            self.found[name] = self._function(name, definition)
        else:
            self._class(name, definition)
        return self.found[name]

    def _definitions(self, prefix: str) -> dict[str, tree.Def | tree.ClassDef]:
        if prefix not in self._files:
            text = self.archive.code(prefix)
            found: dict[str, tree.Def | tree.ClassDef] = {}
            if text is not None:
                filename = f"code/{prefix.replace('.', '/')}.py"
                found = {d.name: d for d in parse_text(check_text(text, filename), filename)}
            self._files[prefix] = found
        return self._files[prefix]

    def type(self, name: str) -> Type:
        """The type of a qualified name. RuntimeError if the archive has none."""
        found = self.lookup(name)
        if not isinstance(found, Type):
            raise RuntimeError(f"Unknown type name '{name}'")
        return found

    # ---- functions

    def _function(self, name: str, definition: tree.Def, self_value: MethodSelf | None = None) -> Function:
        made = define_from_tree(name, definition, self.resolver, self_value)
        self.functions.append(made)
        return made

    def compile(self) -> None:
        """Compile everything that was found, and what that finds. ErrorReport for a program that is wrong."""
        done = 0
        while done < len(self.functions):
            self.functions[done].ensure_defined()
            done += 1

    # ---- classes

    def _class(self, name: str, definition: tree.ClassDef) -> None:
        base = definition.bases[0] if definition.bases else None
        if len(definition.bases) > 1 or not (base is None or isinstance(base, tree.Var)):
            raise ErrorReport(definition.range, "a class has one base at most")
        make: Callable[[str, tree.ClassDef], None] | None = {
            "": self._plain, "Module": self._module, "NamedTuple": self._tuple, "Enum": self._enum, "Interface": self._interface,
            "ModuleInterface": self._module_interface,
        }.get(base.name if isinstance(base, tree.Var) else "")  # fmt: skip
        if make is None:
            raise ErrorReport(definition.range, "Torchscript does not support class inheritance.")
        make(name, definition)

    def _plain(self, name: str, definition: tree.ClassDef, is_module: bool = False) -> None:
        kind = self.found[name] = ClassType(name, is_module)
        lists: dict[str, list[str]] = {}
        for stmt in definition.assigns:
            self._assignment(kind, stmt, lists)
        self._annotated(kind, definition, lists)
        for method in definition.methods:
            kind.methods[method.name] = self._function(f"{name}.{method.name}", method, MethodSelf(kind))
        for hooks, wanted in ((kind.pre_hooks, "__forward_pre_hooks__"), (kind.hooks, "__forward_hooks__")):
            for hook in lists.get(wanted, []):
                if hook not in kind.methods:
                    raise ErrorReport(definition.range, f"there is no hook {hook}")
                hooks.append(kind.methods.pop(hook))

    def _module(self, name: str, definition: tree.ClassDef) -> None:
        self._plain(name, definition, is_module=True)

    def _assignment(self, kind: ClassType, stmt: tree.Assign, lists: dict[str, list[str]]) -> None:
        target = stmt.targets[0]
        if isinstance(target, tree.Var) and target.name in _LISTS:
            names = self.resolver.constant(stmt.value, kind)
            if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
                raise ErrorReport(stmt.range, f"{target.name} must be a list of names")
            lists[target.name] = names
        elif isinstance(target, tree.Var) and stmt.type is not None:
            value = self.resolver.constant(stmt.value, self.resolver.type_of(stmt.type))
            kind.constants[target.name] = value
        elif not _annotates(target) and not (isinstance(target, tree.Var) and target.name == "__annotations__"):
            raise ErrorReport(stmt.range, "Unexpected statement kind in class body")

    def _annotated(self, kind: ClassType, definition: tree.ClassDef, lists: dict[str, list[str]]) -> None:
        pairs = [
            (stmt.targets[0].items[0].text, stmt.value, stmt.range) for stmt in definition.assigns if _annotates(stmt.targets[0])
        ]
        pairs += [(name, annotation, annotation.range) for name, annotation in definition.annotations]
        for name, annotation, _ in sorted(pairs, key=lambda pair: pair[2].start):
            kind.add_attribute(
                name,
                self.resolver.type_of(annotation),
                name in lists.get("__parameters__", ()),
                name in lists.get("__buffers__", ()),
            )

    def _tuple(self, name: str, definition: tree.ClassDef) -> None:
        names = [each for each, _ in definition.annotations]
        kinds = [self.resolver.type_of(annotation) for _, annotation in definition.annotations]
        defaults = []
        for stmt in definition.assigns:
            target = stmt.targets[0]
            if not isinstance(target, tree.Var) or stmt.type is None:
                raise ErrorReport(stmt.range, "Unexpected statement kind in NamedTuple body")
            names.append(target.name)
            kinds.append(self.resolver.type_of(stmt.type))
            defaults.append(self.resolver.constant(stmt.value, kinds[-1]))
        self.found[name] = NamedTupleType(name, names, kinds, defaults)

    def _enum(self, name: str, definition: tree.ClassDef) -> None:
        members: list[tuple[str, Any]] = []
        for stmt in definition.assigns:
            target = stmt.targets[0]
            if not isinstance(target, tree.Var) or target.name.startswith("__"):
                raise ErrorReport(stmt.range, "Unexpected statement kind in Enum body")
            members.append((target.name, self.resolver.constant(stmt.value, None)))  # type: ignore[arg-type]
        kinds = {type(value) for _, value in members}
        if len(kinds) != 1 or not kinds <= {int, float, str}:
            raise ErrorReport(definition.range, "Enum values must all be integers, floats or texts")
        python = enum.Enum(name.rpartition(".")[2], members)  # type: ignore[misc]
        python._jit_override_qualname = name  # type: ignore[attr-defined]  # what programs call it, wherever it is made
        self.found[name] = EnumType(name, _VALUES[kinds.pop()], members, python)

    def _interface(self, name: str, definition: tree.ClassDef, is_module: bool = False) -> None:
        kind = self.found[name] = InterfaceType(name, is_module)
        for method in definition.methods:
            kind.methods[method.name] = self._declared(f"{name}.{method.name}", method, kind)

    def _module_interface(self, name: str, definition: tree.ClassDef) -> None:
        self._interface(name, definition, is_module=True)

    def _declared(self, name: str, method: tree.Def, kind: InterfaceType) -> Any:
        """A method of an interface: a schema, and no program."""
        arguments = [argument("self", kind)]
        for param in method.params[1:]:
            wanted = self.resolver.parameter_type(param)
            given = param.default is not None
            default = self.resolver.constant(param.default, wanted) if param.default is not None else None
            arguments.append(argument(param.name, wanted, default, given, param.kwarg_only))
        if method.returns is None:
            raise ErrorReport(method.range, "a method of an interface says what it returns")
        made = Function(name)
        made.declare(FunctionSchema(method.name, "", arguments, [argument("", self.resolver.type_of(method.returns))]))
        made.is_declaration = True
        return made


def _annotates(target: tree.Expr) -> bool:
    """Whether it is `__annotations__["name"]`."""
    return (
        isinstance(target, tree.Subscript) and isinstance(target.value, tree.Var) and target.value.name == "__annotations__"
        and len(target.items) == 1 and isinstance(target.items[0], tree.StringLiteral)
    )  # fmt: skip
