"""torch.distributed.fsdp.fully_shard: the function, and the methods that a module has after it.

Stands on `state`; offered by torch.distributed.fsdp.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from flambeau import nn
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.fsdp._fully_shard.group import ParameterGroup
from flambeau.distributed.fsdp._fully_shard.parameter import ShardedParameter
from flambeau.distributed.fsdp._fully_shard.state import FSDPState
from flambeau.distributed.fsdp.api import MixedPrecisionPolicy, OffloadPolicy
from flambeau.distributed.tensor.placement_types import Shard

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "shard", "share_comm_ctx"]

_AS_THEY_ARE = MixedPrecisionPolicy()
_ON_DEVICE = OffloadPolicy()
#: By a module's class, the class that it gets.
_classes: dict[type, type] = {}


class UnshardHandle:
    """What `FSDPModule.unshard(async_op=True)` returns."""

    def wait(self) -> None:
        """Waits until the parameters are whole; here they are when `unshard` returns."""


class FSDPModule:
    """The methods of a module that fully_shard was called on. Its class is one of both, named FSDP and the module's."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of the module's own class: containers make slices of themselves by their class."""
        own = cls.__mro__[2]
        made = own.__new__(own, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    _fsdp_state: FSDPState

    def _get_fsdp_state(self) -> FSDPState:
        return self._fsdp_state

    def _states(self, recurse: bool) -> list[FSDPState]:
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [module._fsdp_state for module in modules if isinstance(module, FSDPModule)]

    def _groups(self, recurse: bool) -> list[ParameterGroup]:
        return [state.group for state in self._states(recurse) if state.group is not None]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers this module's own parameters, not those of sharded modules in it."""
        self._fsdp_state.find_root()
        for group in self._groups(recurse=False):
            group.unshard()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Frees this module's own whole parameters, and registers their parts."""
        for group in self._groups(recurse=False):
            group.reshard()

    def reset_iter_state(self) -> None:
        """After an exception in forward or backward: forgets the iteration, its gradients included. Of the root only."""
        state = self._fsdp_state
        if state.context is not None:
            if not state.is_root:
                raise RuntimeError("reset_iter_state must be called on the root FSDP module")
            state.context.in_backward = False
        for each in self._states(recurse=True):
            each.reset()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward is the last of this step; gradients are reduced in each here, so that it is noted only."""
        self._fsdp_state.find_root()
        assert self._fsdp_state.context is not None
        self._fsdp_state.context.is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients; without, they gather on the whole parameters, to be reduced later."""
        for group in self._groups(recurse):
            group.reduce_gradients = group.all_reduce_gradients = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are also summed over copies, on a mesh of two dimensions."""
        for group in self._groups(recurse):
            group.all_reduce_gradients = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are freed between forward and backward."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for state in self._states(recurse):
            state.asked_reshard = state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether parameters are freed after backward."""
        for state in self._states(recurse):
            state.reshard_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Modules whose parameters are gathered before this module's forward."""
        _check_all(modules)
        self._fsdp_state.prefetched = [module._fsdp_state for module in modules]

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Checked only: collectives here are done when they return, so that gathering early would save no time."""
        _check_all(modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What summed gradients are divided by, instead of the number of ranks."""
        for group in self._groups(recurse=False):
            group.divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward gathers this module's parameters, which it need not if it doesn't read them."""
        self._fsdp_state.unshard_in_backward = unshard_in_backward

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()
        result = super()._apply(*args, **kwargs)  # type: ignore[misc]
        for group in self._groups(recurse=False):
            for parameter in group.parameters:
                parameter.refresh()
                parameter.whole = None
        self._fsdp_state._hooked = False
        return result

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


def _check_all(modules: Iterable[Any]) -> None:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[nn.Parameter], Shard | None] | None = None,
    mp_policy: MixedPrecisionPolicy = _AS_THEY_ARE,
    offload_policy: OffloadPolicy = _ON_DEVICE,
    ignored_params: set[nn.Parameter] | None = None,
) -> Any:
    """Cuts a module's parameters over the ranks: each is whole only while the module runs.

    It changes the module in place, and is called from the inside out.

    The parameters become DTensors, cut along their first dimension; those of modules that it was called on before belong to
    these. An optimizer is made after it.

    Args:
        module: the module (or modules, gathered together), which needs a forward of its own.
        mesh: of one dimension; or of two with names, along the first of which copies are kept. By default all ranks.
        reshard_after_forward: free the parameters between forward and backward; None: yes but for the root. A number says over
            how many ranks they stay cut: 1 and all of them mean False and True; NotImplementedError for those between.
        shard_placement_fn: the dimension that a parameter is cut along, `Shard(dim)`; None for the first.
        mp_policy: the dtypes of computation, reduction and results.
        offload_policy: parameters are in the CPU's memory whatever it says.
        ignored_params: parameters that are left alone.

    Returns the module, of a class that is FSDPModule too. `fully_shard.state(module)` is what it keeps of it. NotImplementedError
    for parameters that aren't contiguous.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for each in modules:
        if isinstance(each, (nn.ModuleList, nn.ModuleDict)) and type(each).forward is nn.Module.forward:
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {each}")
        if isinstance(each, FSDPModule):
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. "
                f"fully_shard has already been applied to the following module:\n{each}"
            )
    if mesh is None:
        if not c10d.is_initialized():
            c10d.init_process_group()
        mesh = init_device_mesh("cpu", (c10d.get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    if isinstance(reshard_after_forward, int) and not isinstance(reshard_after_forward, bool):
        reshard_after_forward = _as_bool(reshard_after_forward, mesh.size(mesh.ndim - 1))
    shard(modules, mesh, mp_policy, reshard_after_forward, shard_placement_fn, ignored_params or set())
    for each in modules:
        each._register_load_state_dict_pre_hook(lambda *_, own=each: own.reshard())
        each.register_state_dict_pre_hook(lambda own, *_: own.reshard())
        cls = type(each)
        if cls not in _classes:
            _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})
        each.__class__ = _classes[cls]
    return module


def _as_bool(smaller: int, count: int) -> bool:
    """A number of ranks to keep parameters cut over between forward and backward: one, or all of them."""
    if smaller < 1 or count % smaller:
        raise ValueError(f"If passing reshard_after_forward as an int, it should be a factor of {count}, not {smaller}")
    if smaller not in (1, count):
        raise NotImplementedError(
            f"fully_shard(reshard_after_forward={smaller}) reshards to a smaller group, which isn't there; use True or False"
        )
    return smaller == count


def _state(module: nn.Module) -> FSDPState | None:
    return getattr(module, "_fsdp_state", None)


fully_shard.state = _state  # type: ignore[attr-defined]


def shard(
    modules: list[nn.Module],
    mesh: DeviceMesh,
    policy: MixedPrecisionPolicy,
    reshard_after_forward: bool | None,
    place: Callable[[nn.Parameter], Shard | None] | None,
    ignored: set[nn.Parameter],
) -> FSDPState:
    """Cuts the parameters of modules that no sharded module in them has, and hooks what gathers them to the modules' calls."""
    parameters = [
        ShardedParameter(found, mesh, _dim(parameter, place), policy.param_dtype)
        for parameter, found in _owners(modules, ignored)
    ]
    state = FSDPState(modules[0], policy, reshard_after_forward)
    state.group = ParameterGroup(parameters, mesh, policy) if parameters else None

    def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return state.before_forward(args, kwargs)

    for each in modules:
        each._fsdp_state = state
        each.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        each.register_forward_hook(lambda module, args, output: state.after_forward(output))
    return state


def _dim(parameter: nn.Parameter, place: Callable[[nn.Parameter], Shard | None] | None) -> int:
    chosen = place(parameter) if place is not None else None
    if chosen is None:
        return 0
    if not isinstance(chosen, Shard):
        raise ValueError(f"Invalid shard_placement_fn result: {chosen}")
    if not -parameter.ndim <= chosen.dim < parameter.ndim:
        raise AssertionError(f"Shard dim {chosen.dim} is invalid for {parameter.ndim}D tensor: {parameter.shape}")
    return chosen.dim % parameter.ndim


def _owners(modules: list[nn.Module], ignored: set[nn.Parameter]) -> list[tuple[nn.Parameter, list[tuple[nn.Module, str]]]]:
    """The parameters of modules, but for those of fully sharded ones in them, with all who have them."""
    left_out = {id(parameter) for parameter in ignored}
    found: dict[int, tuple[nn.Parameter, list[tuple[nn.Module, str]]]] = {}

    def visit(module: nn.Module) -> None:
        if hasattr(module, "_fsdp_state"):
            return
        for name, parameter in module._parameters.items():
            if parameter is None or id(parameter) in left_out:
                continue
            if parameter.ndim == 0:
                raise ValueError(
                    f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
                )
            found.setdefault(id(parameter), (parameter, []))[1].append((module, name))
        for child in module.children():
            visit(child)

    for module in modules:
        visit(module)
    return list(found.values())


def register_fsdp_forward_method(module: nn.Module, method_name: str) -> None:
    """Makes a method another forward of a fully sharded module: parameters are whole while it runs. Else nothing."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    own = getattr(module, method_name)

    @functools.wraps(own)
    def forward(self: FSDPModule, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self._fsdp_state.before_forward(args, kwargs)
        return self._fsdp_state.after_forward(own(*args, **kwargs))

    setattr(module, method_name, forward.__get__(module, type(module)))


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Checked only: there are no streams that modules could share."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")
