"""Which modules Python source imports: found in the text, which isn't run."""

from __future__ import annotations

import ast
from typing import Any

from flambeau.base.naming import public_module

__all__ = ["find_files_source_depends_on"]


class _ExtractModuleReferences(ast.NodeVisitor):
    """Collects (module, name taken from it or None) of the imports of a source, in their order."""

    __module__ = public_module("package.find_file_dependencies")

    def __init__(self, package: str) -> None:
        self.package = package
        self.references: dict[tuple[str, str | None], None] = {}

    @classmethod
    def run(cls, src: str, package: str) -> list[tuple[str, str | None]]:
        """The references of a source that lies in a package. SyntaxError for what is no Python."""
        visitor = cls(package)
        visitor.visit(ast.parse(src))
        return list(visitor.references)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.references[alias.name, None] = None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        name = self._absolute(node.module or "", node.level)
        for alias in node.names:
            self.references[name, None if alias.name == "*" else alias.name] = None

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "__import__":
            try:
                self._imported(node)
            except (ValueError, TypeError, KeyError):  # arguments that aren't known before it runs
                return

    def _imported(self, node: ast.Call) -> None:
        names = ("name", "globals", "locals", "fromlist", "level")
        given = dict(zip(names, node.args)) | {k.arg: k.value for k in node.keywords if k.arg}

        def known(name: str, otherwise: Any) -> Any:
            return ast.literal_eval(given[name]) if name in given else otherwise

        name = self._absolute(known("name", ""), known("level", 0))
        taken = known("fromlist", [])
        for each in taken or [None]:
            self.references[name, None if each in (None, "*") else str(each)] = None

    def _absolute(self, name: str, level: int) -> str:
        if not level:
            return name
        parts = self.package.rsplit(".", level - 1)
        if len(parts) < level:
            raise ValueError("attempted relative import beyond top-level package")
        return f"{parts[0]}.{name}" if name else parts[0]


def find_files_source_depends_on(src: str, package: str) -> list[tuple[str, str | None]]:
    """Per import of a source (module, name that is taken from it or None), names made absolute by the package it lies in.

    SyntaxError for what is no Python, ValueError for a relative import that leads out of the package.
    """
    return _ExtractModuleReferences.run(src, package)
