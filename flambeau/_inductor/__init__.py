"""torch._inductor: PyTorch's compiler of graphs, which flambeau doesn't have; its settings, and names that say so."""

from __future__ import annotations

from typing import Any

from flambeau._inductor import config
from flambeau.core.operator import unsupported as _unsupported

__all__ = ["config", "cudagraph_mark_step_begin", "list_mode_options", "list_options"]

globals().update(
    _unsupported.all_of(
        "_inductor.",
        "functions are not captured to graphs that could be compiled; call the function itself",
        "aot_compile aoti_compile_and_package aoti_load_package compile standalone_compile",
    )
)

_MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "lite": {
        "fallback_by_default": True,
        "selective_decompose": True,
        "reorder_for_peak_memory": False,
        "reorder_for_compute_comm_overlap": False,
        "triton.reorder_for_reducing_graph_partitions": False,
        "use_pre_grad_passes": False,
        "use_joint_graph_passes": False,
        "use_post_grad_passes": False,
        "use_dce": False,
        "allow_buffer_reuse": False,
    },
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True},
}


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The settings that torch.compile's modes stand for in PyTorch; those of one mode if it is given."""
    return {name: dict(options) for name, options in _MODES.items()} if mode is None else dict(_MODES[mode])


def list_options() -> list[str]:
    """The names of settings."""
    return list(config.shallow_copy_dict())  # type: ignore[attr-defined]


def cudagraph_mark_step_begin() -> None:
    """The beginning of a step for CUDA graphs, of which there are none."""
