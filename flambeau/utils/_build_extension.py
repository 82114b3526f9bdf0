"""The step of setuptools that would compile a package's libraries: it writes files that have their names."""

from __future__ import annotations

import os
from typing import Any

from setuptools.command.build_ext import build_ext

_TEXT = "The operators of this library are flambeau's own: torch.ops.load_library knows it by its name.\n"


class BuildExtension(build_ext):
    """setuptools' `build_ext` for what `torch.utils.cpp_extension.CppExtension` gives."""

    no_python_abi_suffix = False

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The class with options: no_python_abi_suffix, for libraries that are called `name.so`; others matter to compilers."""
        suffix = bool(options.get("no_python_abi_suffix", cls.no_python_abi_suffix))
        return type(cls.__name__, (cls,), {"no_python_abi_suffix": suffix})

    def get_ext_filename(self, fullname: str) -> str:
        """The path of a library below the folder of packages."""
        name = super().get_ext_filename(fullname)
        parts = name.split(".")
        return ".".join([*parts[:-2], parts[-1]]) if self.no_python_abi_suffix and len(parts) > 2 else name

    def build_extensions(self) -> None:
        """Write a file in the place of each library."""
        for extension in self.extensions:
            path = self.get_ext_fullpath(extension.name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(_TEXT)
