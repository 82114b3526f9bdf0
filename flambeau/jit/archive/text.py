"""The text of an archive's code, parsed under limits: a file of definitions, of which none is run by Python.

Stands on Python's parser; used by importing. What is too large or too deeply nested for a program is refused before or while it
is parsed, whatever the file says of itself.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

__all__ = ["check_text"]

#: Words and signs of one file, brackets in brackets, and how deep a tree may be.
MOST_TOKENS, MOST_BRACKETS, DEEPEST = 1_000_000, 100, 400
_TOKEN = re.compile(r"\w+|[^\w\s]")
_INTEGERS = range(-(1 << 63), (1 << 63) + 1)  # the least is written as minus the greatest


def check_text(text: str, name: str) -> str:
    """The text, if it is definitions in Python's words, without the version of older files. RuntimeError for any other."""
    _check_size(text, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RuntimeError(f"{name} is no TorchScript: {_words(error)}") from None
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        if _is_version(node):
            lines = text.split("\n")
            lines[node.lineno - 1] = ""
            text = "\n".join(lines)
        else:
            raise RuntimeError(f"{name} is no TorchScript: line {node.lineno} is no definition")
    _check_nodes(tree, name)
    return text


def _is_version(node: ast.stmt) -> bool:
    """Whether it is the first line of older files, `op_version_set = 1`."""
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "op_version_set"


def _check_size(text: str, name: str) -> None:
    depth = 0
    for count, found in enumerate(_TOKEN.finditer(text), 1):
        sign = found[0]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        if count > MOST_TOKENS or depth > MOST_BRACKETS:
            raise RuntimeError(f"refusing {name}: too {'long' if count > MOST_TOKENS else 'deeply nested'} for a program")


def _check_nodes(tree: ast.AST, name: str) -> None:
    """RuntimeError for trees too deep to go through, and for numbers that no program has."""
    pending: list[tuple[Iterator[ast.AST], int]] = [(ast.iter_child_nodes(tree), 1)]
    while pending:
        nodes, depth = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            continue
        if depth > DEEPEST:
            raise RuntimeError(f"refusing {name}: too deeply nested for a program")
        if getattr(node, "decorator_list", None):
            raise RuntimeError(f"{name} is no TorchScript: line {node.lineno} is decorated")  # type: ignore[attr-defined]
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value not in _INTEGERS:
            raise RuntimeError(f"{name} is no TorchScript: line {node.lineno} has an integer of more than 64 bits")
        pending.append((ast.iter_child_nodes(node), depth + 1))


def _words(error: BaseException) -> str:
    return f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error) or type(error).__name__
