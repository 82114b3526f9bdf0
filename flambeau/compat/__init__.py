"""Places of PyTorch that only name what lives elsewhere: `torch._library.custom_ops`, `torch.distributed._tensor`.

`aliases.txt` lists them, and there are no files of theirs: the finder below, which is asked where there is no file, makes such a
module when it is imported first. Programs import them as any other; the package itself imports everything from where it is.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

HEAD = __name__.removesuffix("compat")  # "flambeau.", or "torch." where that is the package's name


class AliasFinder:
    """Finds the modules of `aliases.txt`, which is read when a module of the package is asked for that has no file."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(HEAD):
            return None
        from flambeau.compat.aliases import spec_of

        return spec_of(fullname)


# Behind the finder of files, but before any that may know an older tree of the package, as those of editable installations do.
sys.meta_path.insert(sys.meta_path.index(PathFinder) + 1 if PathFinder in sys.meta_path else len(sys.meta_path), AliasFinder)
