"""Settings of PyTorch's executors of TorchScript, which programs switch and ask for.

They choose how an executor optimizes a graph, never what it gives. Here one executor runs all graphs as they are, so that the
values are held for who asks. Stands on nothing; torch._C offers the names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["SETTINGS"]

_values: dict[str, Any] = {
    "profiling_executor": True, "profiling_mode": True, "num_profiled_runs": 1,
    "fusion_strategy": [("STATIC", 2), ("DYNAMIC", 10)], "fuse_on_cpu": False, "fuse_on_gpu": False, "texpr": True,
    "llga": False, "autocast": True, "optimize": True, "inlining": True, "nvfuser": False, "nvfuser_guard": False, "llvm": False,
    "inline": False, "shapes_test": False, "texpr_reductions": False, "texpr_dynamic": False, "fuse_legacy": False,
    "tracer_warn": True, "autodiff_inlining": True,
}  # fmt: skip


def _exchanging(name: str) -> Callable[[Any], Any]:
    """A function that sets a value and gives the one before."""

    def exchange(value: Any) -> Any:
        before, _values[name] = _values[name], value
        return before

    return exchange


def _setting(name: str) -> Callable[[Any], None]:
    def setting(value: Any) -> None:
        _values[name] = value

    return setting


def _asking(name: str) -> Callable[[], Any]:
    return lambda: _values[name]


def _get_graph_executor_optimize(new_setting: bool | None = None) -> bool:
    """Whether graphs are optimized; sets it where a value is given."""
    before: bool = _values["optimize"]
    if new_setting is not None:
        _values["optimize"] = new_setting
    return before


def _jit_set_bailout_depth(depth: int) -> int:
    """Say how often a graph is made again for other shapes; gives how often it was before."""
    before = sum(times for _, times in _values["fusion_strategy"])
    _values["fusion_strategy"] = [("STATIC", depth)]
    return before


SETTINGS: dict[str, Callable[..., Any]] = {
    "_get_graph_executor_optimize": _get_graph_executor_optimize,
    **{f"_jit_set_{name}": _exchanging(name)
       for name in ("profiling_executor", "profiling_mode", "num_profiled_runs", "fusion_strategy")},
    "_jit_set_bailout_depth": _jit_set_bailout_depth,
    "_jit_get_num_profiled_runs": _asking("num_profiled_runs"),
    "_jit_set_llga_enabled": _exchanging("llga"), "_jit_llga_enabled": _asking("llga"),
    "_jit_set_autocast_mode": _exchanging("autocast"),
    "_jit_override_can_fuse_on_cpu": _setting("fuse_on_cpu"), "_jit_can_fuse_on_cpu": _asking("fuse_on_cpu"),
    "_jit_override_can_fuse_on_gpu": _setting("fuse_on_gpu"), "_jit_can_fuse_on_gpu": _asking("fuse_on_gpu"),
    "_jit_set_texpr_fuser_enabled": _setting("texpr"), "_jit_texpr_fuser_enabled": _asking("texpr"),
    "_jit_set_nvfuser_enabled": _setting("nvfuser"), "_jit_nvfuser_enabled": _asking("nvfuser"),
    "_jit_set_nvfuser_guard_mode": _setting("nvfuser_guard"),
    "_jit_set_te_must_use_llvm_cpu": _setting("llvm"), "_llvm_enabled": lambda: False,
    "_jit_get_te_must_use_llvm_cpu": _asking("llvm"),
    "_jit_set_texpr_reductions_enabled": _exchanging("texpr_reductions"),
    "_jit_texpr_reductions_enabled": _asking("texpr_reductions"),
    "_jit_set_texpr_dynamic_shape_enabled": _exchanging("texpr_dynamic"),
    "_jit_texpr_dynamic_shape_enabled": _asking("texpr_dynamic"),
    "_jit_override_can_fuse_on_cpu_legacy": _setting("fuse_legacy"), "_jit_can_fuse_on_cpu_legacy": _asking("fuse_legacy"),
    "_jit_set_tracer_state_warn": _setting("tracer_warn"), "_jit_get_tracer_state_warn": _asking("tracer_warn"),
    "_set_graph_executor_optimize": _setting("optimize"),
    "_jit_set_inline_everything_mode": _setting("inline"), "_jit_get_inline_everything_mode": _asking("inline"),
    "_jit_set_symbolic_shapes_test_mode": _exchanging("shapes_test"),
    "_jit_symbolic_shapes_test_mode_enabled": _asking("shapes_test"),
    "_debug_set_autodiff_subgraph_inlining": _setting("autodiff_inlining"),
    "_debug_set_fusion_group_inlining": _setting("inlining"), "_debug_get_fusion_group_inlining": _asking("inlining"),
}  # fmt: skip
