"""torch.distributed.checkpoint.state_dict: state dicts of divided models; `module.state_dict()` is that of a whole one."""

from __future__ import annotations

from dataclasses import dataclass

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "checkpoint.state_dict",
        "get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict set_optimizer_state_dict "
        "set_state_dict _init_optim_state",
    )
)


@dataclass
class StateDictOptions:
    """What a state dict holds, and how strictly it is loaded."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"
