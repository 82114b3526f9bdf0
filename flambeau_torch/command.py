"""The command `flambeau`: run a PyTorch program, install the name torch, or show where an operator lives.

    flambeau run script.py [args]      run a program in which `import torch` means flambeau
    flambeau run -m module [args]      the same for a module
    flambeau run [-c code | -]         a prompt; the same for a line of code, for standard input
    flambeau launch [options] script.py [args]      the same in several processes: torchrun, and its options
    flambeau serve MODEL...            put models behind HTTP; --help for options
    flambeau install-torch             make it so for every program of this environment; --version chooses what it is told
    flambeau uninstall-torch
    flambeau where [--llvm] relu       declaration, rules and generated code of an operator, with the text of its kernels
    flambeau --version

Stands on `redirection`, `distribution` and, for `where`, on flambeau's `locate`. Installed as a console script;
`python -m flambeau_torch` is the same.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn

from . import redirection

USAGE = """\
usage: flambeau run script.py [args]     run a program in which `import torch` means flambeau
       flambeau run -m module [args]     the same for a module
       flambeau run [-c code | -]        a prompt; the same for a line of code, for standard input
       flambeau launch [options] script.py [args]    the same in several processes, as torchrun; --help for options
       flambeau serve MODEL...           put models behind HTTP: exported programs, TorchScript, folders; --help for options
       flambeau install-torch [--version X.Y.Z]    make it so for every program of this environment
       flambeau uninstall-torch          take that back
       flambeau where [--llvm] OPERATOR  show an operator's declaration, rules and generated code; relu, aten.add.Tensor
       flambeau --version
"""


class CannotRun(Exception):
    """There is no such program; the message is what Python would say."""


def script_code(path: str) -> tuple[CodeType, dict[str, Any]]:
    """The code of a script (or of the __main__ in a folder or zip file), and what Python sets in its `__main__`."""
    full = os.path.abspath(path)
    importer = pkgutil.get_importer(full)
    if importer is not None:
        replace_first_path(full)
        spec = importer.find_spec("__main__")
        if spec is None:
            raise CannotRun(f"can't find '__main__' module in {full!r}")
        return code_of(spec)
    try:
        with io.open_code(full) as stream:
            source = stream.read()
    except OSError as error:
        raise CannotRun(f"can't open file {full!r}: [Errno {error.errno}] {error.strerror}") from None
    # Python puts the script's folder in front of the path, symbolic links resolved.
    replace_first_path(os.path.dirname(os.path.realpath(full)))
    code = compile(source, full, "exec", dont_inherit=True)
    return code, {
        "__file__": full,
        "__cached__": None,
        "__loader__": SourceFileLoader("__main__", full),
        "__package__": None,
        "__spec__": None,
    }


def module_code(name: str) -> tuple[CodeType, dict[str, Any]]:
    """The code of a module (of its `__main__` where it is a package), and what Python sets in its `__main__`."""
    replace_first_path(os.getcwd())
    spec = find_module(name)
    if spec.submodule_search_locations is not None:
        spec = find_module(f"{name}.__main__")
    sys.argv[0] = spec.origin or name
    return code_of(spec)


def code_of(spec: ModuleSpec) -> tuple[CodeType, dict[str, Any]]:
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None
    if code is None:
        raise CannotRun(f"No code object available for {spec.name}")
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


def start_python(arguments: Sequence[str]) -> NoReturn:
    """Become a Python that is given these arguments, with the options that this one was given."""
    sys.stdout.flush()
    sys.stderr.flush()
    options = subprocess._args_from_interpreter_flags()
    os.execv(sys.executable, [sys.executable, *options, *arguments])


def python_itself(arguments: Sequence[str]) -> int:
    """The prompt, standard input and `-c` are Python's own, in a Python that starts with the redirection."""
    if sys.flags.ignore_environment:
        print("flambeau: Python's options -E and -I don't go with the prompt, - and -c", file=sys.stderr)
        return 2
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        print(f"flambeau {releases()['FLAMBEAU']}: `import torch` means flambeau here")
    redirection.install_in_children()
    start_python(arguments)


def run(arguments: Sequence[str]) -> int:
    """Run a script (`script.py args...`) or a module (`-m module args...`) as `__main__`; returns the exit status."""
    if not arguments or arguments[0] in ("-c", "-"):
        return python_itself(arguments)
    if redirection.OURS in sys.modules and not redirection.installed():
        start_python(["-m", "flambeau_torch", "run", *arguments])  # it is loaded under its own name: `python -m flambeau`
    as_module = arguments[:1] == ["-m"]
    program, *rest = arguments[1:] if as_module else arguments
    sys.argv[:] = [program, *rest]
    redirection.install()
    redirection.install_in_children()
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
        return 1 if as_module or str(error).startswith("can't find") else 2
    except BaseException as error:
        sys.stdout.flush()
        error = error.with_traceback(program_frames(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def launch(arguments: Sequence[str]) -> int:
    """Start processes of a program, in which `import torch` means flambeau; returns the exit status."""
    redirection.install_in_children()
    from flambeau.distributed import run as launcher

    return launcher.main(arguments)


def serve(arguments: Sequence[str]) -> int:
    """Put models behind HTTP, by processes in which `import torch` means flambeau; returns the exit status."""
    redirection.install_in_children()
    from flambeau.serve import command

    return command.main(arguments)


def torchrun() -> int:
    """The console script `torchrun`; returns the exit status."""
    return launch(sys.argv[1:])


def is_program(operands: Sequence[str]) -> bool:
    """Whether these are what `flambeau run` takes: nothing, a script, `-`, `-m module` or `-c code`."""
    if not operands or operands[0] == "-" or not operands[0].startswith("-"):
        return True
    return operands[0] in ("-m", "-c") and len(operands) > 1


def releases() -> dict[str, Any]:
    """flambeau's version and PyTorch's."""
    return redirection.versions(redirection.folder_of_flambeau())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    command, operands = arguments[:1], arguments[1:]
    if command in (["--version"], ["-V"]):
        found = releases()
        print(f"flambeau {found['FLAMBEAU']} (the API of PyTorch {found['PYTORCH']})")
        return 0
    if command in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if command == ["run"] and is_program(operands):
        return run(operands)
    if command == ["launch"]:
        return launch(operands)
    if command == ["serve"]:
        return serve(operands)
    names = [each for each in operands if each != "--llvm"]
    if command == ["where"] and len(names) == 1 and not names[0].startswith("-"):
        from flambeau import locate

        return locate.show(names[0], "--llvm" in operands)
    chosen = command == ["install-torch"] and operands[:1] == ["--version"] and len(operands) == 2
    if command in (["install-torch"], ["uninstall-torch"]) and (chosen or not operands):
        from . import distribution

        return distribution.command(command[0], operands[1] if chosen else None)
    print(USAGE, end="", file=sys.stderr)
    return 2
