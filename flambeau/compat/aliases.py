"""Modules made of the entries of `aliases.txt`. Stands on base, and on core.operator.unsupported for names that are only refused.

An entry is a module's name and what it is, and below it lines `place: names`:

    utils._example: what it is for
        base.example: name new=old *        names of a module of the package, imported with it; * all its public ones
        torch.linalg: linalg_...            what torch.linalg has, looked up when it is asked for; linalg_inv is inv
        absent: function | Class            names that raise NotImplementedError when they are used, with the advice ...
        instead: do something else          ... that stands here

A place that begins with `torch` is what programs see. An entry with others below its name is a package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from flambeau.base.naming import PACKAGE

TABLE = Path(__file__).with_name("aliases.txt")
ANYTHING = "..."


@dataclass
class Alias:
    """An entry: the module's name below the package, its documentation, and (place, names) in the order of the file."""

    name: str
    doc: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def said(self, word: str) -> str:
        """What stands behind `word:`; nothing if no line begins so."""
        return dict(self.lines).get(word, "")

    def names(self) -> Iterator[tuple[str, str, str]]:
        """(place, new name, old name) of every name, also of `*` and of what ends in `...`."""
        for place, words in self.lines:
            if place not in ("absent", "instead"):
                for word in words.split():
                    new, _, old = word.partition("=")
                    yield place, new, old or new


@functools.cache
def table() -> dict[str, Alias]:
    """The entries by name."""
    entries: dict[str, Alias] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        before, _, behind = line.partition(": ")
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            entry = entries[before] = Alias(before, behind)
        elif line.startswith(" " * 8):  # a line goes on
            place, words = entry.lines[-1]
            entry.lines[-1] = place, f"{words} {line.strip()}"
        else:
            entry.lines.append((before.strip(), behind))
    return entries


def spec_of(fullname: str) -> ModuleSpec | None:
    """The spec of a module that is an entry, None of any other."""
    name = fullname.partition(".")[2]
    entry = table().get(name)
    if entry is None:
        return None
    package = any(other.startswith(f"{name}.") for other in table())
    loader: Any = AliasLoader(entry)  # of importlib's protocol, without its base class
    spec = ModuleSpec(fullname, loader, origin=str(TABLE), is_package=package)
    spec.has_location = True  # so that __file__ says where the module is written
    return spec


def found(place: str) -> Any:
    """What a line names before its colon: a module of the package, or something of the namespace."""
    head, _, rest = place.partition(".")
    if head != "torch":
        return import_module(f"{PACKAGE}.{place}")
    return functools.reduce(getattr, rest.split(".") if rest else [], import_module(PACKAGE))


class AliasLoader:
    """Fills a module with what its entry says."""

    def __init__(self, entry: Alias) -> None:
        self.entry = entry

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: an ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        entry = self.entry
        module.__doc__ = f"torch.{entry.name}: {entry.doc}."
        listed: list[str] = []
        later: list[tuple[str, str]] = []  # prefixes, and where what they stand before is looked up
        for place, new, old in entry.names():
            if old.endswith(ANYTHING):
                later.append((old.removesuffix(ANYTHING), place))
                continue
            if f"{entry.name}.{new}" in table():  # a module below, which would take the name when it is imported later
                import_module(f"{module.__name__}.{new}")
            source = found(place)
            names = {name: name for name in _public(source)} if old == "*" else {new: old}
            taken = {name: _taken(source, theirs) for name, theirs in names.items()}
            vars(module).update(taken)
            listed += [name for name, thing in taken.items() if not isinstance(thing, ModuleType)]
        if entry.said("absent"):
            from flambeau.core.operator.unsupported import all_of

            functions, _, kinds = entry.said("absent").partition("|")
            vars(module).update(all_of(f"{entry.name}.", entry.said("instead"), functions, kinds))
        if listed:
            vars(module)["__all__"] = listed
        vars(module)["__getattr__"] = _attributes(module, later)


def _taken(source: Any, name: str) -> Any:
    """What `from source import name` takes."""
    try:
        return getattr(source, name)
    except AttributeError:
        raise ImportError(f"cannot import name {name!r} from {source.__name__!r}", name=source.__name__) from None


def _public(source: Any) -> list[str]:
    """What `from source import *` takes."""
    return list(getattr(source, "__all__", None) or (name for name in vars(source) if not name.startswith("_")))


def _attributes(module: ModuleType, later: list[tuple[str, str]]) -> Callable[[str], Any]:
    """The __getattr__ of a module: the modules below it, and what is looked up elsewhere."""
    own = module.__name__

    def look_up(name: str) -> Any:
        if f"{own}.{name}".partition(".")[2] in table():
            return import_module(f"{own}.{name}")
        for prefix, place in later:
            if name.startswith(prefix) and not name.startswith("__"):
                sought = getattr(found(place), name.removeprefix(prefix), None)
                if sought is not None:
                    return sought
        raise AttributeError(f"module {own!r} has no attribute {name!r}")

    return look_up
