"""torch.__future__: how a module's parameters are replaced when it is converted or loaded.

Stands on nn.modules.conversion, which keeps the choice and follows it.
"""

from __future__ import annotations

from flambeau.nn.modules.conversion import replacement as _replacement

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `module.to(...)`, `.double()` and their kin put new Parameters in place of the present ones instead of
    changing those."""
    _replacement.overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What `set_overwrite_module_params_on_conversion` said last; False at first."""
    return _replacement.overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether conversions of a module and `load_state_dict` exchange parameters with the new tensors by
    `torch.utils.swap_tensors`, so that the Parameter objects stay and become what the new tensors are.

    Goes before `set_overwrite_module_params_on_conversion`. A tensor that is loaded is `param.module_load(tensor)`.
    """
    _replacement.swaps = value


def get_swap_module_params_on_conversion() -> bool:
    """What `set_swap_module_params_on_conversion` said last; False at first."""
    return _replacement.swaps
