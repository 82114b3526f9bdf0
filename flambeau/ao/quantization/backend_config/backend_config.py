"""What a backend says of itself: which patterns it can quantize, with which dtypes, and how they are observed.

Stands on dataclasses; used by the tables beside it and by the passes of `fx`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import flambeau as torch

__all__ = ["BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints", "ObservationType"]


class ObservationType(Enum):
    """How the result of a pattern is observed: by an observer of its own, by that of its input, or, as its input, not at all."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype and what a backend demands of the integers, the scale and the zero point that come with it."""

    dtype: Any = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


_WITH_CONSTRAINTS = ("input_dtype", "output_dtype", "weight_dtype")


@dataclass
class DTypeConfig:
    """The dtypes with which a pattern can be computed; those of input, result and weight may have constraints."""

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Any
    is_dynamic: bool | None

    def __init__(
        self,
        input_dtype: Any = None,
        output_dtype: Any = None,
        weight_dtype: Any = None,
        bias_dtype: Any = None,
        is_dynamic: bool | None = None,
    ) -> None:
        for name, given in zip(_WITH_CONSTRAINTS, (input_dtype, output_dtype, weight_dtype)):
            whole = given if isinstance(given, DTypeWithConstraints) else DTypeWithConstraints(dtype=given)
            setattr(self, f"{name}_with_constraints", whole)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    @property
    def input_dtype(self) -> Any:
        """The dtype of the input."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> Any:
        """The dtype of the result."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> Any:
        """The dtype of the weight."""
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """What `to_dict` gave; plain dtypes stand for such without constraints."""
        for name in _WITH_CONSTRAINTS:
            given = dtype_config_dict.get(name)
            if given is not None and not isinstance(given, torch.dtype | DTypeWithConstraints):
                raise ValueError("Expected dtype or DTypeWithConstraints, got: ", given)
        names = (*_WITH_CONSTRAINTS, "bias_dtype", "is_dynamic")
        return cls(**{name: dtype_config_dict.get(name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, without what isn't said."""
        made: dict[str, Any] = {name: getattr(self, f"{name}_with_constraints") for name in _WITH_CONSTRAINTS}
        made = {name: value for name, value in made.items() if value.dtype is not None}
        if self.bias_dtype is not None:
            made["bias_dtype"] = self.bias_dtype
        if self.is_dynamic is not None:
            made["is_dynamic"] = self.is_dynamic
        return made


def _get_pattern_in_reversed_nested_tuple_format(config: BackendPatternConfig) -> Any:
    """The pattern as graphs are matched from their end: (a, b) as (b, a), (a, b, c) as (c, (b, a))."""
    if config._pattern_complex_format is not None:
        return config._pattern_complex_format
    pattern = config.pattern
    if pattern is None:
        raise ValueError("Either 'pattern' or 'pattern_complex_format' must be specified in BackendPatternConfig")
    if not isinstance(pattern, tuple):
        return pattern
    if len(pattern) == 2:
        return (pattern[1], pattern[0])
    if len(pattern) == 3:
        return (pattern[2], (pattern[1], pattern[0]))
    raise ValueError(f"Expected a tuple with 2 or 3 elements, got: {pattern}")


class BackendConfig:
    """What a backend can quantize: a BackendPatternConfig for each pattern; of two for one pattern the later counts."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({self.__dict__})"

    def set_name(self, name: str) -> BackendConfig:
        """Give the backend a name."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Say how one pattern is quantized."""
        self._pattern_complex_format_to_config[_get_pattern_in_reversed_nested_tuple_format(config)] = config
        return self

    def set_backend_pattern_configs(self, configs: list[BackendPatternConfig]) -> BackendConfig:
        """Say how several patterns are quantized."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """All that was said of patterns, in order."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """What `to_dict` gave."""
        made = cls(backend_config_dict.get("name", ""))
        for given in backend_config_dict.get("configs", []):
            if isinstance(given, BackendPatternConfig):
                made.set_backend_pattern_config(given)
            elif isinstance(given, dict):
                made.set_backend_pattern_config(BackendPatternConfig.from_dict(given))
            else:
                raise ValueError(f"Expected backend_config_dict['configs'] to be a dictionary, got {given}")
        return made

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}


# The attributes of a BackendPatternConfig and their keys in its dict, in order.
_KEYS = {
    "pattern": "pattern",
    "root_module": "root_module",
    "qat_module": "qat_module",
    "reference_quantized_module": "reference_quantized_module_for_root",
    "fused_module": "fused_module",
    "fuser_method": "fuser_method",
    "_root_node_getter": "root_node_getter",
    "_extra_inputs_getter": "extra_inputs_getter",
    "_num_tensor_args_to_observation_type": "num_tensor_args_to_observation_type",
    "_input_type_to_index": "input_type_to_index",
    "_pattern_complex_format": "pattern_complex_format",
}


class BackendPatternConfig:
    """How a backend quantizes a pattern: a class, a function, the name of a method, or a tuple of such, the first of which is
    called first.
    """

    def __init__(self, pattern: Any = None) -> None:
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: Any = None
        self.qat_module: Any = None
        self.reference_quantized_module: Any = None
        self.fused_module: Any = None
        self.fuser_method: Any = None
        self._root_node_getter: Any = None
        self._extra_inputs_getter: Any = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        said = {name: value for name, value in self.__dict__.items() if value is not None and not (_is_empty(value))}
        return f"BackendPatternConfig({said})"

    def _with(self, name: str, value: Any) -> BackendPatternConfig:
        setattr(self, name, value)
        return self

    def set_pattern(self, pattern: Any) -> BackendPatternConfig:
        """The pattern. ValueError if it was given in the complex format."""
        if self._pattern_complex_format is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._with("pattern", pattern)

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """How the pattern's result is observed."""
        return self._with("observation_type", observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """Dtypes with which the pattern can be computed, beside those already given."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """The dtypes with which the pattern can be computed."""
        return self._with("dtype_configs", dtype_configs)

    def set_root_module(self, root_module: Any) -> BackendPatternConfig:
        """The class of the module in the pattern that has the weight."""
        return self._with("root_module", root_module)

    def set_qat_module(self, qat_module: Any) -> BackendPatternConfig:
        """The class of the pattern's module while it is trained."""
        return self._with("qat_module", qat_module)

    def set_reference_quantized_module(self, reference_quantized_module: Any) -> BackendPatternConfig:
        """The class of the reference module that the root becomes."""
        return self._with("reference_quantized_module", reference_quantized_module)

    def set_fused_module(self, fused_module: Any) -> BackendPatternConfig:
        """The class of the module that the pattern is fused to."""
        return self._with("fused_module", fused_module)

    def set_fuser_method(self, fuser_method: Callable[..., Any]) -> BackendPatternConfig:
        """What fuses the pattern's modules."""
        return self._with("fuser_method", fuser_method)

    def _set_root_node_getter(self, root_node_getter: Callable[..., Any]) -> BackendPatternConfig:
        return self._with("_root_node_getter", root_node_getter)

    def _set_extra_inputs_getter(self, extra_inputs_getter: Callable[..., Any]) -> BackendPatternConfig:
        return self._with("_extra_inputs_getter", extra_inputs_getter)

    def _set_num_tensor_args_to_observation_type(self, types: dict[int, ObservationType]) -> BackendPatternConfig:
        return self._with("_num_tensor_args_to_observation_type", types)

    def _set_input_type_to_index(self, input_type_to_index: dict[str, int]) -> BackendPatternConfig:
        return self._with("_input_type_to_index", input_type_to_index)

    def _set_pattern_complex_format(self, pattern: Any) -> BackendPatternConfig:
        if self.pattern is not None:
            raise ValueError("Only one of 'pattern' or 'pattern_complex_format' can be set")
        return self._with("_pattern_complex_format", pattern)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """What `to_dict` gave. ValueError for dtypes that are neither dicts nor DTypeConfig."""
        given = backend_pattern_config_dict
        made = cls()
        if "observation_type" in given:
            made.observation_type = given["observation_type"]
        for dtypes in given.get("dtype_configs", []):
            if isinstance(dtypes, dict):
                dtypes = DTypeConfig.from_dict(dtypes)
            elif not isinstance(dtypes, DTypeConfig):
                raise ValueError(
                    f"Expected a list of DTypeConfigs in backend_pattern_config_dict[\"dtype_configs\"], got '{type(dtypes)}'"
                )
            made.add_dtype_config(dtypes)
        for name, key in _KEYS.items():
            if given.get(key) is not None:
                setattr(made, name, given[key])
        return made

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, without what isn't said."""
        made: dict[str, Any] = {
            "observation_type": self.observation_type,
            "dtype_configs": [each.to_dict() for each in self.dtype_configs],
        }
        for name, key in _KEYS.items():
            value = getattr(self, name)
            if value is not None and not _is_empty(value):
                made[key] = value
        return made


def _is_empty(value: Any) -> bool:
    return isinstance(value, list | dict) and not value
