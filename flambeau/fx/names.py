"""What functions are called in printed graphs: PyTorch's qualified names for flambeau's functions.

A function of the package stands for one of PyTorch's, whose module shows in generated code: `torch.nn.functional.relu`,
`torch._C._nn.gelu`, `torch.functional.split`. Stands on the public namespaces; used by fx.node and fx.codegen.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.modes.interception import TensorMethod

# Functions of torch that PyTorch writes in Python, by their module.
_IN_MODULES = {
    "functional": """atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist
        chain_matmul einsum lu meshgrid norm split stft tensordot unique unique_consecutive unravel_index""",
    "_lowrank": "pca_lowrank svd_lowrank",
    "_lobpcg": "lobpcg",
    "random": "get_rng_state initial_seed manual_seed seed set_rng_state",
    "serialization": "load save",
    "_tensor_str": "set_printoptions",
    "utils.dlpack": "from_dlpack",
    "func": "vmap",
}
# Functions of torch.nn.functional that are others under its name.
_NN = """avg_pool2d avg_pool3d elu_ gelu hardtanh_ leaky_relu_ linear one_hot scaled_dot_product_attention softplus
    softshrink""".split()
_OF_TORCH = """adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist
    pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ selu_ threshold_""".split()
_RENAMED = {"logsigmoid": "torch._C._nn.log_sigmoid", "threshold": "torch.nn.functional._threshold"}

# Functions of torch that PyTorch writes in Python, and those that it makes of two by a parameter's value.
_PYTHON = frozenset(
    """_assert _check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_type
    _check_value _check_with are_deterministic_algorithms_enabled compile cond get_default_device is_storage is_tensor
    set_default_device set_default_dtype set_default_tensor_type sym_float sym_fresh_size sym_int sym_ite sym_max sym_min
    sym_not sym_sqrt sym_sum typename use_deterministic_algorithms""".split()
)
_DISPATCHED = frozenset(
    """adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d
    fractional_max_pool3d lu max_pool1d max_pool2d max_pool3d unique unique_consecutive""".split()
)
_PACKAGE = torch.__name__


def _in_torch() -> dict[str, str]:
    return {name: f"torch.{module}.{name}" for module, names in _IN_MODULES.items() for name in names.split()}


def public_functions() -> dict[Callable[..., Any], str]:
    """The functions of the public namespaces, and what PyTorch calls them."""
    found: dict[Callable[..., Any], str] = {}
    special = _in_torch()
    for name, thing in [*vars(torch).items(), *vars(torch.namespace).items()]:
        if _is_function(thing) and not name.startswith("__"):
            found.setdefault(thing, special.get(name, f"torch.{name}"))
    helpers = torch.nn.functional._HELPERS  # which the module uses, and no program knows
    for name, thing in vars(torch.nn.functional).items():
        if _is_function(thing) and not name.startswith("__") and thing not in helpers:
            found.setdefault(thing, _functional_name(name))
    for room in ("linalg", "fft", "special"):
        for name, thing in vars(getattr(torch, room)).items():
            if _is_function(thing) and not name.startswith("_"):
                found.setdefault(thing, f"torch._C._{room}.{room}_{name}")
    return found


def _functional_name(name: str) -> str:
    if name in _NN:
        return f"torch._C._nn.{name}"
    return _RENAMED.get(name) or (f"torch.{name}" if name in _OF_TORCH else f"torch.nn.functional.{name}")


def _is_function(thing: object) -> bool:
    return inspect.isfunction(thing) and (thing.__module__ or "").partition(".")[0] == _PACKAGE


_names = functools.cache(public_functions)


def public_name(function: object) -> str | None:
    """PyTorch's qualified name of a public function of the package, such as torch.nn.functional.relu; None for others."""
    try:
        found = _names().get(function)  # type: ignore[call-overload]
    except TypeError:  # not hashable
        return None
    return _late_name(function) if found is None else found


def _late_name(function: object) -> str | None:
    """The same of a function of torch that is imported when it is first asked for."""
    name = getattr(function, "__name__", "")
    if name in torch.namespace._LATE_OF and getattr(torch, name) is function:
        return f"torch.{name}"
    return None


def shown(thing: object) -> str:
    """str(thing); for functions of the package what PyTorch shows of the function that they stand for, much of which is in C."""
    known = public_name(thing) if inspect.isfunction(thing) else None
    if known is None:
        method = inspect.isfunction(thing) and is_method(thing)
        return f"<method {thing.__name__!r} of 'torch._C.TensorBase' objects>" if method else str(thing)  # type: ignore[attr-defined]
    room, _, name = known.rpartition(".")
    if room == "torch" and name not in _PYTHON:
        return f"<built-in method {name} of type object at {id(torch.Tensor):#x}>"
    if room.startswith("torch._C."):
        return f"<built-in function {name}>"
    return f"<function {'boolean_dispatch.<locals>.fn' if name in _DISPATCHED else name} at {id(thing):#x}>"


def is_method(function: object) -> bool:
    """Whether a function is a method of Tensor, and no function of a public namespace."""
    if isinstance(function, TensorMethod) or getattr(function, "__name__", "") == "__get__":
        return True
    name = getattr(function, "__name__", None)
    return name is not None and vars(torch.Tensor).get(name) is function and public_name(function) is None


def shown_module(module: str) -> str:
    """A module's name as PyTorch's: the package's modules bear the names of the modules that they stand for."""
    head, dot, rest = module.partition(".")
    if head != _PACKAGE:
        return module
    return "torch" + dot + rest.replace("_ops.", "ops.", 1)  # a namespace of operators is reached by torch.ops


def shown_type(cls: type) -> str:
    """The qualified name of a class: torch.Tensor, torch.nn.modules.activation.ReLU, collections.OrderedDict."""
    return f"{shown_module(cls.__module__)}.{cls.__qualname__}"


def is_overload(thing: object) -> bool:
    """Whether a thing is an overload of an operator; told by its class's name, so that torch.ops is not loaded for it."""
    return type(thing).__name__ == "OpOverload" and is_own(type(thing))


def is_own(thing: object) -> bool:
    """Whether generated code names a thing through torch: something defined in the package."""
    module = getattr(thing, "__module__", None)
    if module is not None:
        return module.partition(".")[0] == _PACKAGE
    return type(thing).__module__.partition(".")[0] == _PACKAGE


def _find_module_of_method(orig_method: Callable[..., Any]) -> str:
    name, module = orig_method.__name__, orig_method.__module__
    if module is not None:
        return module
    for guess in (torch, torch.nn.functional):
        if getattr(guess, name, None) is orig_method:
            return guess.__name__
    raise RuntimeError(f"cannot find module for {orig_method}")


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """The dotted name by which generated code reaches a function or class."""
    if getattr(builtins, getattr(func, "__name__", ""), None) is func:
        return func.__name__
    known = public_name(func)
    if known is not None:
        return known
    if is_method(func):
        return f"torch.Tensor.{func.__name__}"
    if isinstance(func, type) and is_own(func):
        return shown_type(func)
    name = func.__name__
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    return f"{shown_module(_find_module_of_method(func))}.{name}"


_illegal_char_regex = re.compile("[^0-9a-zA-Z_]+")
_name_regex = re.compile(r"^([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?$")
_boundary = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _snake_case(s: str) -> str:
    """A name in lower case, with an underscore between a small letter and a capital: ReLU gives re_lu."""
    return _boundary.sub("_", s).lower()


def _is_magic(x: str) -> bool:
    return x.startswith("__") and x.endswith("__")
