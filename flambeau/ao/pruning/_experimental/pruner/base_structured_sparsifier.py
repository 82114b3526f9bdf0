"""Masks of rows, and models without them: what pruners of rows have in common. Stands on fx and prune_functions."""

from __future__ import annotations

import operator
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.ao.pruning._experimental.pruner import prune_functions as functions
from flambeau.ao.pruning._experimental.pruner.match_utils import apply_match
from flambeau.ao.pruning._experimental.pruner.parametrization import BiasHook, FakeStructuredSparsity, module_contains_param
from flambeau.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier
from flambeau.fx import symbolic_trace
from flambeau.nn.utils import parametrize

__all__ = ["BaseStructuredSparsifier"]

F = nn.functional
_ACTIVATIONS = (
    "relu rrelu hardtanh relu6 sigmoid hardsigmoid tanh silu mish hardswish elu celu selu hardshrink leaky_relu logsigmoid "
    "softplus prelu softsign tanhshrink gelu"
)
_ACTIVATION_MODULES = (
    "ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU Hardshrink LeakyReLU LogSigmoid "
    "Softplus PReLU Softsign Tanhshrink GELU"
)


def _get_supported_structured_pruning_modules() -> set[Any]:
    """Classes whose weights are masked where a configuration says nothing."""
    return {nn.Linear, nn.Conv2d, nn.LSTM}


def _get_supported_activation_functions() -> set[Any]:
    return {getattr(F, name) for name in _ACTIVATIONS.split()}


def _get_supported_activation_modules() -> set[Any]:
    return {getattr(nn, name) for name in _ACTIVATION_MODULES.split()}


def _get_default_structured_pruning_patterns() -> dict[Any, Any]:
    """What is done with the modules and functions of a chain of calls."""
    conv, linear = nn.Conv2d, nn.Linear
    patterns: dict[Any, Any] = {
        (linear, "output"): functions.prune_linear,
        (linear, linear): functions.prune_linear_linear,
        (conv, "output"): functions.prune_conv2d,
        (conv, conv): functions.prune_conv2d_conv2d,
        (nn.LSTM, operator.getitem, linear): functions.prune_lstm_output_linear,
        (nn.LSTM, operator.getitem, nn.LayerNorm, linear): functions.prune_lstm_output_layernorm_linear,
    }
    for activation in (*_get_supported_activation_functions(), *_get_supported_activation_modules()):
        patterns[linear, activation, linear] = functions.prune_linear_activation_linear
        patterns[conv, activation, conv] = functions.prune_conv2d_activation_conv2d
        for pool in (nn.AvgPool2d, F.avg_pool2d, nn.MaxPool2d, F.max_pool2d):
            patterns[conv, activation, pool, conv] = functions.prune_conv2d_activation_pool_conv2d
            patterns[conv, pool, activation, conv] = functions.prune_conv2d_pool_activation_conv2d
    for adaptive in (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d):
        for flatten in (nn.Flatten, torch.flatten):
            patterns[conv, adaptive, flatten, linear] = functions.prune_conv2d_pool_flatten_linear
    return patterns


class BaseStructuredSparsifier(BaseSparsifier):
    """Masks rows of weights, and takes them out of the model with `prune`.

    defaults: settings of all tensors; `prune_bias` (default: True) masks biases too. patterns: chains of classes of modules,
    functions and "output", and for each a function of their modules and functions that takes the rows out.
    """

    def __init__(self, defaults: dict[str, Any] | None, patterns: dict[Any, Any] | None = None) -> None:
        super().__init__(defaults)
        self.patterns = _get_default_structured_pruning_patterns() if patterns is None else patterns

    def make_config_from_model(self, model: Any, SUPPORTED_MODULES: Any = None) -> None:
        """Let all weights of modules of these classes be masked (default: Linear, Conv2d, LSTM)."""
        super().make_config_from_model(model, SUPPORTED_MODULES or _get_supported_structured_pruning_modules())

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            tensor = getattr(module, name)
            mask = group.get("mask", torch.ones(tensor.shape[0], dtype=torch.bool, device=tensor.device))
            self.state[group["tensor_fqn"]]["mask"] = mask
            kind = group.get("parametrization", FakeStructuredSparsity)
            parametrize.register_parametrization(module, name, kind(mask))
            if isinstance(module, nn.Linear | nn.Conv2d):
                prune_bias = group.get("prune_bias", True)
                if module.bias is not None:  # the hook adds it, so that what is before it is zero in masked rows
                    module.register_parameter("_bias", nn.Parameter(module.bias.detach()))
                    module.bias = None  # type: ignore[assignment]
                    module.prune_bias = prune_bias
                module.register_forward_hook(BiasHook(module.parametrizations.weight[0], prune_bias))  # type: ignore[union-attr,index]

    def prune(self) -> Any:
        """The model, traced, without the masked rows. Its modules are those of the model, which are changed.

        Exception for a masked module that is in no chain of the patterns.
        """
        self.traced = symbolic_trace(self.model)
        modules: dict[str, Any] = dict(self.traced.named_modules())
        for node in self.traced.graph.nodes:
            for pattern, take_out in self.patterns.items():
                matched = apply_match(modules, pattern, node, [])
                first = modules.get(str(node.target))
                if matched is None or first is None or not module_contains_param(first, FakeStructuredSparsity):
                    continue
                calls = [each for each in matched if each.op in ("call_module", "call_function")]
                take_out(*(modules[each.target] if each.op == "call_module" else each.target for each in calls))
        for module in self.traced.modules():
            if module_contains_param(module, FakeStructuredSparsity):
                raise Exception(f"Error: {module} still contains FakeStructuredSparsity parametrizations!")
        self.traced.graph.lint()
        self.traced.recompile()
        return self.traced
