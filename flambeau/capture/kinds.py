"""What capture tells apart: kinds of objects, and whose code a function is.

Stands on builtins.py and the public classes; used by the rooms' other files.
"""

from __future__ import annotations

import collections
import enum
import sysconfig
from types import (
    BuiltinFunctionType,
    CodeType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, Generic, NamedTuple

import numpy as np

import flambeau as torch
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Size
from flambeau.capture.builtins import CONTAINERS, SCALARS

_PACKAGE = torch.__file__.rsplit("/", 1)[0] + "/"
#: This room, and what it stands on, whose functions are called between those of a call.
OWN = tuple(
    _PACKAGE + place for place in ("capture/", "codegen/runtime/guards.py", "codegen/runtime/call_watch.py", "codegen/programs/")
)
_STANDARD_LIBRARY = (sysconfig.get_path("stdlib") + "/", "<frozen ")
_INSTALLED = tuple({sysconfig.get_path("purelib") + "/", sysconfig.get_path("platlib") + "/"})
_NUMPY = str(np.__file__).rsplit("/", 1)[0] + "/"
#: Rooms whose functions read nothing but arguments, modes and settings; the rest of flambeau is instrumented like a program.
_ROOMS = "base ir codegen core ops transform dispatcher compiler".split()
_TRUSTED = (
    *(_PACKAGE + room + "/" for room in _ROOMS),
    _PACKAGE + "nn/parameter.py",
    _PACKAGE + "optim/update.py",
    _PACKAGE + "jit/tracing/current.py",
)
#: Whose functions that trusted ones call make errors, of what isn't there.
OF_ABSENT_DEVICES = frozenset(_PACKAGE + name for name in ("cuda/__init__.py", "xpu.py", "mtia.py", "mps.py", "accelerator.py"))
TENSORS: frozenset[Any] = frozenset((torch.Tensor, torch.nn.Parameter, torch.nn.Buffer))
IMMUTABLE = SCALARS | {DType, Size, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo, property}
#: Those of them of which equal ones are one object.
SINGLE = {bool, type(None), type(Ellipsis), type(NotImplemented), DType, torch.layout, torch.memory_format}
FIELDS = type(vars(NamedTuple("Pair", [("first", int)]))["first"])
SLOTS = (GetSetDescriptorType, MemberDescriptorType)
C_FUNCTIONS = (BuiltinFunctionType, MethodWrapperType, MethodDescriptorType, WrapperDescriptorType)
#: Functions of the trusted rooms that give something else than tensors, and what they read is in the key of a call, or pinned.
OF_LAYOUT = frozenset(
    "size stride dim ndimension numel nelement element_size is_contiguous is_floating_point is_complex is_signed is_conj is_neg "
    "is_tensor is_same_size get_device type_as result_type promote_types can_cast broadcast_shapes is_storage "
    "is_grad_enabled is_inference_mode_enabled is_inference get_default_dtype get_num_threads is_autocast_enabled "
    "is_autocast_cpu_enabled get_autocast_dtype get_autocast_cpu_dtype are_deterministic_algorithms_enabled "
    "is_autocast_cache_enabled set_grad_enabled is_compiling is_dynamo_compiling is_exporting is_tracing current is_scripting "
    "has_torch_function has_torch_function_unary has_torch_function_variadic __len__ __hash__ _set_grad_enabled "
    "fits check_softshrink _check _check_index _check_is_size _check_not_implemented _check_type _check_value".split()
)
#: Functions that give tensors, and yet read more of a tensor than guards and the key know: where in its storage it begins.
OF_PLACES = frozenset("as_strided as_strided_ as_strided_copy as_strided_scatter set_ resize_ resize_as_ share_memory_".split())
#: What gives Python a value of a tensor.
READERS = {
    getattr(torch.Tensor, name).__code__
    for name in "item tolist numpy data_ptr __bool__ __int__ __float__ __complex__ __index__ __repr__ __format__".split()
}
#: Attributes of tensors that follow from what guards and the key know, and those that are tensors made of it.
ATTRIBUTES = frozenset(
    "shape dtype device ndim layout _layout requires_grad itemsize nbytes is_sparse is_quantized is_cpu is_cuda is_meta "
    "is_nested is_mkldnn is_sparse_csr is_mps is_xpu is_vulkan is_ipu is_xla is_maia is_mtia T mT H mH real imag data "
    "__class__".split()
)
#: What functions of the trusted rooms may be given beside immutable values and containers.
HANDED_OVER = (torch.Tensor, torch.Generator, type, enum.Enum)
#: Contexts of flambeau's own that change the thread's modes until they are left, and keep nothing else.
MODES: frozenset[Any] = frozenset(
    (torch.no_grad, torch.enable_grad, torch.inference_mode, torch.set_grad_enabled, torch.autocast)
)
ABSENT: Any = object()
SHORTENS_TRACEBACKS = _PACKAGE + "base/tracebacks.py"  # whose wrappers do nothing else
#: What reads attributes as `object` does.
GENERIC_READERS = {vars(cls).get("__getattribute__") for cls in (object, SimpleNamespace, BaseException, *CONTAINERS)} - {None}


def is_trusted(code: CodeType) -> bool:
    """Whether a function belongs to a trusted room, or was generated by one."""
    return code.co_filename.startswith(("<flambeau", *_TRUSTED))


def is_written_for_trusted(frame: Any) -> bool:
    """Whether a frame is of a function that a library, dataclasses say, wrote for a module of a trusted room."""
    own = str(frame.f_globals.get("__file__", "")).startswith(_TRUSTED)
    return own and frame.f_code.co_filename == "<string>"


def is_of_a_library(code: CodeType) -> bool:
    """Whether a function is of what trusted rooms use: Python's library, or NumPy."""
    name = code.co_filename
    return name.startswith(_NUMPY) or (name.startswith(_STANDARD_LIBRARY) and not name.startswith(_INSTALLED))


def is_of_namedtuple(names: dict[str, Any]) -> bool:
    """Whether these are the globals of a constructor that collections.namedtuple wrote."""
    return str(names.get("__name__", "")).startswith("namedtuple_")


def is_record(cls: type) -> bool:
    """Whether all of an object is its elements and its dict, which are compared when it is given to a call: named tuples,
    dataclasses, those among them that are dicts.
    """
    if issubclass(cls, tuple):
        named = is_of_namedtuple(getattr(cls.__new__, "__globals__", {}))
        return cls.__mro__[1:] == (tuple, object) and named
    return "__dataclass_fields__" in cls.__dict__ and _keeps_a_dict_and(cls, dict, collections.OrderedDict)


def is_plain(cls: type) -> bool:
    """Whether all of an object is its dict, and it isn't of what stays: modules, optimizers, members of enums."""
    return not issubclass(cls, (torch.nn.Module, torch.optim.Optimizer, enum.Enum)) and _keeps_a_dict_and(cls)


def _keeps_a_dict_and(cls: type, *bases: type) -> bool:
    """Whether an object of a class is a dict of attributes, what these bases keep, and nothing else."""
    known = (object, Generic, *bases)
    slots = any(vars(base).get("__slots__") for base in cls.__mro__ if base not in known)
    own = type(in_class(cls, "__dict__")) is GetSetDescriptorType
    return own and not slots and all(base.__flags__ & 1 << 9 or base in known for base in cls.__mro__)


def is_made_by_class_statement(cls: type) -> bool:
    """Whether a class is a program's, not one of C code; SimpleNamespace counts, as all of it is its dict."""
    return bool(cls.__flags__ & 1 << 9) or cls is SimpleNamespace


def is_a(value: Any, classes: Any) -> bool:
    """isinstance without asking the object, whose `__class__` may be code of the program."""
    return issubclass(type(value), classes)


def has_foreign_base(cls: type) -> bool:
    """Whether a class that a class statement made keeps more than a dict, slots, and what capture knows to read."""
    known = {object, Generic, *CONTAINERS, *SCALARS}
    return cls is SimpleNamespace or not all(base.__flags__ & 1 << 9 or base in known for base in cls.__mro__)


def in_class(cls: type, name: str) -> Any:
    """A class's attribute as it stands in the class or a base of it, without binding; ABSENT if there is none."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return ABSENT
