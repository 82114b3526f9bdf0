"""What Python's text can be refused with: FrontendError and its kin, which show the line and a mark.

Stands on ir.source; used by parsing.
"""

from __future__ import annotations

import ast

from flambeau.base.naming import public_module
from flambeau.jit.ir.source import SourceRange, call_stack_text

__all__ = ["FrontendError", "FrontendTypeError", "NotSupportedError", "UnsupportedNodeError"]

_PRETTY = {
    "FunctionDef": "function definitions",
    "For": "for loops",
    "Delete": "del statements",
    "ClassDef": "class definitions",
    "With": "with statements",
    "Raise": "raise statements",
    "Assert": "assertions",
    "Import": "import statements",
    "ImportFrom": "import statements",
    "Global": "global variables",
    "Break": "break statements",
    "Continue": "continue statements",
    "AsyncFunctionDef": "async function definitions",
    "AsyncFor": "async for loops",
    "AsyncWith": "async with statements",
    "Try": "try blocks",
    "Nonlocal": "nonlocal variables",
    "AnnAssign": "annotated assignments",
}
_FIRST_WORDS = {
    "FunctionDef": "def",
    "For": "for",
    "Delete": "del",
    "ClassDef": "class",
    "With": "with",
    "Raise": "raise",
    "Assert": "assert",
    "Import": "import",
    "ImportFrom": "from",
    "Global": "global",
    "Break": "break",
    "Continue": "continue",
    "AsyncFunctionDef": "async def",
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "Try": "try",
    "Nonlocal": "nonlocal",
}


class FrontendError(Exception):
    """What is wrong with the text of a function, with the place."""

    __module__ = public_module("jit.frontend")

    def __init__(self, source_range: SourceRange | None, msg: str) -> None:
        super().__init__(source_range, msg)
        self.source_range, self.msg = source_range, msg
        self.error_report = (source_range.highlight() if source_range is not None else "") + call_stack_text()

    def __str__(self) -> str:
        return f"{self.msg}:\n{self.error_report}"


class NotSupportedError(FrontendError):
    """Python that no program can have."""

    __module__ = public_module("jit.frontend")


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that no program can have."""

    __module__ = public_module("jit.frontend")

    def __init__(self, where: SourceRange, node: ast.AST, reason: str = "") -> None:
        name = type(node).__name__
        super().__init__(where, f"{_PRETTY.get(name, name)} {reason + ' ' if reason else ''}aren't supported")

    @staticmethod
    def width(node: ast.AST) -> int:
        """How many characters are marked of such a node."""
        return len(_FIRST_WORDS.get(type(node).__name__, " "))


class FrontendTypeError(FrontendError):
    """A type that no program can have."""

    __module__ = public_module("jit.frontend")
