"""torch.utils: the rooms beside the tensor library, imported when they are first used."""

from __future__ import annotations

import importlib as _importlib
import sys as _sys
import weakref as _weakref
from typing import Any as _Any

from flambeau.core.autograd.node import AccumulateGrad as _AccumulateGrad
from flambeau.core.modes.interception import is_watched as _is_watched
from flambeau.core.modes.interception import watch_again as _watch_again
from flambeau.core.modes.observing import settle as _settle
from flambeau.ops.tensor_methods.predicates import exchange_identities as _exchange_identities

_ROOMS = frozenset(
    (
        "_contextlib",
        "_dtype_abbrs",
        "_import_utils",
        "_mode_utils",
        "_python_dispatch",
        "_pytree",
        "_typing_utils",
        "benchmark",
        "bundled_inputs",
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
        "show_pickle",
        "tensorboard",
        "throughput_benchmark",
        "weak",
    )
)
_FIELDS = ("_storage", "_offset", "_layout", "_node", "_index", "_root", "_grad", "_resting", "_creation")
_UNSET = object()
cmake_prefix_path = None


def set_module(obj: _Any, mod: str) -> None:
    """Say that a class or function belongs to a module."""
    obj.__module__ = mod


def swap_tensors(t1: _Any, t2: _Any) -> None:
    """Exchange what two tensors are: every reference to one then shows the other.

    RuntimeError for a tensor that has weak references. A graph that was built before and reaches one of them raises
    RuntimeError in its backward pass.
    """
    _settle()
    ends = [tensor._node if isinstance(tensor._node, _AccumulateGrad) else None for tensor in (t1, t2)]
    for name, tensor, end in (("t1", t1, ends[0]), ("t2", t2, ends[1])):
        # the end of the graph has one of its own: the object that weakref.ref gives to everybody
        own = end is not None
        if _weakref.getweakrefcount(tensor) > own + _is_watched(tensor) or (own and _sys.getrefcount(end.reference) > 2):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    _exchange_identities(t1, t2)
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
    for tensor in (t1, t2):
        _watch_again(tensor)
    for tensor, end in ((t1, ends[1]), (t2, ends[0])):
        if end is not None:  # an end of the graph knows its leaf, which is another object now
            tensor._node = end.renewed(tensor)
            end.reference = _poisoned


def _poisoned() -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors; this can happen when you try to run backward "
        "on a tensor that was swapped. For a module m with `torch.__future__.set_swap_module_params_on_conversion(True)` you "
        "should not change the device or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and "
        "backward. To resolve this, please only change the device/dtype before running forward (or after both forward and "
        "backward)."
    )


def __getattr__(name: str) -> _Any:
    if name in _ROOMS:
        return _importlib.import_module(f"flambeau.utils.{name}")
    if name == "ThroughputBenchmark":
        return _importlib.import_module("flambeau.utils.throughput_benchmark").ThroughputBenchmark
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
