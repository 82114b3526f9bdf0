"""Python files that come with a model, as modules.

Stands on the standard library; used by base and python_handlers.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types


def module_of(path: str) -> types.ModuleType:
    """The module in a file, whose folder is where it imports from."""
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise FileNotFoundError(f"there is no handler {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def classes_of(module: types.ModuleType) -> list[type]:
    """The classes that a module defines."""
    return [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
