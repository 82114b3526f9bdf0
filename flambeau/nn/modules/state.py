"""state_dict and load_state_dict.

A base class of Module. Layout and messages follow PyTorch's files: an OrderedDict of dotted names whose attribute
`_metadata` holds a version per module path.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import flambeau
from flambeau.base.naming import called
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.conversion import replacement, swap_parameter
from flambeau.nn.modules.hooks import RemovableHandle, add_hook
from flambeau.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


@called("nn.modules.module", "_IncompatibleKeys")
class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict(strict=False) left over on either side."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _load(module: Any, local: Mapping, prefix: str, metadata: Any, assign: bool, found: tuple[list, list, list]) -> None:
    """Load a module and those below it from the part of a state_dict whose names begin with `prefix`; `found` takes the names
    missing, those unexpected, and complaints."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(local, prefix, local_metadata, True, *found)
    for name, child in module._modules.items():
        if child is not None:
            child_prefix = f"{prefix}{name}."
            _load(child, {k: v for k, v in local.items() if k.startswith(child_prefix)}, child_prefix, metadata, assign, found)
    incompatible = _IncompatibleKeys(*found[:2])
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, incompatible) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not"
                "expected to return new values, if incompatible_keys need to be modified,"
                "it should be done inplace."
            )


class StateDict:
    """The part of Module that saves and loads tensors by name."""

    def get_extra_state(self) -> Any:
        """Override together with `set_extra_state` to put further picklable state in the state_dict."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Receives from load_state_dict what `get_extra_state` returned."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def _has_own(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StateDict, method)

    # ------------------------------------------------------------------ saving
    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """Write this module's own parameters, persistent buffers and extra state."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_own("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: dict | None = None, prefix: str = "", keep_vars: bool = False) -> dict:
        """Names to tensors, of this module and all below. The tensors share memory with the module's; they are
        detached unless keep_vars."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict"
                " for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if result is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif result is not None:
                destination = result
        return destination

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) -> None, after state_dict; may change it in place."""
        hook._from_public_api = True
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, prefix, keep_vars) -> None, before state_dict."""
        return add_hook(self._state_dict_pre_hooks, hook)

    # ----------------------------------------------------------------- loading
    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) -> None,
        before this module's own tensors are loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """hook(module, incompatible_keys) -> None, after this module and those below were loaded."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ) -> None:
        """Copy this module's own tensors out of state_dict (not those of submodules).

        Called once per module. Fills the three lists instead of raising, so that all complaints are reported together.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

        buffers = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = {name: t for name, t in (*self._parameters.items(), *buffers.items()) if t is not None}
        for name, present in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_tensor(name, key, present, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._has_own("set_extra_state"):
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, *rest = key[len(prefix) :].split(".", 1)
                    if first not in self._modules if rest else first not in own:
                        unexpected_keys.append(key)

    def _load_tensor(self, name: str, key: str, present: Tensor, given: Any, assign: bool, error_msgs: list[str]) -> None:
        """Copy (or assign) one tensor; complaints go to error_msgs."""
        if not isinstance(given, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(given)}"
            )
            return
        lazy = is_lazy(present)
        # Files from before zero-dimensional tensors store scalars as one-element vectors.
        if not lazy and len(present.shape) == 0 and len(given.shape) == 1:
            given = given[0]
        if not lazy and given.shape != present.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {present.shape}."
            )
            return
        if present.device.type == "meta" and given.device.type != "meta" and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary "
                "to their corresponding key in the module instead of copying them in place?)",
                stacklevel=4,
            )
        try:
            with flambeau.no_grad():
                if replacement.swaps and not lazy:
                    new = present.module_load(given, assign=assign)
                    if new is given or new is present:
                        raise RuntimeError(
                            "module_load returned one of self or other, please .detach() the result if "
                            "returning one of the inputs in module_load"
                        )
                    swap_parameter(present, new)
                elif assign:
                    if isinstance(present, Parameter):
                        if not isinstance(given, Parameter):
                            given = Parameter(given, requires_grad=present.requires_grad)
                        else:
                            given.requires_grad_(present.requires_grad)
                    setattr(self, name, given)
                else:
                    present.copy_(given)
        except Exception as error:
            action = "swapping" if replacement.swaps else "assigning" if assign else "copying"
            error_msgs.append(
                f'While {action} the parameter named "{key}", whose dimensions in the model are {present.size()} and '
                f"whose dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
            )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy tensors by name into this module and those below.

        Args:
            state_dict: names to tensors, as `state_dict()` returns.
            strict: raise RuntimeError when the names differ.
            assign: put the given tensors in place of the present ones instead of copying into them.

        Returns (missing_keys, unexpected_keys).
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        _load(self, state_dict, "", metadata, assign, (missing_keys, unexpected_keys, error_msgs))
        if strict:
            if unexpected_keys:
                quoted = ", ".join(f'"{key}"' for key in unexpected_keys)
                error_msgs.insert(0, f"Unexpected key(s) in state_dict: {quoted}. ")
            if missing_keys:
                quoted = ", ".join(f'"{key}"' for key in missing_keys)
                error_msgs.insert(0, f"Missing key(s) in state_dict: {quoted}. ")
        if error_msgs:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(error_msgs))
            )
        return _IncompatibleKeys(missing_keys, unexpected_keys)


@called("nn.modules.module", "_WrappedHook")
class _WrappedHook:
    """A load_state_dict pre-hook, with the module that it wants as first argument or None; saved and copied with the module.

    The module is held weakly, as it holds the hook itself.
    """

    def __init__(self, hook: Callable, module: Any = None) -> None:
        functools.update_wrapper(self, hook)
        self.hook = hook
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return {**state, "module": self.module()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])
