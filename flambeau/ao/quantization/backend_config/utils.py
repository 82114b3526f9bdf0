"""Tables that the passes of `fx` look things up in, by pattern, made of a BackendConfig. Stands on backend_config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.ao.quantization.backend_config.backend_config import BackendConfig, DTypeConfig

__all__ = [
    "entry_to_pretty_str",
    "get_fused_module_classes",
    "get_fuser_method_mapping",
    "get_fusion_pattern_to_extra_inputs_getter",
    "get_fusion_pattern_to_root_node_getter",
    "get_module_to_qat_module",
    "get_pattern_to_dtype_configs",
    "get_pattern_to_input_type_to_index",
    "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module",
    "pattern_to_human_readable",
    "remove_boolean_dispatch_from_name",
]


def _table(config: BackendConfig, attribute: str) -> dict[Any, Any]:
    """An attribute of each pattern that has it."""
    return {
        pattern: getattr(each, attribute)
        for pattern, each in config._pattern_complex_format_to_config.items()
        if getattr(each, attribute) is not None
    }


def get_pattern_to_dtype_configs(backend_config: BackendConfig) -> dict[Any, list[DTypeConfig]]:
    """The dtypes of each pattern."""
    return _table(backend_config, "dtype_configs")


def get_pattern_to_input_type_to_index(backend_config: BackendConfig) -> dict[Any, dict[str, int]]:
    """Which arguments of each pattern are its weight and bias."""
    return _table(backend_config, "_input_type_to_index")


def get_qat_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """Classes of modules that are trained."""
    return tuple(set(_table(backend_config, "qat_module").values()))


def get_fused_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """Classes of fused modules."""
    return tuple(set(_table(backend_config, "fused_module").values()))


def get_module_to_qat_module(backend_config: BackendConfig) -> dict[Any, type]:
    """The class that is trained in place of each pattern."""
    return _table(backend_config, "qat_module")


def get_root_module_to_quantized_reference_module(backend_config: BackendConfig) -> dict[type, type]:
    """The reference class of each class with a weight."""
    return {
        config.root_module: config.reference_quantized_module
        for config in backend_config.configs
        if config.root_module is not None and config.reference_quantized_module is not None
    }


def get_fuser_method_mapping(backend_config: BackendConfig) -> dict[Any, Callable[..., Any]]:
    """What fuses the modules of each pattern."""
    return _table(backend_config, "fuser_method")


def get_fusion_pattern_to_root_node_getter(backend_config: BackendConfig) -> dict[Any, Callable[..., Any]]:
    """What finds the node with the weight in a match of each pattern."""
    return _table(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(backend_config: BackendConfig) -> dict[Any, Callable[..., Any]]:
    """What finds the inputs of a match of each pattern beside those of the node with the weight."""
    return _table(backend_config, "_extra_inputs_getter")


def remove_boolean_dispatch_from_name(p: Any) -> Any:
    """The name of a function, also of those that return indices on demand."""
    import flambeau as torch

    for name in (f"{kind}{dims}d" for kind in ("fractional_max_pool", "max_pool", "adaptive_max_pool") for dims in (1, 2, 3)):
        if p is getattr(torch.nn.functional, name, None):
            return f"torch.nn.functional.{name}"
    if "boolean_dispatch" in str(p):
        raise AssertionError(f"{p} does not have a human readable representation in quantization documentation")
    return p


def pattern_to_human_readable(p: Any) -> Any:
    """A pattern whose parts are names."""
    if isinstance(p, tuple):
        return tuple(pattern_to_human_readable(each) for each in p)
    if isinstance(p, str):
        return p
    return remove_boolean_dispatch_from_name(p)


def entry_to_pretty_str(entry: dict[str, Any]) -> str:
    """An entry of a backend's dict as text for documentation."""

    def of(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"'{k}': {of(v)}" for k, v in value.items()) + "}"
        return str(value)

    return "{\n" + "".join(f"  '{key}': {of(value)},\n" for key, value in entry.items()) + "}"
