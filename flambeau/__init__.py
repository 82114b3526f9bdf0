"""flambeau: an independent implementation of PyTorch; `import flambeau as torch`.

The namespace of torch: operators come from `flambeau.ops` (each registers itself), types and switches from base and core, and the
rooms (nn, optim, utils, ...) are imported when they are first used.
"""

from __future__ import annotations

import gc as _gc
import importlib as _importlib
from typing import Any as _Any

# Thousands of functions are made here, and none of them is garbage that would have to be looked for: what there is becomes the
# oldest generation, which freezing and unfreezing does without looking.
_collects = _gc.isenabled()
_gc.disable()
try:
    from flambeau import ops as _ops

    if not _gc.get_freeze_count():
        _gc.freeze()
        _gc.unfreeze()
finally:
    if _collects:
        _gc.enable()
del globals()["ops"]  # the package of operators; torch.ops is the tree of their names, found below

from flambeau.base import dtype as _dtypes
from flambeau.base import qscheme as _qschemes
from flambeau import compat as _compat
from flambeau.base.flags import flags as _flags
from flambeau.base.naming import adopt as _adopt
from flambeau.base.device import device, get_default_device, set_default_device
from flambeau.base.dtype import can_cast, dtype, finfo, get_default_dtype, iinfo, promote_types, set_default_dtype
from flambeau.base.layout import (
    Size,
    _mkldnn,
    channels_last,
    channels_last_3d,
    contiguous_format,
    jagged,
    layout,
    memory_format,
    preserve_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from flambeau.core.operator import publishing as _publishing
from flambeau.core.modes import interception as _interception
from flambeau.core.modes import overrides as _overrides
from flambeau.core.tensor import storage_types as _storage_types
from flambeau.core.modes.modes import (
    autocast,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from flambeau.core.tensor.printing import set_printoptions
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.modes.threads import get_num_interop_threads, get_num_threads, set_num_interop_threads, set_num_threads
from flambeau.version import __version__

globals().update(_dtypes.all_dtypes())
globals().update(_qschemes.SCHEMES, qscheme=_qschemes.qscheme)
_overrides.ask_everywhere(
    _publishing.NAMESPACE,
    never=(
        "tensor",
        "scalar_tensor",
        "as_tensor",
        "asarray",
        "from_numpy",
        "frombuffer",
        "empty",
        "empty_strided",
        "full",
        "zeros",
        "ones",
        "arange",
        "rand",
        "randn",
        "randint",
        "is_tensor",
        "from_dlpack",
        "cat",
        "stack",
        "reshape",
        "permute",
        "transpose",
        "clone",
        "numel",
    ),
)
globals().update(_publishing.NAMESPACE)
_adopt(globals(), _publishing.NAMESPACE)
_publishing.separate_methods()
_publishing.save_code()

from math import e, inf, nan, pi

_interception.load = lambda: _importlib.import_module(f"{__name__}.dispatcher.dispatch_modes")
_storage_types.files = lambda: _importlib.import_module(f"{__name__}.serialization")
newaxis = None
torch_function_names = tuple(_publishing.NAMESPACE)

_ROOMS = frozenset(
    (
        "amp",
        "autograd",
        "backends",
        "cuda",
        "distributed",
        "fft",
        "func",
        "hub",
        "jit",
        "linalg",
        "nn",
        "onnx",
        "functional",
        "fx",
        "optim",
        "overrides",
        "profiler",
        "quantization",
        "random",
        "return_types",
        "serialization",
        "signal",
        "monitor",
        "nested",
        "package",
        "sparse",
        "special",
        "storage",
        "testing",
        "types",
        "utils",
        "version",
        "compiler",
        "export",
        "multiprocessing",
        "mps",
        "xpu",
        "accelerator",
        "_C",
        "_tensor",
        "ao",
        "cpu",
        "distributions",
        "masked",
        "__config__",
        "_jit_internal",
        "_utils_internal",
        "_tensor_str",
        "_utils",
        "futures",
        "mtia",
        "torch_version",
        "_dynamo",
        "_higher_order_ops",
        "_inductor",
        "library",
        "_ops",
        "_library",
        "_export",
        "_custom_op",
        "_custom_ops",
        "_refs",
        "_lobpcg",
        "_prims_common",
        "numa",
        "__future__",
        "_VF",
        "_functorch",
        "_vmap_internals",
        "_linalg_utils",
        "quasirandom",
        "_subclasses",
        "_guards",
        "_prims",
        "_decomp",
        "_dispatch",
        "_python_dispatcher",
    )
)
_FROM_ROOMS = {
    "save": "serialization",
    "load": "serialization",
    "manual_seed": "random",
    "seed": "random",
    "initial_seed": "random",
    "get_rng_state": "random",
    "set_rng_state": "random",
    "Generator": "random",
    "default_generator": "random",
    "compile": "compiler_api",
    "autocast_mode": "amp",
    "thread_safe_generator": "random",
    "vmap": "func",
    "lobpcg": "_lobpcg",
    "ops": "_ops",
}


def __getattr__(name: str) -> _Any:
    """Rooms of the namespace, imported at first use."""
    if name in _ROOMS or name in _FROM_ROOMS.values():
        try:
            return _importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"{__name__}.{name}":
                raise
    elif name == "__all__":
        return [each for each in __dir__() if not each.startswith("_") and each not in _ROOMS]
    elif name in _FROM_ROOMS:
        value = globals()[name] = getattr(__getattr__(_FROM_ROOMS[name]), name)
        return value
    elif not name.startswith("__"):
        value = globals()[name] = getattr(_importlib.import_module("flambeau.namespace"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")


def __dir__() -> list[str]:
    """What the namespace offers, loaded or not: the folders of this package that are no rooms of torch are left out."""
    rare = dir(_importlib.import_module("flambeau.namespace"))
    inner = {
        "annotations",
        "base",
        "codegen",
        "compat",
        "core",
        "ir",
        "namespace",
        "torch_function_names",
        "transform",
        "dispatcher",
    }
    return sorted({*globals(), *_ROOMS, *_FROM_ROOMS, *rare} - inner)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype of `input` is a floating point type."""
    try:
        return input.is_floating_point()
    except AttributeError:
        return _overrides.answered_by(is_floating_point, (input,))


def is_complex(input: Tensor) -> bool:
    """Whether the dtype of `input` is a complex type."""
    try:
        return input.is_complex()
    except AttributeError:
        return _overrides.answered_by(is_complex, (input,))


def numel(input: Tensor) -> int:
    """The number of elements."""
    try:
        return input.numel()
    except AttributeError:
        return _overrides.answered_by(numel, (input,))


if _flags.debug >= 1:
    from flambeau.core.modes.op_log import narrate as _narrate

    _narrate().__enter__()
