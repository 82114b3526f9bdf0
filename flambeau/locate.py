"""Where an operator lives: its declaration, derivative rule, generated variants and last compiled code.

Stands on the torch namespace and `inspect`; used by `flambeau where`. Generated functions are registered with
`linecache` by the room that makes them, so `inspect` finds their source like any other.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from .version import FLAMBEAU

PACKAGE = __name__.partition(".")[0]
PLACES = ("", "Tensor.", "nn.functional.", "nn.", "linalg.", "fft.", "special.", "optim.", "optim.lr_scheduler.")


def resolve(path: str) -> Any:
    """The object that a dotted path below the torch namespace names, or None."""
    found: Any = importlib.import_module(PACKAGE)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def found_objects(name: str) -> Iterator[tuple[str, Any]]:
    """Every public path that `name` stands for, with what is there; an object reached by two paths comes once."""
    seen: set[int] = set()
    for place in PLACES:
        thing = resolve(place + name)
        if thing is not None and id(thing) not in seen and not inspect.ismodule(thing):
            seen.add(id(thing))
            yield place + name, thing


def source_of(thing: Any) -> tuple[str, str]:
    """(file:line, source) of a Python object; raises TypeError or OSError where there is none."""
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) and thing.fget else thing)
    lines, first = inspect.getsourcelines(thing)
    return f"{inspect.getsourcefile(thing)}:{first}", "".join(lines)


def show(name: str) -> int:
    """Print what is known of an operator; returns the exit status of `flambeau where`."""
    name = name.removeprefix("torch.").removeprefix(f"{PACKAGE}.")
    objects = list(found_objects(name))
    if not objects:
        print(f"flambeau {FLAMBEAU} has nothing called {name!r}", file=sys.stderr)
        return 1
    for path, thing in objects:
        try:
            place, source = source_of(thing)
        except (TypeError, OSError):
            place, source = type(thing).__name__, f"{thing!r}\n"
        print(f"torch.{path}  {place}\n\n{source}")
    return 0
