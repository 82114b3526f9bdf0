"""torch.utils: the rooms beside the tensor library, imported when they are first used."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

_ROOMS = frozenset(
    (
        "_contextlib",
        "_import_utils",
        "_mode_utils",
        "_python_dispatch",
        "_pytree",
        "_typing_utils",
        "benchmark",
        "checkpoint",
        "collect_env",
        "cpp_extension",
        "data",
        "deterministic",
        "dlpack",
        "flop_counter",
        "hooks",
        "mobile_optimizer",
        "model_zoo",
        "module_tracker",
        "tensorboard",
        "weak",
    )
)
_FIELDS = ("_storage", "_offset", "_layout", "_node", "_index", "_root", "_grad", "_hooks", "_creation")
_UNSET = object()
cmake_prefix_path = None


def set_module(obj: _Any, mod: str) -> None:
    """Say that a class or function belongs to a module."""
    obj.__module__ = mod


def swap_tensors(t1: _Any, t2: _Any) -> None:
    """Exchange what two tensors are: every reference to one then shows the other."""
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    for tensor, attributes in ((t1, second), (t2, first)):
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
    for name in _FIELDS:
        values = getattr(t1, name, _UNSET), getattr(t2, name, _UNSET)
        for tensor, value in ((t1, values[1]), (t2, values[0])):
            if value is not _UNSET:
                setattr(tensor, name, value)
            elif getattr(tensor, name, _UNSET) is not _UNSET:
                delattr(tensor, name)


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return _importlib.import_module(f"flambeau.utils.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
