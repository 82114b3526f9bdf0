"""What sparsifiers have in common: tensors by name, their masks, and what becomes of these. Stands on utils."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.pruning.sparsifier.utils import FakeSparsity, get_arg_info_from_tensor_fqn, module_contains_param, swap_module
from flambeau.nn.utils import parametrize

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES = {nn.Linear}
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Makes tensors of a model sparse: `prepare` attaches masks, `step` chooses them anew, `squash_mask` applies them for good.

    defaults: settings of all tensors, which the configuration of one may change. Classes say in `update_mask(module, tensor_name,
    **settings)` what a mask is to be.
    """

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = []
        for number, group in enumerate(self.groups):
            lines += [f"\n\tGroup {number}", f"\n\t    module: {group['module']}"]
            lines += [f"\n\t    {key}: {group[key]}" for key in sorted(group) if key != "module"]
        return f"{type(self).__name__} ({''.join(lines)}{chr(10) if lines else ''})"

    def state_dict(self) -> dict[str, Any]:
        """`state`, by the names of tensors, and `groups`: the settings of each, without the modules."""
        kept = [{key: value for key, value in group.items() if key not in KEYS_NOT_IN_STATE_DICT} for group in self.groups]
        return {"state": self.state, "groups": kept}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take over a state dict; masks are attached where there are none. RuntimeError for a tensor that the model lacks."""
        groups, states = copy.deepcopy(state_dict["groups"]), state_dict["state"]
        for tensor_fqn, state in states.items():
            place = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            module, name = place["module"], place["tensor_name"]
            if strict and module is None:
                raise RuntimeError(f"Error loading {tensor_fqn} into the model")
            masks = (each for each in module.parametrizations[name] if isinstance(each, FakeSparsity))
            mask = next(masks, None)
            if mask is None:
                mask = FakeSparsity(torch.ones(getattr(module, name).shape))
                parametrize.register_parametrization(module, name, mask)
            if state.get("mask") is not None:
                mask.mask = state.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(place)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(self, model: Any, SUPPORTED_MODULES: Any = SUPPORTED_MODULES) -> None:
        """Let all weights of modules of these classes be made sparse."""
        self.config: Any = []
        pending = [("", model)]
        while pending:
            prefix, module = pending.pop()
            for name, child in module.named_children():
                if type(child) in SUPPORTED_MODULES:
                    self.config.append({"tensor_fqn": f"{prefix}{name}.weight"})
                else:
                    pending.append((f"{prefix}{name}.", child))

    def prepare(self, model: Any, config: list[dict[str, Any]] | None) -> None:
        """Attach masks to the tensors of a model, in place.

        config: dicts with `tensor_fqn`, the name of a tensor, and settings; None for the weights of all supported modules.
        AssertionError for a dict without it, or that names a module which isn't that of the tensor.
        """
        self.model, self.config = model, config
        if config is None:
            self.make_config_from_model(model)
        for given in self.config:
            assert isinstance(given, dict), (
                "config elements should be dicts not modules i.e.:[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]"
            )
            assert isinstance(self.defaults, dict), "defaults must be a dict"
            settings = {**copy.deepcopy(self.defaults), **given}
            name = settings.get("tensor_fqn")
            assert name is not None, (
                "tensor_fqn is a required argument in the sparsity config which replaces previous `module` and [module]`fqn` "
                "arguments"
            )
            place = get_arg_info_from_tensor_fqn(model, name)
            for key, value in place.items():
                assert key not in settings or settings[key] in (value, f".{value}" if key == "tensor_fqn" else value), (
                    f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to agree!"
                )
            self.groups.append(settings | place)
        self._prepare()

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group["mask"] if "mask" in group else torch.ones_like(getattr(module, name))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(module, name, group.get("parametrization", FakeSparsity)(mask))

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Apply the masks to the tensors, and take the parametrizations away.

        params_to_keep, params_to_keep_per_layer (by the names of modules): settings that modules keep as `sparse_params`.
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(module, group["tensor_name"], leave_parametrized=True)
            names = [*(params_to_keep or ()), *((params_to_keep_per_layer or {}).get(group["module_fqn"]) or ())]
            if names:
                module.sparse_params = {name: group[name] for name in names}

    def convert(self, module: Any, mapping: Any = None, inplace: bool = False, parameterization: Any = FakeSparsity) -> Any:
        """The module (a copy, unless inplace) in which `from_dense` of the classes of a mapping made modules with masks anew."""
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            if module_contains_param(child, parameterization) and parametrize.type_before_parametrizations(child) in mapping:
                module._modules[name] = swap_module(child, mapping)
            else:
                self.convert(child, mapping, inplace=True, parameterization=parameterization)
        return module

    def step(self, use_path: bool = True) -> None:
        """Choose all masks anew, while `enable_mask_update` is set."""
        if self.enable_mask_update:
            with torch.no_grad():
                for group in self.groups:
                    self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: Any, tensor_name: str, **kwargs: Any) -> None:
        """Write to the mask of one tensor."""
