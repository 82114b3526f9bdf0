"""What an exporter does with modules: the actions, the errors, and the text of those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from flambeau.base.naming import public_module
from flambeau.package._digraph import DiGraph

__all__ = ["EmptyMatchError", "PackagingError", "PackagingErrorReason"]

#: Modules of the standard library that are not taken from the environment unless a package says so.
DISALLOWED = ("sys", "io")


class _ModuleProviderAction(Enum):
    INTERN = auto()
    EXTERN = auto()
    MOCK = auto()
    DENY = auto()
    REPACKAGED_MOCK_MODULE = auto()
    SKIP = auto()


class PackagingErrorReason(Enum):
    """Why a module can't be in a package."""

    __module__ = public_module("package.package_exporter")

    IS_EXTENSION_MODULE = "Module is a C extension module. torch.package supports Python modules only."
    NO_DUNDER_FILE = "Module had no __file__ defined."
    SOURCE_FILE_NOT_FOUND = "Module had a __file__, but we could not find it in your filesystem."
    DEPENDENCY_RESOLUTION_FAILED = "Dependency resolution failed."
    NO_ACTION = "Module did not match against any action pattern. Extern, mock, or intern it."
    DENIED = "Module was denied by a pattern."
    MOCKED_BUT_STILL_USED = (
        "Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if objects "
        "are supposed to be in the package."
    )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}>"


@dataclass
class _PatternInfo:
    """What was said of a pattern's modules: the action, whether none may match, and whether one has matched."""

    action: _ModuleProviderAction
    allow_empty: bool
    was_matched: bool = False


Hook = Callable[[Any, str], None]


class EmptyMatchError(Exception):
    """No module matched a pattern that was given with allow_empty=False."""

    __module__ = public_module("package.package_exporter")


class PackagingError(Exception):
    """Modules that a package needs can't be in it; `dependency_graph` is the graph that says so.

    debug: the text shows for each of them a path of modules that leads to it.
    """

    __module__ = public_module("package.package_exporter")

    def __init__(self, dependency_graph: DiGraph, debug: bool = False) -> None:
        self.dependency_graph = dependency_graph
        broken: dict[PackagingErrorReason, list[str]] = {}
        for name, attributes in dependency_graph.nodes.items():
            if attributes.get("error") is not None:
                broken.setdefault(attributes["error"], []).append(name)
        lines = [""]
        for reason, modules in broken.items():
            lines.append(f"* {reason.value}")
            for name in modules:
                lines.append(f"    {name}")
                context = dependency_graph.nodes[name].get("error_context")
                if context is not None:
                    lines.append(f"      Context: {context}")
                if name in DISALLOWED:
                    lines.append(
                        "      Note: While we usually use modules in the python standard library from the local environment, "
                        f"`{name}` has a lot of system level access and therefore can pose a security risk. We heavily recommend "
                        f"removing `{name}` from your packaged code. However, if that is not possible, add it to the extern list "
                        f'by calling PackageExporter.extern("`{name}`")'
                    )
                if debug:
                    lines.append(f"      A path to {name}: {' -> '.join(dependency_graph.first_path(name))}")
        if not debug:
            lines += [
                "",
                "Set debug=True when invoking PackageExporter for a visualization of where broken modules are coming from!",
            ]
        super().__init__("\n".join(lines) + "\n")
