"""Which functions a tracer answers without recording them, and which need values. Used by tracer."""

from __future__ import annotations

from typing import Any

__all__ = ["FORGIVEN", "METADATA", "NEEDS_VALUES", "breaks", "disallowed", "writes", "writes_only"]

#: Functions that tell of a tensor what its layout says, and those that tell or switch modes which graphs have blocks for.
METADATA = frozenset(
    """size stride dim ndimension numel nelement storage_offset element_size get_device is_contiguous is_floating_point is_complex
    is_signed is_conj is_neg is_inference is_same_size is_tensor result_type can_cast promote_types broadcast_shapes __len__
    _is_view has_names dim_order __hash__ is_distributed is_storage is_grad_enabled
    set_autocast_enabled set_autocast_dtype set_autocast_cache_enabled is_autocast_cache_enabled autocast_increment_nesting
    autocast_decrement_nesting clear_autocast_cache get_default_device is_autocast_available
    is_inference_mode_enabled is_autocast_enabled get_default_dtype get_autocast_dtype __dir__ sym_size sym_numel""".split()
)

#: Functions that write to an argument and give nothing.
_SILENT = frozenset(["__setitem__"])


def writes_only(name: str) -> bool:
    """Whether a function gives None, and a graph has it for what it writes."""
    return name in _SILENT or (name.startswith("_foreach_") and name.endswith("_"))


def writes(name: str) -> bool:
    """Whether a function of this name writes to its first argument."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


#: Functions that the program has asked that no graph has.
disallowed: set[Any] = set()

#: Functions that no graph has, by what PyTorch calls the reason for its break.
_REASONS = {
    "item": "Tensor.item()",
    "tolist": "Tensor.tolist()",
    "__bool__": "Data-dependent branching",
    "is_nonzero": "Data-dependent branching",
    "__int__": "Tensor.item()",
    "__float__": "Tensor.item()",
    "__complex__": "Tensor.item()",
    "__index__": "Tensor.item()",
    "__contains__": "Data-dependent branching",
    "__repr__": "Printing a tensor",
    "__str__": "Printing a tensor",
    "__format__": "Printing a tensor",
    "backward": "Unsupported Tensor.backward() call",
    "nonzero": "Dynamic shape operator",
    "masked_select": "Dynamic shape operator",
    "unique": "Dynamic shape operator",
    "unique_consecutive": "Dynamic shape operator",
    "argwhere": "Dynamic shape operator",
    "equal": "Data-dependent branching",
    "allclose": "Data-dependent branching",
    "manual_seed": "random state",
    "seed": "random state",
    "set_rng_state": "random state",
    "get_rng_state": "random state",
}


#: Reasons that are none with fullgraph=True, as PyTorch has symbols for such values then.
FORGIVEN = frozenset(("Tensor.item()", "Tensor.tolist()", "Dynamic shape operator", "random state"))


def breaks(name: str) -> str | None:
    """Why PyTorch breaks its graph at a function; None where it doesn't."""
    return _REASONS.get(name)


#: Functions that are computed at once, whatever a run without values would give.
NEEDS_VALUES = frozenset(
    """item tolist __bool__ is_nonzero __int__ __float__ __complex__ __index__ __contains__ __repr__ __str__ __format__ backward
    numpy __array__ data_ptr storage untyped_storage _typed_storage __dlpack__ __dlpack_device__ __deepcopy__ __reduce_ex__
    register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ detach_ set_ resize_ resize_as_ apply_ map_ map2_
    share_memory_ pin_memory
    is_pinned is_shared is_set_to manual_seed seed initial_seed get_rng_state set_rng_state allclose equal
    __setstate__ as_subclass _make_subclass __torch_dispatch__ save load compile vmap cond from_numpy frombuffer from_dlpack
    is_coalesced _assert_async""".split()
)
