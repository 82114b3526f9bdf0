"""The base of every optimizer: parameter groups, per-parameter state, hooks, and (de)serialisation.

Stands on the tensor API only. Every optimizer of this package and every user's own subclass derives from `Optimizer`;
learning-rate schedulers and GradScaler work on its `param_groups` and `step`.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

import flambeau
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.autograd.hooks import RemovableHandle
from flambeau.core.modes.modes import observed
from flambeau.core.modes.observing import stretch
from flambeau.core.tensor.tensor import Tensor
from flambeau.utils._foreach_utils import _group_tensors_by_device_and_dtype

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
Closure: TypeAlias = Callable[[], Any]

_global_step_pre_hooks: dict[int, Callable] = OrderedDict()
_global_step_post_hooks: dict[int, Callable] = OrderedDict()


class _RequiredParameter:
    """The default of an option that each parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer; None or new (args, kwargs)."""
    handle = RemovableHandle(_global_step_pre_hooks)
    _global_step_pre_hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    handle = RemovableHandle(_global_step_post_hooks)
    _global_step_post_hooks[handle.id] = hook
    return handle


def _use_grad_for_differentiable(function: Callable) -> Callable:
    """Run a `step` method with gradients recorded only if the optimizer was built with differentiable=True."""

    @functools.wraps(function)
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with flambeau.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return function(self, *args, **kwargs)

    return step


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The types of devices whose steps a CUDA-like graph can hold."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _default_to_fused_or_foreach(params: list[Tensor], differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """What an optimizer chooses that was told neither: (fused, foreach). On a CPU foreach is never the faster way."""
    if differentiable:
        return False, False
    plain = (Tensor, flambeau.nn.Parameter)
    return use_fused and all(p is None or (type(p) in plain and p.is_floating_point()) for p in params), False


def _type_name(value: Any) -> str:
    """`value`'s type as PyTorch's messages print it: torch.FloatTensor, builtins bare, others with their module."""
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    return kind.__qualname__ if kind.__module__ in ("builtins", "", None) else f"{kind.__module__}.{kind.__qualname__}"


class Optimizer:
    """Base class of optimizers.

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts that each give a parameter group: its
            tensors under "params" and the options that differ from `defaults`. Its order must be deterministic.
        defaults: the options of a group that does not give them.

    Raises:
        TypeError: `params` is a tensor, or holds something that is not one.
        ValueError: no parameters; a parameter that is not a leaf or appears in two groups; a missing required option.
    """

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        try:
            self.defaults = defaults
            self._create_hooks()
            self._patch_step_function()
            if isinstance(params, Tensor):
                raise TypeError(
                    "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                    + _type_name(params)
                )
            self.state: defaultdict[Any, Any] = defaultdict(dict)
            self.param_groups: list[dict[str, Any]] = []
            groups: list[Any] = list(params)
            if not groups:
                raise ValueError("optimizer got an empty parameter list")
            if not isinstance(groups[0], dict):
                groups = [{"params": groups}]
            for group in groups:
                self.add_param_group(group)
            self._warned_capturable_if_run_uncaptured = True
        except Exception as error:
            filter_traceback(error)
            raise

    def _create_hooks(self) -> None:
        self._optimizer_step_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._optimizer_state_dict_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._optimizer_state_dict_post_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable] = OrderedDict()

    # ------------------------------------------------------------ pickling and printing
    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:  # unpickled, not load_state_dict
            self._create_hooks()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # ------------------------------------------------------------ step and its hooks
    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """`func`, a step method, with the step hooks around it."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not observed.count:
                return step(*args, **kwargs)
            with stretch(f"Optimizer.step#{type(args[0]).__name__}.step"):
                out = step(*args, **kwargs)
                args[0]._optimizer_step_code()
                return out

        def step(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            # a copy of each table, for a hook may remove itself
            for hook in (*_global_step_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
                result = hook(self, args, kwargs)
                if result is not None:
                    if not (isinstance(result, tuple) and len(result) == 2):
                        raise RuntimeError(f"{func} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
                    args, kwargs = result
            out = func(*args, **kwargs)
            for hook in (*self._optimizer_step_post_hooks.values(), *_global_step_post_hooks.values()):
                hook(self, args, kwargs)
            return out

        return wrapper

    def _optimizer_step_code(self) -> None:
        """Where a profiler with stacks sees the optimizer: a step that is measured ends here."""

    def _patch_step_function(self) -> None:
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        step = type(self).step
        if not getattr(step, "hooked", None):
            hooked = self.profile_hook_step(step)
            hooked.hooked = True  # type: ignore[attr-defined]
            type(self).step = hooked  # type: ignore[method-assign]

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it returns None or new (args, kwargs)."""
        return self._register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects."""
        return self._register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on the result of `state_dict`; it returns None or a replacement."""
        return self._register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; it returns None or a replacement."""
        return self._register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return self._register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    @staticmethod
    def _register(table: OrderedDict[int, Callable], hook: Callable, prepend: bool = False) -> RemovableHandle:
        handle = RemovableHandle(table)
        table[handle.id] = hook
        if prepend:
            table.move_to_end(handle.id, last=False)
        return handle

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once. `closure` computes the loss again and returns it."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the parameters' gradients, or with set_to_none=False fill them with zeros."""
        if not observed.count:
            self._zero_grad(set_to_none)
            return
        with stretch(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
            self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                else:
                    if gradient.grad_fn is not None:
                        gradient.detach_()
                    else:
                        gradient.requires_grad_(False)
                    gradient.zero_()

    # ------------------------------------------------------------ parameter groups
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with its tensors (or (name, tensor) pairs) under "params" and its own options."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        members = param_group["params"]
        if isinstance(members, Tensor):
            members = [members]
        elif isinstance(members, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        names = []
        parameters = []
        for member in members:
            if isinstance(member, tuple):
                names.append(member[0])
                parameters.append(member[1])
            else:
                parameters.append(member)
        param_group["params"] = parameters
        if names:
            if len(names) != len(parameters):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        for parameter in parameters:
            if not isinstance(parameter, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + _type_name(parameter))
            if not self.defaults.get("differentiable") and not (parameter.is_leaf or parameter.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(parameters) != len(set(parameters)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            with_or_without = "with" if "param_names" in param_group else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {with_or_without} names to the optimizer"
            )
        known = set(chain.from_iterable(group["params"] for group in self.param_groups))
        if not known.isdisjoint(parameters):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    # ------------------------------------------------------------ state_dict
    def state_dict(self) -> StateDict:
        """The state as a dict: "state" by the number of the parameter, and "param_groups" with those numbers.

        Its tensors are the optimizer's own, not copies.
        """
        for pre_hook in tuple(self._optimizer_state_dict_pre_hooks.values()):
            pre_hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(id(parameter), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        state = {(numbers[id(key)] if isinstance(key, Tensor) else key): value for key, value in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for post_hook in tuple(self._optimizer_state_dict_post_hooks.values()):
            replacement = post_hook(self, result)
            if replacement is not None:
                result = replacement
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over a state that `state_dict` returned; its tensors are cast to the parameters' dtype and device.

        Raises:
            ValueError: other numbers of groups, or of parameters in a group, than this optimizer has.
        """
        state_dict = state_dict.copy()
        for pre_hook in tuple(self._optimizer_load_state_dict_pre_hooks.values()):
            replacement = pre_hook(self, state_dict)
            if replacement is not None:
                state_dict = replacement
        groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(group["params"]) != len(saved["params"]) for group, saved in zip(groups, saved_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        owners = {
            number: (parameter, saved)
            for group, saved in zip(groups, saved_groups)
            for number, parameter in zip(saved["params"], group["params"])
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owners:
                parameter, saved = owners[key]
                state[parameter] = self._cast_state(value, parameter, saved)
            else:
                state[key] = value
        for group, saved in zip(groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for post_hook in tuple(self._optimizer_load_state_dict_post_hooks.values()):
            post_hook(self)

    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)

    @classmethod
    def _cast_state(cls, value: Any, parameter: Tensor, group: dict[str, Any], key: Any = None) -> Any:
        if isinstance(value, Tensor):
            if key == "step":  # a counter keeps its own dtype, unless a kernel on the parameter's device reads it
                if group.get("capturable") or group.get("fused"):
                    return value.to(dtype=flambeau.float32, device=parameter.device)
                return value
            if parameter.is_floating_point():
                return value.to(dtype=parameter.dtype, device=parameter.device)
            return value.to(device=parameter.device)
        if isinstance(value, dict):
            return {name: cls._cast_state(item, parameter, group, name) for name, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            items = [cls._cast_state(item, parameter, group) for item in value]
            # a named tuple takes its fields one by one
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value


class GroupwiseOptimizer(Optimizer):
    """An optimizer that updates a group at a time: subclasses give `_update_group`, or `_update` for a single parameter."""

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; returns what `closure`, which computes the loss again, returned."""
        with flambeau.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            loss = None
            if closure is not None:
                with flambeau.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                self._update_group(group)
        return loss

    def _update_group(self, group: dict[str, Any]) -> None:
        """Update the parameters of `group` that have gradients."""
        for parameter in group["params"]:
            if parameter.grad is not None:
                self._update(parameter, group)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _update_group or _update")
