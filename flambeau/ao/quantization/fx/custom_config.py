"""What programs may say beside the qconfigs: modules of their own, inputs that come quantized, attributes to keep.

Stands on dataclasses; used by quantize_fx and the passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.ao.quantization.backend_config import BackendConfig
from flambeau.ao.quantization.qconfig_mapping import QConfigMapping
from flambeau.ao.quantization.quant_type import QuantType, _get_quant_type_to_str, _quant_type_from_str

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry"]

# The keys of the dicts that older programs pass.
STANDALONE_MODULE_NAME_DICT_KEY = "standalone_module_name"
STANDALONE_MODULE_CLASS_DICT_KEY = "standalone_module_class"
FLOAT_TO_OBSERVED_DICT_KEY = "float_to_observed_custom_module_class"
OBSERVED_TO_QUANTIZED_DICT_KEY = "observed_to_quantized_custom_module_class"
NON_TRACEABLE_MODULE_NAME_DICT_KEY = "non_traceable_module_name"
NON_TRACEABLE_MODULE_CLASS_DICT_KEY = "non_traceable_module_class"
INPUT_QUANTIZED_INDEXES_DICT_KEY = "input_quantized_idxs"
OUTPUT_QUANTIZED_INDEXES_DICT_KEY = "output_quantized_idxs"
PRESERVED_ATTRIBUTES_DICT_KEY = "preserved_attributes"


@dataclass
class StandaloneModuleConfigEntry:
    """How a module that is prepared by itself is prepared."""

    qconfig_mapping: QConfigMapping | None
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: BackendConfig | None


def _mapping_to_dict(mapping: dict[QuantType, dict[Any, Any]]) -> dict[str, Any]:
    return {_get_quant_type_to_str(kind): classes for kind, classes in mapping.items()}


class _Text:
    def __repr__(self) -> str:
        said = {name: value for name, value in self.__dict__.items() if len(value) > 0}
        return f"{type(self).__name__}({said})"


def _as(kind: Any, given: Any, key: str) -> Any:
    if given is None or isinstance(given, kind):
        return given
    if isinstance(given, dict):
        return kind.from_dict(given)
    raise ValueError(f'Expected {kind.__name__} in prepare_custom_config_dict["{key}"], got {type(given)}')


class PrepareCustomConfig(_Text):
    """What prepare_fx and prepare_qat_fx may be told of a model."""

    def __init__(self) -> None:
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[type, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: dict[QuantType, dict[type, type]] = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []
        self.preserved_attributes: list[str] = []

    def set_standalone_module_name(
        self,
        module_name: str,
        qconfig_mapping: Any,
        example_inputs: tuple[Any, ...],
        prepare_custom_config: Any,
        backend_config: Any,
    ) -> PrepareCustomConfig:
        """A module by name that is prepared and converted by itself."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(
        self,
        module_class: type,
        qconfig_mapping: Any,
        example_inputs: tuple[Any, ...],
        prepare_custom_config: Any,
        backend_config: Any,
    ) -> PrepareCustomConfig:
        """A class of modules that are prepared and converted by themselves."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(
        self, float_class: type, observed_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> PrepareCustomConfig:
        """The observed class of a class of the program's; it has `from_float`. ValueError unless STATIC."""
        if quant_type != QuantType.STATIC:
            raise ValueError("set_float_to_observed_mapping is currently only supported for static quantization")
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Modules by name into which tracing doesn't look."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Classes of modules into which tracing doesn't look."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Which inputs of the graph come quantized."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Which results of the graph stay quantized."""
        self.output_quantized_indexes = indexes
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> PrepareCustomConfig:
        """Attributes of the model that the graph module keeps."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """What `to_dict` gave, and what older programs pass."""
        given, made = prepare_custom_config_dict, cls()

        def entry(row: Any) -> Any:
            name, mapping, example_inputs, config, backend = row
            return (
                name,
                _as(QConfigMapping, mapping, "qconfig_mapping"),
                example_inputs,
                _as(PrepareCustomConfig, config, "prepare_custom_config"),
                _as(BackendConfig, backend, "backend_config"),
            )

        for row in given.get(STANDALONE_MODULE_NAME_DICT_KEY, []):
            made.set_standalone_module_name(*entry(row))
        for row in given.get(STANDALONE_MODULE_CLASS_DICT_KEY, []):
            made.set_standalone_module_class(*entry(row))
        for kind, classes in given.get(FLOAT_TO_OBSERVED_DICT_KEY, {}).items():
            for float_class, observed in classes.items():
                made.set_float_to_observed_mapping(float_class, observed, _quant_type_from_str(kind))
        made.set_non_traceable_module_names(given.get(NON_TRACEABLE_MODULE_NAME_DICT_KEY, []))
        made.set_non_traceable_module_classes(given.get(NON_TRACEABLE_MODULE_CLASS_DICT_KEY, []))
        made.set_input_quantized_indexes(given.get(INPUT_QUANTIZED_INDEXES_DICT_KEY, []))
        made.set_output_quantized_indexes(given.get(OUTPUT_QUANTIZED_INDEXES_DICT_KEY, []))
        return made.set_preserved_attributes(given.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, without what isn't said."""

        def row(key: Any, e: StandaloneModuleConfigEntry) -> tuple[Any, ...]:
            parts = (e.qconfig_mapping, e.prepare_custom_config)
            mapping, config = (part.to_dict() if part else None for part in parts)  # type: ignore[attr-defined]
            return (key, mapping, e.example_inputs, config, e.backend_config)

        made = {
            STANDALONE_MODULE_NAME_DICT_KEY: [row(*item) for item in self.standalone_module_names.items()],
            STANDALONE_MODULE_CLASS_DICT_KEY: [row(*item) for item in self.standalone_module_classes.items()],
            FLOAT_TO_OBSERVED_DICT_KEY: _mapping_to_dict(self.float_to_observed_mapping),
            NON_TRACEABLE_MODULE_NAME_DICT_KEY: self.non_traceable_module_names,
            NON_TRACEABLE_MODULE_CLASS_DICT_KEY: self.non_traceable_module_classes,
            INPUT_QUANTIZED_INDEXES_DICT_KEY: self.input_quantized_indexes,
            OUTPUT_QUANTIZED_INDEXES_DICT_KEY: self.output_quantized_indexes,
            PRESERVED_ATTRIBUTES_DICT_KEY: self.preserved_attributes,
        }
        return {key: value for key, value in made.items() if len(value) > 0}  # type: ignore[arg-type]


class ConvertCustomConfig(_Text):
    """What convert_fx may be told of a model."""

    def __init__(self) -> None:
        self.observed_to_quantized_mapping: dict[QuantType, dict[type, type]] = {}
        self.preserved_attributes: list[str] = []

    def set_observed_to_quantized_mapping(
        self, observed_class: type, quantized_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> ConvertCustomConfig:
        """The quantized class of an observed class of the program's; it has `from_observed`."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> ConvertCustomConfig:
        """Attributes of the model that the graph module keeps."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """What `to_dict` gave, and what older programs pass."""
        made = cls()
        for kind, classes in convert_custom_config_dict.get(OBSERVED_TO_QUANTIZED_DICT_KEY, {}).items():
            for observed, quantized in classes.items():
                made.set_observed_to_quantized_mapping(observed, quantized, _quant_type_from_str(kind))
        return made.set_preserved_attributes(convert_custom_config_dict.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, without what isn't said."""
        made: dict[str, Any] = {
            OBSERVED_TO_QUANTIZED_DICT_KEY: _mapping_to_dict(self.observed_to_quantized_mapping),
            PRESERVED_ATTRIBUTES_DICT_KEY: self.preserved_attributes,
        }
        return {key: value for key, value in made.items() if value}


class FuseCustomConfig(_Text):
    """What fuse_fx may be told of a model."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def set_preserved_attributes(self, attributes: list[str]) -> FuseCustomConfig:
        """Attributes of the model that the graph module keeps."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """What `to_dict` gave, and what older programs pass. ValueError for anything but a dict."""
        if not isinstance(fuse_custom_config_dict, dict):
            raise ValueError("fuse_custom_config_dict must be a dictionary")
        return cls().set_preserved_attributes(fuse_custom_config_dict.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))

    def to_dict(self) -> dict[str, Any]:
        """The same as a dict, without what isn't said."""
        return {PRESERVED_ATTRIBUTES_DICT_KEY: self.preserved_attributes} if self.preserved_attributes else {}
