"""Weights and results of a float model and of the eagerly quantized one, side by side. Stands on ao.quantization.

A logger is a module that keeps what it is called with, in `stats`. Comparisons have the names of the quantized model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.quantized import dynamic as nnqd
from flambeau.ao.quantization.qconfig import QConfig
from flambeau.ao.quantization.quantization_mappings import get_default_compare_output_module_list
from flambeau.ao.quantization.quantize import prepare

__all__ = [
    "Logger",
    "OutputLogger",
    "Shadow",
    "ShadowLogger",
    "compare_model_outputs",
    "compare_model_stub",
    "compare_weights",
    "get_logger_dict",
    "get_matching_activations",
    "prepare_model_outputs",
    "prepare_model_with_stubs",
]

NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST = {nnqd.Linear, nnq.Linear, nnqd.LSTM, nn.LSTM}


def _find_match(names: Iterable[str], name: str, last: str) -> str | None:
    """The name of the same module's value, or of the module's around it; None for a name that doesn't end so."""
    parts = name.split(".")
    if parts[-1] != last:
        return None
    # Packed weights lie one module deeper than those of floats.
    depths = [1, 2] if last == "_packed_params" else [1]
    for depth in depths:
        module = parts[:-depth]
        if depth == 2 and not module:
            return None
        for other in names:
            there = other.split(".")
            if "".join(module) in ("".join(there[:-1]), "".join(there[:-2])):
                return other
    return None


def compare_weights(float_dict: dict[str, Any], quantized_dict: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The weights of two state dicts: by the quantized one's names, "float" and "quantized"."""
    made: dict[str, dict[str, Any]] = {}
    for key, value in quantized_dict.items():
        match = _find_match(float_dict, key, "weight")
        if match is not None:
            made[key] = {"float": float_dict[match], "quantized": value}
            continue
        match = _find_match(float_dict, key, "_packed_params")
        if match is not None:
            made[key] = {"float": float_dict[match], "quantized": value[0]}
        parts = key.split(".")
        if parts[-1] == "param" and parts[-3] == "_all_weight_values":
            recurrent = ".".join([*parts[:-3], f"weight_hh_l{parts[-2]}"])
            if recurrent in float_dict:  # of a layer's two weights that of the hidden state
                made[key] = {"float": float_dict[recurrent], "quantized": value.hh.unpack()[0]}
    return made


def get_logger_dict(mod: Any, prefix: str = "") -> dict[str, dict[str, Any]]:
    """What the loggers of a model have kept, by the names of the modules that they are in and `stats`."""
    made: dict[str, dict[str, Any]] = {}
    for name, module in mod.named_modules(prefix=prefix, remove_duplicate=False):
        logger = next((child for child in module.children() if isinstance(child, Logger)), None)
        if logger is not None:
            made[f"{name}.stats" if name else "stats"] = logger.stats
    return made


class Logger(nn.Module):
    """What loggers have in common: `stats`."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = torch.quint8

    def forward(self, x: Any) -> Any:
        """Keep x."""


class ShadowLogger(Logger):
    """Keeps lists of what a quantized module and the float one have given."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["float"], self.stats["quantized"] = [], []

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        """Keep x, the quantized result, and y, that of floats; of several their first."""
        for name, value in (("quantized", x), ("float", y)):
            self.stats[name].append((value[0] if len(value) > 1 else value).detach())


class OutputLogger(Logger):
    """Keeps a list of all results."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Any) -> Any:
        """x, which is kept."""
        self.stats["tensor_val"].append(x)
        return x


def _lists(value: Any) -> Any:
    return [_lists(each) for each in value] if type(value) is tuple else value


def _dequantized(value: Any) -> Any:
    if type(value) is list:
        return [_dequantized(each) for each in value]
    return value.dequantize() if isinstance(value, torch.Tensor) and value.is_quantized else value


class Shadow(nn.Module):
    """A quantized module, whose results it gives, and the float one, called with the same numbers; a logger sees both."""

    def __init__(self, q_module: Any, float_module: Any, logger_cls: Any) -> None:
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.dequant = nnq.DeQuantize()
        self.logger = logger_cls()

    def _both(self, name: str, *args: Any) -> Any:
        made = getattr(self.orig_module, name)(*args)
        self.logger(made, getattr(self.shadow_module, name)(*(_dequantized(each) for each in args)))
        return made

    def forward(self, *x: Any) -> Any:
        """The quantized module's result."""
        return self._both("__call__", *_lists(x))

    def add(self, x: Any, y: Any) -> Any:
        """The sum; the others likewise, as those of FloatFunctional."""
        return self._both("add", x, y)

    def add_scalar(self, x: Any, y: float) -> Any:
        """The sum with a number."""
        return self._both("add_scalar", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """The product."""
        return self._both("mul", x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """The product with a number."""
        return self._both("mul_scalar", x, y)

    def cat(self, x: list[Any], dim: int = 0) -> Any:
        """The tensors one after the other."""
        return self._both("cat", x, dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        """The sum, without what is negative."""
        return self._both("add_relu", x, y)


def prepare_model_with_stubs(float_module: Any, q_module: Any, module_swap_list: Any, logger_cls: Any) -> None:
    """Put shadows in the place of quantized modules whose float ones are of these classes."""
    floats = dict(float_module.named_children())
    for name, module in list(q_module.named_children()):
        if name not in floats:
            continue
        own = floats[name]
        if type(own) not in module_swap_list:
            prepare_model_with_stubs(own, module, module_swap_list, logger_cls)
        elif [type(each) for each in module.modules()] != [type(each) for each in own.modules()]:
            q_module._modules[name] = Shadow(module, own, logger_cls)


def compare_model_stub(
    float_model: Any, q_model: Any, module_swap_list: Any, *data: Any, logger_cls: Any = ShadowLogger
) -> dict[str, dict[str, Any]]:
    """Call the quantized model with shadows; what the loggers have kept ("float" and "quantized"), by name."""
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


def get_matching_activations(float_module: Any, q_module: Any) -> dict[str, dict[str, Any]]:
    """What the loggers at the same places of two models have kept: "float" and "quantized", by name."""
    floats = get_logger_dict(float_module)
    made = {}
    for key, kept in get_logger_dict(q_module).items():
        match = _find_match(sorted(floats, reverse=True), key, "stats") if kept["tensor_val"] else None
        if match is not None:
            made[key] = {"float": floats[match]["tensor_val"], "quantized": kept["tensor_val"]}
    return made


def prepare_model_outputs(float_module: Any, q_module: Any, logger_cls: Any = OutputLogger, allow_list: Any = None) -> None:
    """Put loggers behind the modules of both models that are of these classes."""
    allow_list = get_default_compare_output_module_list() if allow_list is None else allow_list
    both: tuple[tuple[Any, dict[str, Any]], ...] = (
        (float_module, {}),
        (q_module, {"observer_non_leaf_module_list": NON_LEAF_MODULE_TO_ADD_OBSERVER_ALLOW_LIST}),
    )
    for module, more in both:
        module.qconfig = QConfig(activation=logger_cls, weight=None)
        prepare(module, inplace=True, allow_list=allow_list, prepare_custom_config_dict={}, **more)


def compare_model_outputs(
    float_model: Any, q_model: Any, *data: Any, logger_cls: Any = OutputLogger, allow_list: Any = None
) -> dict[str, dict[str, Any]]:
    """Call both models with the same data; what their modules gave ("float" and "quantized"), by name."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
