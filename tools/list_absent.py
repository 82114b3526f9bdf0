"""Write docs/not_implemented.md: the names of PyTorch that flambeau has only so that programs can import and test for them.

    python tools/list_absent.py [--check]      --check: exit with 1 where the file isn't what would be written

Imports every module of the package, since names are made where they belong; core.operator.unsupported remembers them.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import warnings
from itertools import groupby
from pathlib import Path
from textwrap import fill

import flambeau
from flambeau.compat.aliases import table
from flambeau.core.operator import unsupported as absent

LIST = Path(__file__).resolve().parent.parent / "docs" / "not_implemented.md"
HEAD = """\
# Names without an implementation

PyTorch has these; here they exist so that programs can import them, test `isinstance` against them and catch them. Calling one
raises `NotImplementedError` with the advice that stands beside it. Written by `python tools/list_absent.py`.
"""
# Modules that are a face of another package, and say so.
NEEDS_A_PACKAGE = {"flambeau.utils._cxx_pytree", "flambeau.utils._build_extension"}


def import_everything() -> None:
    """Import all modules but the commands, which run when they are imported."""
    for module in pkgutil.walk_packages(flambeau.__path__, "flambeau."):
        if module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError:
            if module.name not in NEEDS_A_PACKAGE and ".tensorboard" not in module.name:
                raise
    for name in table():
        importlib.import_module(f"flambeau.{name}")


def text() -> str:
    """The file."""
    rooms = sorted((name.rpartition(".")[0], advice, name.rpartition(".")[2]) for name, advice in absent.ADVICE.items())
    parts = [HEAD]
    for room, entries in groupby(rooms, key=lambda entry: entry[0]):
        parts.append(f"\n## `torch{room and '.' + room}`\n\n")
        for advice, names in groupby(entries, key=lambda entry: entry[1]):
            listed = " ".join(f"`{name}`" for _, _, name in names)
            parts.append(fill(f"- {listed}: {advice}.", 128, subsequent_indent="  ", break_on_hyphens=False) + "\n")
    return "".join(parts)


def main() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_everything()
    wanted = text()
    if "--check" in sys.argv[1:]:
        return int(not LIST.exists() or LIST.read_text() != wanted)
    LIST.write_text(wanted)
    print(f"{LIST}: {len(absent.ADVICE)} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
