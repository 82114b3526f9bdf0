"""What docstrings of modules say of who uses them is so: each module that "used by" names imports it, be it in a function.

A name is the path of a module (`core.autograd.node`, `torch.export`), or a word that is the name of a module beside the one that
says it; other words are prose. A package uses what a module in it imports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import docstring
from test_architecture import PACKAGE, imports

CLAIM = re.compile(r"\b[Uu]sed by ((?:[^.;:]|\.(?=\w))*)")
ASIDE = re.compile(r"\([^)]*\)")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


class Tree:
    """The modules of a package by name: their texts, and which of them are packages."""

    def __init__(self, sources: dict[str, str], packages: set[str]) -> None:
        self.sources, self.packages, self.known = sources, packages, set(sources)
        self._imported: dict[str, set[str]] = {}

    def imported(self, module: str) -> set[str]:
        """What a module imports."""
        if module not in self._imported:
            found = imports(self.sources[module], module, module in self.packages, self.known)
            self._imported[module] = {each.target for each in found}
        return self._imported[module]

    def named(self, module: str, claim: str) -> Iterator[str]:
        """The modules that a claim in a module's docstring names."""
        here = module.split(".")
        for name in NAME.findall(ASIDE.sub("", claim)):
            path = name.removeprefix("torch.").removeprefix(f"{PACKAGE}.")
            beside = here if module in self.packages else here[:-1]
            places = [".".join([*beside, name])]
            if path != name or "." in name:
                places = [f"{PACKAGE}.{path}", *(".".join([*here[:depth], path]) for depth in range(len(here) - 1, 1, -1))]
            yield from [place for place in places if place in self.sources and place != module][:1]

    def uses(self, user: str, module: str) -> bool:
        """Whether a module, or one in a package, imports another, or takes it from the package that it is in."""
        parent, _, leaf = module.rpartition(".")
        for one, source in self.sources.items():
            if leaf in source and (one == user or one.startswith(f"{user}.")):
                targets = self.imported(one)
                if any(target == module or target.startswith(f"{module}.") for target in targets):
                    return True
                if parent in targets and re.search(rf"\b{leaf}\b", source):
                    return True
        return False

    def untrue(self) -> Iterator[str]:
        """The claims that don't hold."""
        for module, source in self.sources.items():
            if "sed by" not in source:
                continue
            for claim in CLAIM.findall(" ".join((docstring(source) or "").split())):
                for user in self.named(module, claim):
                    if not self.uses(user, module):
                        yield f"{module} says that it is used by {user}, which doesn't import it"


def test_every_module_that_is_said_to_use_another_imports_it(root: Path) -> None:
    sources, packages = {}, set()
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sources[module] = path.read_text()
        if parts[-1] == "__init__":
            packages.add(module)
    found = list(Tree(sources, packages).untrue())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "untrue"),
    [
        ("Used by user.", 0),
        ("Used by other.", 1),
        ("Stands on nothing; used by user and other (which reads it).", 1),
        ("Used by a.other and by torch.a.user.", 1),
        ("Used by lazy.", 0),
        ("Used by through.", 0),
        ("Used by programs, and by whoever wants it.", 0),
        ("Not used. By other.", 0),
    ],
)
def test_a_claim_that_is_not_so_is_found(text: str, untrue: int) -> None:
    sources = {
        "flambeau": "",
        "flambeau.a": "",
        "flambeau.a.thing": f'"""{text}"""',
        "flambeau.a.user": "from flambeau.a.thing import x",
        "flambeau.a.other": "import math",
        "flambeau.a.lazy": "def f():\n    from flambeau.a import thing",
        "flambeau.a.through": "import flambeau.a as a\na.thing.x",
    }
    assert len(list(Tree(sources, {"flambeau", "flambeau.a"}).untrue())) == untrue
