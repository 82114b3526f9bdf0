"""flambeau.nn: modules, parameters, their functional forms and initialisers, with PyTorch's names."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flambeau.base.lazy_import import submodules
from flambeau.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

from flambeau.nn import functional as functional, init as init  # isort: skip
from flambeau.nn.modules import *
from flambeau.nn.modules import Module as Module

from flambeau.nn import attention as attention, modules as modules, parallel as parallel, utils as utils  # isort: skip
from flambeau.nn.parallel import DataParallel


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments that a factory such as `empty` takes, out of a constructor's keyword arguments.

    `factory_kwargs` inside kwargs may hold them too; anything but device, dtype and memory_format is refused.
    """
    if kwargs is None:
        return {}
    simple = ("device", "dtype", "memory_format")
    expected = {*simple, "factory_kwargs"}
    if not kwargs.keys() <= expected:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - expected}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for key in simple:
        if key in kwargs:
            if key in result:
                raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
            result[key] = kwargs[key]
    return result


if not TYPE_CHECKING:  # or every name would be taken for one that is found so

    def __getattr__(name: str) -> Any:
        """Rooms that few programs enter, imported at first use."""
        if name in ("intrinsic", "qat", "quantizable", "quantized"):
            return submodules(__name__)(name)
        if name == "grad":
            return import_module("flambeau.nn.grad")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
