"""The text of a Python function, and its tree: what PyTorch reads of it, with files and lines for errors.

Stands on parsing; used by functions, module_types and python_classes.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

from flambeau.jit.frontend import tree
from flambeau.jit.frontend.parsing import Parser
from flambeau.jit.ir.source import Source, call_stack_text

__all__ = ["DROPPED", "UNUSED", "Parsed", "aligned", "commented", "definition_of", "parsed", "source_lines"]

UNUSED = "unused (ignored and replaced with raising of an exception)"
DROPPED = "_drop (function is fully ignored, declaration can be unscriptable)"
_TYPE_COMMENT = re.compile(r"#\s*type:\s*(.*)")


def source_lines(obj: Any) -> tuple[list[str], int, str | None]:
    """The lines of a function or class, the number of the first, and the file. OSError if there are none."""
    filename = None
    try:
        filename = inspect.getsourcefile(obj)
        lines, number = inspect.getsourcelines(obj)
    except OSError as error:
        message = (
            f"Can't get source for {obj}. TorchScript requires source access in order to carry out compilation, make sure "
            f"original "
            ".py files are available."
        )
        stack = call_stack_text()
        raise OSError(message + ("\n" + stack if stack else "")) from error
    return lines, number, filename


def aligned(lines: list[str]) -> list[str]:
    """The lines, none of which begins left of the function's own first."""
    at = next((i for i, line in enumerate(lines) if line.lstrip().startswith("def")), None)
    if at is None:
        return lines
    margin = lines[at].split("def")[0]
    return [
        line if i == at else margin + (line[len(margin) :] if line.startswith(margin) else line) for i, line in enumerate(lines)
    ]


class Parsed:
    """A function's text as Python parsed it."""

    def __init__(self, node: ast.FunctionDef, parser: Parser, text: str) -> None:
        self.node, self.parser, self.text = node, parser, text


def parsed(function: Any) -> Parsed:
    """A function's text. RuntimeError for what is not one function, a lambda for one."""
    lines, number, filename = source_lines(function)
    text = "".join(aligned(lines))
    moved = textwrap.dedent(text)
    module = ast.parse(moved)
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        raise RuntimeError(f"Expected a single top-level function: {filename}:{number}")
    margin = len(text.split("\n", 1)[0]) - len(moved.split("\n", 1)[0])
    parser = Parser(Source(text, filename, number), margin, function.__name__)
    return Parsed(module.body[0], parser, text)


def _type_line(text: str) -> str | None:
    """The comment `# type: (int) -> int` of a function, if there is one; those that stand behind parameters are put together."""
    lines = text.split("\n")
    found = [(i, line) for i, line in enumerate(lines) if "# type:" in line]
    kept = [(i, m.group(1)) for i, line in found if (m := _TYPE_COMMENT.search(line)) and not m.group(1).startswith("ignore")]
    if not kept:
        return None
    if len(kept) == 1:
        return kept[0][1] if "->" in kept[0][1] else None
    closing = [words for _, words in kept if "->" in words]
    if not closing:
        return None
    own = [words.strip() for _, words in kept if "->" not in words]
    if closing[0].strip().startswith("(...)") and own:
        return f"({', '.join(own)}) ->{closing[0].partition('->')[2]}"
    return closing[0]


def commented(text: str) -> ast.FunctionDef | None:
    """The signature that a comment `# type: (int) -> int` in a function's text gives it; None if there is none."""
    line = _type_line(text)
    if line is None:
        return None
    signature = ast.parse(line.strip(), mode="func_type")
    assert isinstance(signature, ast.FunctionType)
    node = ast.parse("def signature(): pass").body[0]
    assert isinstance(node, ast.FunctionDef)
    node.args.args = [ast.arg(f"a{i}", kind) for i, kind in enumerate(signature.argtypes)]
    node.returns = signature.returns
    return node


def definition_of(function: Any, name: str, self_name: str | None = None, is_classmethod: bool = False) -> tree.Def:
    """The tree of a function under a name. `self_name`: what the type of `self` is called, in a method."""
    found = parsed(function)
    node = found.node
    modifier = getattr(function, "_torchscript_modifier", None)
    if modifier in (UNUSED, DROPPED):
        body = ast.parse('raise RuntimeError("Cannot call @unused methods")').body
        for each in body:
            for part in ast.walk(each):
                if hasattr(part, "lineno"):
                    part.lineno, part.col_offset = 1, 0  # type: ignore[attr-defined]
        node.body = body
        node.args.kwarg = node.args.vararg = None
        for arg in node.args.args + node.args.kwonlyargs:
            arg.annotation = ast.Name("Any", lineno=1, col_offset=0)
        if modifier == DROPPED:
            node.returns = None
    if is_classmethod:
        stmt = ast.parse(f"{node.args.args[0].arg} = {self_name}").body[0]
        node.body.insert(0, stmt)
    return found.parser.definition(node, name, self_name, commented(found.text))
