"""torch._ops and torch.ops: the operators by name, and `torch.ops.load_library`. A face over dispatcher.

A shared library that PyTorch would load registers operators from C++, against PyTorch's own C++ classes; flambeau has
none of these. Of libraries whose operators it has itself (torchvision's, torchaudio's, ...) loading registers those.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from flambeau import extensions
from flambeau.core.modes.modes import local
from flambeau.dispatcher.higher_order import ANSWERS
from flambeau.dispatcher.keys import DispatchKey
from flambeau.dispatcher.namespaces import Namespace as _OpNamespace
from flambeau.dispatcher.namespaces import Ops as _Ops
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.overloads import HigherOrderOperator, OperatorBase, OpOverload, OpOverloadPacket

__all__ = ["DispatchKey", "HigherOrderOperator", "OpOverload", "OpOverloadPacket", "OperatorBase", "_OpNamespace", "_Ops", "ops"]

_NO_ABI = (
    "flambeau has no C++ ABI, so a library's compiled operators can't be loaded; define them in Python with "
    "torch.library.custom_op, or use the library's fallback in Python"
)


def load_library(path: Any) -> None:
    """Register the operators of a shared library that flambeau has itself (`flambeau.extensions` lists them).

    OSError for any other, and if there is no such file.
    """
    path = os.path.realpath(os.fspath(path))
    if not os.path.exists(path):
        raise OSError(f"Could not load this library: {path}")
    library = extensions.known(path)
    if library is None:
        raise OSError(f"Could not load this library: {path}: {_NO_ABI}")
    if path not in ops.loaded_libraries:
        extensions.register(library)
        ops.loaded_libraries.add(path)


def _register_profiler() -> None:
    importlib.import_module("flambeau.profiler.operators").register()


def _register_prims() -> None:
    importlib.import_module("flambeau._prims")


def _register_quantized() -> None:
    importlib.import_module("flambeau.quantized_ops").register()


def _register_decomposed() -> None:
    importlib.import_module("flambeau.ao.quantization.fx._decomposed")


def _checkpointed(gmod: Any, *args: Any, **kwargs: Any) -> Any:
    """gmod(*args), of which backward keeps the arguments and computes the rest again: torch.utils.checkpoint.checkpoint."""
    recorders = [mode for mode in local.dispatch_modes if hasattr(mode, "run_to_recompute")]
    if recorders:  # the partition of the graph sees to it
        return recorders[-1].run_to_recompute(gmod, args)
    run = getattr(gmod, "forward", gmod)  # a graph's __call__ would tell of the exception that ends the second run early
    checkpoint = importlib.import_module("flambeau.utils.checkpoint").checkpoint
    return checkpoint(run, *args, **{**kwargs, "use_reentrant": False})


ANSWERS["tag_activation_checkpoint"] = _checkpointed
ops.__dict__["load_library"] = load_library
ops.registrations["quantized_decomposed"] = _register_decomposed
ops.registrations["prims"] = _register_prims
ops.registrations["profiler"] = _register_profiler
ops.registrations["quantized"] = ops.registrations["_quantized"] = _register_quantized
