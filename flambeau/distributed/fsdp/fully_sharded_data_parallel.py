"""torch.distributed.fsdp.FullyShardedDataParallel: fully sharded data parallelism as a wrapper.

The parameters are cut as `fully_shard` cuts them, one DTensor each: there are no flat parameters, and `use_orig_params` makes no
difference. Stands on `_fully_shard` and `_wrapping`; `_state_dicts` makes state dicts of it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.fsdp import _state_dicts
from flambeau.distributed.fsdp._fully_shard.api import shard
from flambeau.distributed.fsdp._fully_shard.group import ParameterGroup
from flambeau.distributed.fsdp._fully_shard.state import FSDPState
from flambeau.distributed.fsdp._wrapping import wrap_children
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    MixedPrecisionPolicy,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from flambeau.distributed.state_names import clean_name, parameter_names

FlatParameter = _unsupported.kind(
    "distributed.fsdp.FlatParameter", "parameters are DTensors of their own here; look at them by their names"
)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FlatParameter", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
    "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip

_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class FullyShardedDataParallel(nn.Module):
    """A module whose parameters are cut over the processes, and whole only while it runs.

    Args:
        module: what is wrapped; an optimizer is made of the wrapper's parameters.
        process_group: the processes, by default all; for HYBRID_SHARD a pair (those that cut, those that keep copies), or give
            `device_mesh` of two dimensions (copies, cut).
        sharding_strategy: FULL_SHARD (default) frees parameters after the forward, SHARD_GRAD_OP after the backward, NO_SHARD
            cuts nothing.
        auto_wrap_policy: which submodules are wrapped by themselves.
        mixed_precision: the dtypes of computation, reduction and buffers.
        ignored_modules, ignored_states: modules and parameters that are left alone.
        param_init_fn: fills a module that is on the meta device.
        sync_module_states: the first rank's parameters and buffers are sent to all before they are cut.

    The others are taken for what they allow: there are no streams here, and memory is the CPU's.
    """

    def __init__(
        self,
        module: nn.Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[nn.Module] | None = None,
        param_init_fn: Callable[[nn.Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[nn.Parameter] | Iterable[nn.Module] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if isinstance(module, FullyShardedDataParallel):
            raise ValueError("FSDP module cannot be wrapped again")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.sharding_strategy, self.mixed_precision = strategy, mixed_precision or MixedPrecision()
        self._mesh = _mesh_of(process_group, device_mesh, strategy)
        ignored = _ignored(ignored_modules, ignored_states)
        if param_init_fn is not None:
            for part in module.modules():
                if any(p.is_meta for p in part.parameters(recurse=False)):
                    param_init_fn(part)
        if sync_module_states:
            _send_states(module, self._mesh)
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": sharding_strategy, "mixed_precision": mixed_precision, "device_mesh": self._mesh,
                "ignored_states": ignored, "cpu_offload": cpu_offload, "use_orig_params": use_orig_params,
            }  # fmt: skip
            wrap_children(module, auto_wrap_policy, FullyShardedDataParallel, options)
        self._fsdp_wrapped_module = module
        frees = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        policy = MixedPrecisionPolicy(
            self.mixed_precision.param_dtype,
            self.mixed_precision.reduce_dtype or self.mixed_precision.param_dtype,
            None,
            self.mixed_precision.cast_root_forward_inputs or self.mixed_precision.cast_forward_inputs,
        )
        shard([self], self._mesh, policy, None if frees else False, None, ignored)
        if self.mixed_precision.buffer_dtype is not None:
            for buffer in module.buffers():
                if buffer.is_floating_point():
                    buffer.data = buffer.data.to(self.mixed_precision.buffer_dtype)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        _state_dicts.hook(self)

    _fsdp_state: FSDPState
    _fsdp_wrapped_module: nn.Module

    @property
    def module(self) -> nn.Module:
        """The wrapped module."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def __getitem__(self, key: int) -> Any:
        return self.module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's forward, with whole parameters."""
        return self.module(*args, **kwargs)

    def check_is_root(self) -> bool:
        """Whether this is the outermost wrapper."""
        self._fsdp_state.find_root()
        return self._fsdp_state.is_root

    @staticmethod
    def fsdp_modules(module: nn.Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The wrappers in a module; `root_only`: those that are in no other."""
        found = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {id(part) for each in found for part in each.modules() if part is not each}
        return [each for each in found if id(each) not in inner]

    def apply(self, fn: Callable[[nn.Module], None]) -> FullyShardedDataParallel:
        """nn.Module.apply, with whole parameters; what it writes is kept. ValueError inside summon_full_params."""
        if self._summoned:
            raise ValueError("apply() is expected to be in states [IDLE] but current state is SUMMON_FULL_PARAMS")
        with self.summon_full_params(self, recurse=False):  # wrappers inside do their own when it comes to them
            return super().apply(fn)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        group = self._fsdp_state.group
        if group is not None:
            group.reshard()
        result = super()._apply(*args, **kwargs)
        if group is not None:
            for parameter in group.parameters:
                parameter.refresh()
                parameter.whole = None
        self._fsdp_state._hooked = False
        return result

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """nn.Module.named_parameters; inside summon_full_params under the names that the modules have without wrappers."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield (clean_name(name) if self._summoned else name), parameter

    _summoned = 0

    # Whole parameters, gradients

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: nn.Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A block in which the wrappers' parameters are whole; what is written to them is kept if `writeback`.

        Outside of forward and backward. `rank0_only` with `writeback` raises NotImplementedError, as in PyTorch.
        """
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported")
        if with_grads:
            raise NotImplementedError("summon_full_params(with_grads=True): read the gradients' full_tensor() instead")
        own = [module] if isinstance(module, FullyShardedDataParallel) else []
        wrappers = FullyShardedDataParallel.fsdp_modules(module) if recurse else own
        # A block in this one leaves to it what it made whole.
        outermost = [each for each in wrappers if not each._summoned]
        groups = [group for each in outermost if (group := each._fsdp_state.group) is not None]
        for group in groups:
            group.unshard()
        for each in wrappers:
            each._summoned += 1
        try:
            yield
        finally:
            for each in wrappers:
                each._summoned -= 1
            for group in groups:
                if writeback:
                    _write_back(group)
                group.reshard()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose backward passes reduce nothing: gradients are gathered, and reduced by the first after it."""
        groups = [group for each in self.fsdp_modules(self) if (group := each._fsdp_state.group) is not None]
        before = [(group, group.reduce_gradients) for group in groups]
        for group in groups:
            group.reduce_gradients = False
        try:
            yield
        finally:
            for group, reduces in before:
                group.reduce_gradients = reduces

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scales all gradients so that their norm, over all ranks, is at most `max_norm`. Returns the norm, a plain tensor.

        RuntimeError unless this is the outermost wrapper.
        """
        if not self.check_is_root():
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        if all(parameter.grad is None for parameter in self.parameters()):
            warnings.warn(
                f"Called FSDP.clip_grad_norm_() on rank {c10d.get_rank()} with no gradients -- returning the total norm in the "
                "default dtype torch.float32",
                stacklevel=2,
            )
        norm: Any = nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    # State dicts

    @staticmethod
    def set_state_dict_type(
        module: nn.Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """What state dicts of the wrappers in a module hold from now on. Returns what it was."""
        own, optim = _CONFIGS[state_dict_type]
        settings = StateDictSettings(state_dict_type, state_dict_config or own(), optim_state_dict_config or optim())
        if type(settings.state_dict_config) is not own:
            raise RuntimeError(f"Expected state_dict_config of type {own} but got {type(settings.state_dict_config)}")
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        before = wrappers[0]._settings if wrappers else settings
        for each in wrappers:
            each._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: nn.Module) -> StateDictSettings:
        """What state dicts of the wrappers in a module hold."""
        return FullyShardedDataParallel.fsdp_modules(module)[0]._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: nn.Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """A block in which state dicts hold this."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(
                module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config
            )

    @staticmethod
    def optim_state_dict(
        model: nn.Module, optim: torch.optim.Optimizer, optim_state_dict: dict[str, Any] | None = None, group: Any = None
    ) -> dict[str, Any]:
        """An optimizer's state dict by the parameters' names, whole or cut as the wrappers' settings say."""
        _check_group(model, group)
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        return _state_dicts.of_optimizer(model, optim, optim_state_dict, settings)

    @staticmethod
    def full_optim_state_dict(
        model: nn.Module, optim: torch.optim.Optimizer, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """`optim_state_dict` with whole states, on the first rank only unless told otherwise.

        NotImplementedError for `optim_input`: the optimizer knows its parameters.
        """
        if optim_input is not None:
            raise NotImplementedError("optim_input: the optimizer's own groups of parameters are used; leave it out")
        _check_group(model, group)
        settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig(rank0_only=rank0_only)
        )
        return _state_dicts.of_optimizer(model, optim, None, settings)

    @staticmethod
    def sharded_optim_state_dict(model: nn.Module, optim: torch.optim.Optimizer, group: Any = None) -> dict[str, Any]:
        """`optim_state_dict` with each rank's parts."""
        _check_group(model, group)
        settings = StateDictSettings(StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig(), ShardedOptimStateDictConfig())
        return _state_dicts.of_optimizer(model, optim, None, settings)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: nn.Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """What `full_optim_state_dict` gave, with this rank's parts, as the optimizer's load_state_dict takes it.

        ValueError without the optimizer.
        """
        if optim is None or optim_input is not None:
            raise ValueError("give the optimizer itself, `optim`, and no `optim_input`")
        return _state_dicts.to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: nn.Module, optim: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """What `sharded_optim_state_dict` gave, as the optimizer's load_state_dict takes it."""
        return _state_dicts.to_load(model, optim, sharded_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: nn.Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> dict[str, Any]:
        """`shard_full_optim_state_dict` of what rank 0 was given; the others may give None. All ranks call it."""
        _check_group(model, group)
        given = [full_optim_state_dict if c10d.get_rank(group) == 0 else None]
        c10d.broadcast_object_list(given, group=group, group_src=0)
        assert given[0] is not None
        return FullyShardedDataParallel.shard_full_optim_state_dict(given[0], model, optim_input, optim)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any],
        optim_state_key_type: OptimStateKeyType,
        model: nn.Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """An optimizer's whole state dict with the parameters' names in place of their numbers, or the other way."""
        if optim_state_key_type not in (OptimStateKeyType.PARAM_NAME, OptimStateKeyType.PARAM_ID):
            raise ValueError(f"keys are OptimStateKeyType.PARAM_NAME or PARAM_ID, not {optim_state_key_type}")
        if optim is None or optim_input is not None:
            raise ValueError("give the optimizer itself, `optim`, and no `optim_input`")
        by_name = optim_state_key_type == OptimStateKeyType.PARAM_NAME
        if all(isinstance(key, str) == by_name for key in optim_state_dict["state"]):
            return optim_state_dict
        names = list(parameter_names(model).values())
        to: dict[Any, Any] = dict(enumerate(names)) if by_name else {name: number for number, name in enumerate(names)}
        return {
            "state": {to[key]: state for key, state in optim_state_dict["state"].items()},
            "param_groups": [
                {**group, "params": [to[key] for key in group["params"]]} for group in optim_state_dict["param_groups"]
            ],
        }

    @staticmethod
    def optim_state_dict_to_load(
        model: nn.Module,
        optim: torch.optim.Optimizer,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """What `optim_state_dict` gave as the optimizer's own load_state_dict takes it.

        NotImplementedError for `is_named_optimizer`: an optimizer whose own state dict has names can be given them as they are.
        """
        if is_named_optimizer:
            raise NotImplementedError("is_named_optimizer=True: load the state dict into the named optimizer itself")
        _check_group(model, group)
        result = _state_dicts.to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(result)
        return result

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Not there: gradients are reduced as `mixed_precision` says."""
        raise NotImplementedError("register_comm_hook of FSDP; set mixed_precision's reduce_dtype to reduce in another dtype")


def _check_group(model: nn.Module, group: Any) -> None:
    """ValueError for a group other than the ranks that a model's parameters are cut over."""
    if group is None:
        return
    ranks = set(c10d.get_process_group_ranks(group))
    for wrapper in FullyShardedDataParallel.fsdp_modules(model):
        own = {int(rank) for rank in wrapper._mesh.mesh.flatten().tolist()}
        if own != ranks:
            raise ValueError(f"group: states are gathered over the ranks that have them, {sorted(own)}; leave it out")


@torch.no_grad()
def _write_back(group: ParameterGroup) -> None:
    for parameter in group.parameters:
        local = parameter._local_whole()
        length, start = parameter.place
        part = local.narrow(parameter.dim, start, length)
        parameter.sharded.data._local_tensor.copy_(part)


def _mesh_of(group: Any, mesh: DeviceMesh | None, strategy: ShardingStrategy) -> DeviceMesh:
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    if mesh is not None:
        if hybrid and mesh.ndim != 2:
            raise ValueError(f"{strategy} needs a device_mesh of two dimensions (copies, cut), got {mesh}")
        return mesh
    if hybrid:
        raise ValueError(
            f"Manual wrapping with {strategy} requires explicit specification of process group or device_mesh."
            " Give device_mesh=init_device_mesh('cpu', (copies, shards), mesh_dim_names=('replicate', 'shard'))"
        )
    ranks = c10d.get_process_group_ranks(group if group is not None else c10d._get_default_group())
    if strategy is ShardingStrategy.NO_SHARD:
        return DeviceMesh("cpu", [[rank] for rank in ranks], mesh_dim_names=("replicate", "shard"))
    if group is not None:
        return DeviceMesh.from_group(group, "cpu")
    return DeviceMesh("cpu", ranks)


def _ignored(modules: Iterable[nn.Module] | None, states: Iterable[Any] | None) -> set[nn.Parameter]:
    found: set[nn.Parameter] = set()
    for each in [*(modules or ()), *(states or ())]:
        found.update(each.parameters() if isinstance(each, nn.Module) else [each])
    return found


@torch.no_grad()
def _send_states(module: nn.Module, mesh: DeviceMesh) -> None:
    for index in range(mesh.ndim):
        group = mesh.get_group(index)
        source = c10d.get_global_rank(group, 0)
        for tensor in [*module.parameters(), *module.buffers()]:
            if not hasattr(tensor, "_local_tensor"):  # what a wrapper inside has cut already was sent by it
                c10d.broadcast(tensor.data, src=source, group=group)
