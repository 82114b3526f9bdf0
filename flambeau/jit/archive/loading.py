"""Reading a program: torch.jit.load.

Stands on container, importing and objects. An archive is data: its code is compiled by names of a table, its pickles are read by
an unpickler that makes nothing but records, and its values are checked against the types that the code declares.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

from flambeau.jit.archive.classes import CHANGED
from flambeau.jit.archive.container import Archive, opened
from flambeau.jit.archive.importing import Importer
from flambeau.jit.archive.modules import fill
from flambeau.jit.archive.objects import Objects
from flambeau.jit.frontend.errors import FrontendError
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.types import ClassType
from flambeau.jit.script_module import RecursiveScriptModule

__all__ = ["load"]


def load(f: Any, map_location: Any = None, extra_files: dict[str, Any] | None = None) -> RecursiveScriptModule:
    """The module in an archive. extra_files: filled with the contents of the files that it names.

    ValueError for a path where no file is, RuntimeError for what is no archive, or a damaged one.
    """
    file = opened(f)
    try:
        return _loaded(Archive(file, map_location), extra_files)
    except (RecursionError, MemoryError, struct.error, EOFError, LookupError, TypeError, AttributeError, UnicodeError) as error:
        raise RuntimeError(f"the archive is damaged or is no TorchScript: {type(error).__name__}: {error}") from None
    except (pickle.UnpicklingError, FrontendError) as error:
        raise RuntimeError(f"the archive is damaged or is no TorchScript: {error}") from None
    finally:
        if file is not f:
            file.close()


def _loaded(archive: Archive, extra_files: dict[str, Any] | None) -> RecursiveScriptModule:
    importer = Importer(archive, archive.constants())
    made = Objects(importer, RecursiveScriptModule, fill).root(archive.objects())
    if not isinstance(made, RecursiveScriptModule):
        raise RuntimeError("the archive holds no module")
    importer.compile()
    _check_calls(importer.functions)
    version = archive.version()
    for function in importer.functions:
        _check_version(function.graph.block(), version)
    if extra_files is not None:
        archive.extra(extra_files)
    return made


def _check_version(block: Block, version: int) -> None:
    """NotImplementedError for operators that meant something else in files of this version."""
    for node in block.nodes():
        since = CHANGED.get(node.kind(), 0)
        if version < since and node.kind() != "aten::gelu":
            raise NotImplementedError(
                f"the archive was written by an old PyTorch, in which {node.kind()} was another operator; load and save it with "
                "PyTorch 2"
            )
        for inner in node.blocks():
            _check_version(inner, version)


def _check_calls(functions: list[Function]) -> None:
    """RuntimeError for functions that call themselves, by whatever way."""
    calls = {id(function): _called(function.graph.block()) for function in functions}
    done: set[int] = set()
    for function in functions:
        path: list[tuple[Function, list[Function]]] = [(function, list(calls[id(function)]))]
        entered = {id(function)}
        while path:
            here, rest = path[-1]
            if not rest:
                path.pop()
                entered.discard(id(here))
                done.add(id(here))
                continue
            callee = rest.pop()
            if id(callee) in entered:
                raise RuntimeError(f"function '{callee.name}' is called recursively. Recursive calls are not supported")
            if id(callee) not in done and id(callee) in calls:
                entered.add(id(callee))
                path.append((callee, list(calls[id(callee)])))


def _called(block: Block) -> list[Function]:
    """The functions that a block calls."""
    found = []
    for node in block.nodes():
        if node.kind() == "prim::CallFunction":
            found.append(node.inputsAt(0).node().note)
        elif node.kind() == "prim::CallMethod" and isinstance(node.inputsAt(0).type(), ClassType):
            found.append(node.inputsAt(0).type().methods[node.s("name")])  # type: ignore[attr-defined]
        for inner in node.blocks():
            found += _called(inner)
    return [each for each in found if isinstance(each, Function)]
