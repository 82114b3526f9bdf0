"""Where the modules that a package can't hold are first needed."""

from __future__ import annotations

from flambeau.package.dependencies import PackagingError

__all__ = ["find_first_use_of_broken_modules"]


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """Per module that an error says is broken, a path of modules that leads to it. TypeError for another exception."""
    if not isinstance(exc, PackagingError):
        raise TypeError("exception must be a PackagingError")
    graph = exc.dependency_graph
    return {name: graph.first_path(name) for name, attributes in graph.nodes.items() if attributes.get("error") is not None}
