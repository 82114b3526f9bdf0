"""torch.jit.load and torch.jit.save.

Stands on the room `archive`, which is loaded when either is called.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

__all__ = ["load", "save"]


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a program, made by trace, script or load, so that torch.jit.load reads it, here and in PyTorch.

    f: a path, or a binary file object with `write`. _extra_files: contents (text or bytes) by name, written beside it.
    """
    warnings.warn("`torch.jit.save` is deprecated. Please switch to `torch.export`.", DeprecationWarning)
    if isinstance(f, (str, os.PathLike)):
        m.save(f, _extra_files=_extra_files or {})
    else:
        f.write(m.save_to_buffer(_extra_files=_extra_files or {}))


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """The module of a program that torch.jit.save wrote, here or in PyTorch.

    f: a path, or a binary file object with read, readline, tell and seek. map_location: "cpu", "meta" or such a torch.device.
    _extra_files: a dict whose keys are names of extra files; it gets their contents as bytes.

    Nothing in a file is ever executed by Python: its code is compiled to graphs of known operators. Raises ValueError for a path
    where no file is, RuntimeError for a file that is damaged, hostile or no program.
    """
    warnings.warn("`torch.jit.load` is deprecated. Please switch to `torch.export`.", DeprecationWarning)
    from flambeau.jit.archive.loading import load as read

    return read(f, map_location, _extra_files)
