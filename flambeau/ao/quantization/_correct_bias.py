"""Biases of a quantized model, moved by the mean error of their channels (arXiv:1906.04721). Stands on ao.ns."""

from __future__ import annotations

from typing import Any

from flambeau import nn
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.ns import _numeric_suite as ns

__all__ = ["MeanShadowLogger", "bias_correction", "get_module", "get_param", "parent_child_names"]

_supported_modules = {nn.Linear, nn.Conv2d}
_supported_modules_quantized = {nnq.Linear, nnq.Conv2d}


def get_module(model: Any, name: str) -> Any:
    """The module of a name."""
    return dict(model.named_modules())[name]


def parent_child_names(name: str) -> tuple[str, str]:
    """The name of the module around one, and its own name there."""
    parent, _, own = name.rpartition(".")
    return parent, own


def get_param(module: Any, attr: str) -> Any:
    """A parameter, or what the method of its name gives."""
    found = getattr(module, attr, None)
    return found() if callable(found) else found


class MeanShadowLogger(ns.Logger):
    """Keeps the means of what a quantized module and the float one have given."""

    float_sum: Any
    quant_sum: Any

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        """Take in x, the quantized result, and y, that of floats."""
        x = x.dequantize() if x.is_quantized else x
        self.count += 1
        self.quant_sum = x if self.quant_sum is None else self.quant_sum + x
        self.float_sum = y if self.float_sum is None else self.float_sum + y
        self.stats["quantized"], self.stats["float"] = self.quant_sum / self.count, self.float_sum / self.count

    def clear(self) -> None:
        """Forget what was seen."""
        self.stats["float"] = self.stats["quantized"] = None
        self.count = 0
        self.float_sum = self.quant_sum = None


def bias_correction(
    float_model: Any,
    quantized_model: Any,
    img_data: Any,
    target_modules: Any = _supported_modules_quantized,
    neval_batches: int | None = None,
) -> None:
    """Take the mean error of each channel away from the biases of a quantized model, module by module, in place.

    img_data: batches, whose first items the model is called with, at most neval_batches of them; target_modules: the classes of
    modules whose biases are moved.
    """
    ns.prepare_model_with_stubs(float_model, quantized_model, _supported_modules, MeanShadowLogger)
    for name in [name for name, module in quantized_model.named_modules() if type(module) in target_modules]:
        bias = get_param(get_module(quantized_model, name), "bias")
        if bias is None:
            continue
        for count, data in enumerate(img_data, start=1):
            quantized_model(data[0])
            if count == neval_batches:
                break
        means = ns.get_logger_dict(quantized_model)[parent_child_names(name)[0] + ".stats"]
        error = means["quantized"] - means["float"]
        bias.data = bias.data - error.mean([dim for dim in range(error.dim()) if dim != 1])
        for module in quantized_model.modules():
            if isinstance(module, MeanShadowLogger):
                module.clear()
