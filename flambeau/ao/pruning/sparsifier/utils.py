"""The parametrization that multiplies by a mask, and tensors by their names in a model. Stands on nn."""

from __future__ import annotations

from itertools import chain
from typing import Any

from flambeau import nn
from flambeau.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_contains_param",
    "module_to_fqn",
    "swap_module",
]


def module_contains_param(module: Any, parametrization: Any) -> bool:
    """Whether one of a module's own tensors has a parametrization of this class."""
    if not is_parametrized(module):
        return False
    return any(isinstance(each, parametrization) for each in chain.from_iterable(module.parametrizations.values()))


def swap_module(mod: Any, mapping: Any) -> Any:
    """What `from_dense` of the mapping's class makes of a module, with its hooks and on its device; else the module itself."""
    kind = mapping.get(type_before_parametrizations(mod))
    if kind is None:
        return mod
    made = kind.from_dense(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        made.register_forward_hook(hook)
    devices = {each.device for each in chain(mod.parameters(), mod.buffers())}
    if len(devices) > 1:
        raise AssertionError(f"swap_module only works with cpu or single-device CUDA modules, but got devices {devices}")
    return made.to(*devices) if devices else made


def module_to_fqn(model: Any, module: Any, prefix: str = "") -> str | None:
    """The name of a module in a model, "" for the model itself; None if it isn't in it."""
    for name, each in model.named_modules(remove_duplicate=False):
        if each is module:
            return prefix + name if name else ""
    return None


def fqn_to_module(model: Any, path: str) -> Any:
    """The module or tensor of a name; None where there is none."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model: Any, tensor_fqn: str) -> dict[str, Any]:
    """A tensor's name in the model, its name in its module, that module and the module's name."""
    path, _, tensor_name = tensor_fqn.rpartition(".")
    return {"module_fqn": path, "module": fqn_to_module(model, path), "tensor_name": tensor_name, "tensor_fqn": tensor_fqn}


class FakeSparsity(nn.Module):
    """A parametrization: the tensor times the mask, which a sparsifier writes to and which state dicts leave out."""

    mask: Any

    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):  # type: ignore[no-untyped-def]  # without annotations it can be scripted
        """mask * x. AssertionError if they differ in shape."""
        assert self.mask.shape == x.shape, f"mask shape ({self.mask.shape}) must match x shape ({x.shape})"
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: sparsifiers keep the masks."""
        return {}
