"""The command `flambeau`: run a PyTorch program, or show where an operator lives.

    flambeau run script.py [args]      run a program in which `import torch` means flambeau
    flambeau run -m module [args]      the same for a module
    flambeau where relu                declaration, derivative and generated code of an operator
    flambeau --version

Stands on `as_torch` and `locate`. Installed as a console script; `python -m flambeau` is the same.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any

from . import as_torch, locate, version

USAGE = """\
usage: flambeau run script.py [args]     run a program in which `import torch` means flambeau
       flambeau run -m module [args]     the same for a module
       flambeau where OPERATOR           show an operator's declaration, derivative and generated code
       flambeau --version
"""


class CannotRun(Exception):
    """There is no such program; the message is what Python would say."""


def script_code(path: str) -> tuple[CodeType, dict[str, Any]]:
    """The code of a script (or of a folder's __main__.py), and what Python sets in its `__main__`."""
    full = os.path.abspath(path)
    folder = os.path.isdir(full)
    file = os.path.join(full, "__main__.py") if folder else full
    try:
        with io.open_code(file) as stream:
            source = stream.read()
    except OSError as error:
        raise CannotRun(f"can't open file {file!r}: [Errno {error.errno}] {error.strerror}") from None
    # Python puts the script's folder in front of the path, symbolic links resolved.
    replace_first_path(full if folder else os.path.dirname(os.path.realpath(file)))
    code = compile(source, file, "exec", dont_inherit=True)
    return code, {
        "__file__": file,
        "__cached__": None,
        "__loader__": SourceFileLoader("__main__", file),
        "__package__": None,
        "__spec__": None,
    }


def module_code(name: str) -> tuple[CodeType, dict[str, Any]]:
    """The code of a module (of its `__main__` where it is a package), and what Python sets in its `__main__`."""
    replace_first_path(os.getcwd())
    spec = find_module(name)
    if spec.submodule_search_locations is not None:
        spec = find_module(f"{name}.__main__")
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None
    if code is None:
        raise CannotRun(f"No code object available for {name}")
    sys.argv[0] = spec.origin or name
    return code, {
        "__file__": spec.origin,
        "__cached__": spec.cached,
        "__loader__": spec.loader,
        "__package__": spec.parent,
        "__spec__": spec,
    }


def find_module(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        reason = f"{type(error).__name__}: {error}"
        raise CannotRun(f"Error while finding module specification for {name!r} ({reason})") from None
    if spec is None:
        raise CannotRun(f"No module named {name}")
    return spec


def replace_first_path(folder: str) -> None:
    """Put `folder` where Python put the folder of this command, unless it was told not to (`python -P`)."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def program_frames(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this file: what Python itself would print."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def run(arguments: Sequence[str]) -> int:
    """Run a script (`script.py args...`) or a module (`-m module args...`) as `__main__`; returns the exit status."""
    as_module = arguments[:1] == ["-m"]
    program, *rest = arguments[1:] if as_module else arguments
    sys.argv[:] = [program, *rest]
    as_torch.install()
    as_torch.install_in_children()
    own_main = sys.modules["__main__"]  # kept alive: its globals are this command's
    main_module = ModuleType("__main__")
    vars(main_module).update(__builtins__=builtins, __annotations__={})
    try:
        code, names = (module_code if as_module else script_code)(program)
        vars(main_module).update(names)
        sys.modules["__main__"] = main_module
        exec(code, vars(main_module))
    except SystemExit:
        raise
    except CannotRun as error:
        sys.modules["__main__"] = own_main
        print(f"{sys.executable}: {error}", file=sys.stderr)
        return 1 if as_module else 2
    except BaseException as error:
        sys.stdout.flush()
        error = error.with_traceback(program_frames(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command, operands = arguments[:1], arguments[1:]
    if command in (["--version"], ["-V"]):
        print(f"flambeau {version.FLAMBEAU} (the API of PyTorch {version.PYTORCH})")
        return 0
    if command in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if command == ["run"] and operands and (not operands[0].startswith("-") or (operands[0] == "-m" and operands[1:])):
        return run(operands)
    if command == ["where"] and len(operands) == 1:
        return locate.show(operands[0])
    print(USAGE, end="", file=sys.stderr)
    return 2
