"""The syntax tree of a Python function, believed only if it compiles to the function's own code.

A file may have changed since it was imported, a decorator may have exchanged the code, a lambda shares its line with others:
so a tree counts only if it compiles, untouched, to the same instructions, names and constants. Standard library only.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import os
import sysconfig
import textwrap
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from flambeau.capture.dataclass_source import guesses

__all__ = ["Source", "factory_module", "code_in", "source_of"]

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FACTORY = "_capture_factory"
MOST_FILES = 200  # whose trees are kept at once
_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


class Source(NamedTuple):
    """A function's tree; `class_name` is that of the class around it, for private names; `imports` are those of its file that
    its compilation depends on (CPython 3.12 and later call what was imported in another way).
    """

    node: ast.FunctionDef | ast.Lambda
    class_name: str | None
    imports: list[ast.stmt]


def _same(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects do the same: lines, names of files, and whether they stand in a function don't count."""
    for part in ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars"):
        if getattr(a, part) != getattr(b, part):
            return False
    if (a.co_flags ^ b.co_flags) & ~inspect.CO_NESTED:
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(x, CodeType) and isinstance(y, CodeType):
            if not _same(x, y):
                return False
        elif type(x) is not type(y) or repr(x) != repr(y):
            return False
    return True


def code_in(module: CodeType, source: Source, name: str) -> CodeType | None:
    """The code of the function in a `factory_module`'s code; None if it can't be told from its defaults'."""
    path = [FACTORY] if source.class_name is None else [FACTORY, source.class_name]
    at = module
    for step in path:
        at = next(c for c in at.co_consts if isinstance(c, CodeType) and c.co_name == step)
    found = [c for c in at.co_consts if isinstance(c, CodeType) and c.co_name == name]
    return found[0] if len(found) == 1 else None


def factory_module(
    node: ast.FunctionDef | ast.Lambda, source: Source, free: tuple[str, ...], hooks: tuple[str, ...] = ()
) -> ast.Module:
    """A module in which a function stands as in its own: in a class of the same name, with its free variables around it.

    Free variables and hooks are parameters of a function around it, in whose code `code_in` finds it.
    """
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.Expr(node)]
    else:
        body = [node]
    own = source.class_name or (None if isinstance(node, ast.Lambda) else node.name)
    if source.class_name is not None:
        body = [ast.ClassDef(source.class_name, bases=[], keywords=[], body=body, decorator_list=[], type_params=[])]
    if own is not None and own not in free:
        body.insert(0, ast.Global([own]))  # as in its file, where it is no variable of a function
    names = [name for name in (*free, *hooks) if name != "__class__"]
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[])
    factory = ast.FunctionDef(FACTORY, arguments, body, decorator_list=[], type_params=[])
    module = ast.Module([*source.imports, factory], type_ignores=[])
    return ast.fix_missing_locations(module)


def compiled(module: ast.Module, code: CodeType) -> CodeType:
    """A module's code, compiled for the place of `code`: its file, and what that imports from __future__."""
    return compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)


def _compiles_to(source: Source, code: CodeType) -> bool:
    try:
        made = compiled(factory_module(source.node, source, code.co_freevars), code)
    except (SyntaxError, ValueError, RecursionError):
        return False
    inside = code_in(made, source, code.co_name)
    return inside is not None and inside.co_firstlineno == code.co_firstlineno and _same(inside, code)


def _without_decorators(node: ast.FunctionDef) -> ast.FunctionDef:
    """The function as its code object has it, whose first line is that of the first decorator."""
    if node.decorator_list:
        node.lineno = min(d.lineno for d in node.decorator_list)
        node.decorator_list = []
    return node


def _class_name(code: CodeType) -> str | None:
    """The innermost class around a function, by its qualified name."""
    parts = code.co_qualname.split(".")[:-1]
    while parts and parts[-1] == "<locals>":  # names within a method are private names of its class, too
        parts = parts[:-2]
    return parts[-1] if parts else None


def _filename(code: CodeType) -> str:
    """Where a code object's source is; what is frozen into the interpreter has a file in the standard library."""
    name = code.co_filename
    if name.startswith("<frozen ") and not name.startswith("<frozen importlib"):
        beside = os.path.join(sysconfig.get_path("stdlib"), *name[len("<frozen ") : -1].split(".")) + ".py"
        return beside if os.path.exists(beside) else name
    return name


def _block_tree(code: CodeType) -> ast.FunctionDef | None:
    """The function that begins at the code's first line, parsed from its own lines."""
    lines = linecache.getlines(_filename(code))
    first = code.co_firstlineno - 1
    if first >= len(lines):
        return None
    try:
        module = ast.parse(textwrap.dedent("".join(inspect.getblock(lines[first:]))))
    except (SyntaxError, ValueError, inspect.EndOfBlock):
        return None
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        return None
    return _without_decorators(ast.increment_lineno(module.body[0], first))


class _File(NamedTuple):
    definitions: dict[tuple[int, str], list[Definition]]
    imports: list[ast.stmt]


_files: dict[str, tuple[int, _File]] = {}  # with the number of lines at that time


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a file that are not inside functions or classes; those under an `if` or `try` are among them."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, (ast.Import, ast.ImportFrom)):
            yield each
        elif not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            yield from _imports(each)


def _file(filename: str) -> _File:
    """All functions of a file by first line and name, and the imports at its top."""
    lines = linecache.getlines(filename)
    if filename in _files and _files[filename][0] == len(lines):
        return _files[filename][1]
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        tree = ast.Module([], [])
    definitions: dict[tuple[int, str], list[Definition]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            definitions.setdefault((node.lineno, "<lambda>"), []).append(node)
        elif isinstance(node, ast.FunctionDef):
            node = _without_decorators(node)
            definitions.setdefault((node.lineno, node.name), []).append(node)
    plain = [n for n in _imports(tree) if isinstance(n, ast.Import) or (n.module != "__future__" and n.names[0].name != "*")]
    if len(_files) >= MOST_FILES:
        _files.clear()
    _files[filename] = len(lines), _File(definitions, list(plain))
    return _files[filename][1]


_sources: WeakKeyDictionary[CodeType, Source | str] = WeakKeyDictionary()


def source_of(code: CodeType) -> Source | str:
    """The tree of a function by its code, or why there is none that can be believed. Kept for the code's life."""
    found = _sources.get(code)
    if found is None:
        found = _sources[code] = _find(code)
    return found


def _find(code: CodeType) -> Source | str:
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return "an async function"
    if code.co_filename == "<string>":
        for written in guesses(code):
            source = Source(written, None, [])
            if _compiles_to(source, code):
                return source
    if _filename(code).startswith("<"):
        return f"its source has no file ({code.co_filename})"
    class_name = _class_name(code)
    node = _block_tree(code) if code.co_name != "<lambda>" else None
    if node is not None:
        source = Source(node, class_name, [])
        if _compiles_to(source, code):
            return source
    file = _file(_filename(code))
    for each in [*([node] if node is not None else []), *file.definitions.get((code.co_firstlineno, code.co_name), [])]:
        if isinstance(each, ast.AsyncFunctionDef):
            continue
        for imports in ([], file.imports):
            for within in {class_name: None, None: None}:  # a function's qualified name may have been given to it
                source = Source(each, within, imports)
                if _compiles_to(source, code):
                    return source
    return "its source was not found, or is not what was compiled"
