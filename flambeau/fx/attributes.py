"""Attributes of modules by dotted paths. Used by fx.graph_module and the passes."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.nn import Module


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Give `to_module` the value that is at a path of `from_module`; plain modules are put on the way."""
    *prefix, field = target.split(".")
    source: Any = from_module
    destination: Any = to_module
    for name in prefix:
        inner, outer = getattr(source, name), getattr(destination, name, None)
        if inner is outer:
            return  # a parent was copied as a whole
        if outer is None:
            outer = Module()
            setattr(destination, name, outer)
        source, destination = inner, outer
    value = getattr(source, field)
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        destination.register_buffer(field, value)
    else:
        setattr(destination, field, value)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Put a value at a path of a module; a tensor becomes a buffer. Plain modules are put on the way."""
    *prefix, field = target.split(".")
    destination: Any = to_module
    for name in prefix:
        inner = getattr(destination, name, None)
        if inner is None:
            inner = Module()
            setattr(destination, name, inner)
        destination = inner
    if isinstance(from_obj, torch.Tensor) and not isinstance(from_obj, torch.nn.Parameter):
        destination.register_buffer(field, from_obj)
    else:
        setattr(destination, field, from_obj)


def _get_attr_via_attr_list(model: Any, attr_list: list[str]) -> Any:
    for name in attr_list:
        model = getattr(model, name)
    return model


def _get_attr(model: Any, attr_name: str) -> Any:
    """The value at a path."""
    return _get_attr_via_attr_list(model, attr_name.split("."))


def _has_attr(model: Any, attr_name: str) -> bool:
    """Whether there is a value at a path."""
    for name in attr_name.split("."):
        if not hasattr(model, name):
            return False
        model = getattr(model, name)
    return True


def _del_attr(model: Any, attr_name: str) -> None:
    """Delete the value at a path."""
    *prefix, field = attr_name.split(".")
    delattr(_get_attr_via_attr_list(model, prefix), field)


def delete_submodule(model: Module, target: str) -> bool:
    """Delete the module at a path; False if there is none."""
    *prefix, field = target.split(".")
    owner: Any = model
    for name in prefix:
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
        if not isinstance(owner, Module):
            return False
    if not isinstance(getattr(owner, field, None), Module):
        return False
    delattr(owner, field)
    return True
