"""Names of modules of packages: each importer puts a parent of its own in front, `<torch_package_0>`, so that classes of the same
name from different packages are told apart.
"""

from __future__ import annotations

import itertools
import re

from flambeau.base.naming import public_module

__all__ = ["PackageMangler", "demangle", "get_mangle_prefix", "is_mangled"]

_MANGLED = re.compile(r"<torch_package_\d+>")
_numbers = itertools.count()


class PackageMangler:
    """Puts a parent that no other mangler has in front of names."""

    __module__ = public_module("package._mangling")

    def __init__(self) -> None:
        self._mangle_parent = f"<torch_package_{next(_numbers)}>"

    def mangle(self, name: str) -> str:
        """The name below the parent."""
        assert name, "a module without a name can't be mangled"
        return f"{self._mangle_parent}.{name}"

    def demangle(self, mangled: str) -> str:
        """The name that this mangler made the other of; other names are returned unchanged."""
        return mangled.partition(".")[2] if mangled.startswith(self._mangle_parent + ".") else mangled

    def parent_name(self) -> str:
        """The parent."""
        return self._mangle_parent


def is_mangled(name: str) -> bool:
    """Whether some mangler made the name."""
    return bool(_MANGLED.match(name))


def demangle(name: str) -> str:
    """The name without a mangler's parent; of the parent itself an empty text."""
    return name.partition(".")[2] if is_mangled(name) else name


def get_mangle_prefix(name: str) -> str:
    """The parent that a mangler put in front of a name; the name itself if none did."""
    return name.partition(".")[0] if is_mangled(name) else name
