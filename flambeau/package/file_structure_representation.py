"""The files of a package as a tree that can be printed."""

from __future__ import annotations

from collections.abc import Iterable

from flambeau.base.naming import public_module
from flambeau.package.glob_group import GlobGroup, GlobPattern

__all__ = ["Directory"]


class Directory:
    """A file or a folder of a package; `children` are what a folder holds, by name."""

    __module__ = public_module("package.file_structure_representation")

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name, self.is_dir = name, is_dir
        self.children: dict[str, Directory] = {}

    def _get_dir(self, dirs: list[str]) -> Directory:
        """The folder at a path below, which is made where it isn't there."""
        found = self
        for name in dirs:
            if name not in found.children:
                found.children[name] = Directory(name, True)
            found = found.children[name]
        return found

    def _add_file(self, file_path: str) -> None:
        *folders, name = file_path.split("/")
        self._get_dir(folders).children[name] = Directory(name, False)

    def has_file(self, filename: str) -> bool:
        """Whether there is a file of that path, from here."""
        found: Directory | None = self
        for name in filename.split("/"):
            found = found.children.get(name) if found is not None else None
        return found is not None

    def __str__(self) -> str:
        lines: list[str] = []
        self._stringify_tree(lines)
        return "".join(lines)

    def _stringify_tree(self, str_list: list[str], preamble: str = "", dir_ptr: str = "─── ") -> None:
        """Append this and what is below as lines, folders before files."""
        str_list.append(f"{preamble}{dir_ptr}{self.name}\n")
        if dir_ptr == "└── " or dir_ptr == "─── ":
            preamble += "    "
        else:
            preamble += "│   "
        below = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in below:
            child._stringify_tree(str_list, preamble, "└── " if child is below[-1] else "├── ")


def _create_directory_from_file_list(
    filename: str, file_list: Iterable[str], include: GlobPattern = "**", exclude: GlobPattern = ()
) -> Directory:
    """The tree of those files of a list that patterns of paths choose."""
    chosen = GlobGroup(include, exclude=exclude, separator="/")
    top = Directory(filename, True)
    for file in file_list:
        if chosen.matches(file):
            top._add_file(file)
    return top
