"""torch.distributed.algorithms.ddp_comm_hooks: how gradients are exchanged; names to import."""

import importlib as _importlib
from typing import Any

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("algorithms.ddp_comm_hooks", "register_ddp_comm_hook", "DDPCommHookType"))


def __getattr__(name: str) -> Any:
    if name in ("default_hooks", "post_localSGD_hook", "powerSGD_hook"):
        return _importlib.import_module(f"flambeau.distributed.algorithms.ddp_comm_hooks.{name}")
    raise AttributeError(f"module 'flambeau.distributed.algorithms.ddp_comm_hooks' has no attribute '{name}'")
