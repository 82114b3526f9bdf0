"""Derivatives found by the names in two schemas: `gelu_backward(grad_output, self, approximate)` asks for what `gelu` was given.

Stands on graphs; part of the room derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.graphs import DERIVATIVES
from flambeau.dispatcher.namespaces import ops
from flambeau.dispatcher.schema import FunctionSchema

__all__: list[str] = []

aten: Any = ops.aten

#: Operators whose derivative is another one's, where that isn't its own name with `_backward`.
_DERIVED = {
    "_softmax": "_softmax_backward_data", "_log_softmax": "_log_softmax_backward_data", "nll_loss_forward": "nll_loss_backward",
    "nll_loss2d_forward": "nll_loss2d_backward", "log_sigmoid_forward": "log_sigmoid_backward",
    "multilabel_margin_loss_forward": "multilabel_margin_loss_backward", "embedding": "embedding_dense_backward",
    "_native_batch_norm_legit": "native_batch_norm_backward",
}  # fmt: skip
_OWN_NAME = """
    gelu silu mish hardsigmoid hardswish hardtanh hardshrink softshrink softplus leaky_relu logit glu tanh sigmoid mse_loss
    smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy multi_margin_loss avg_pool2d avg_pool3d
    max_pool2d_with_indices max_pool3d_with_indices _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d
    adaptive_max_pool3d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d
    upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
    _upsample_bilinear2d_aa _upsample_bicubic2d_aa reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d
    replication_pad2d replication_pad3d grid_sampler_2d grid_sampler_3d native_layer_norm native_group_norm native_batch_norm
    convolution _scaled_dot_product_flash_attention_for_cpu _prelu_kernel native_dropout
""".split()
#: Losses whose arguments may change places.
_SYMMETRIC = frozenset(("mse_loss", "smooth_l1_loss", "huber_loss"))
#: What a derivative calls a result of the operator, by its position.
_RESULTS = {"output": 0, "out": 0, "result": 0, "indices": 1, "mean": 1, "rstd": 2, "save_mean": 1, "save_invstd": 2, "mask": 1,
            "is_target": 1}  # fmt: skip
#: Names of steps that PyTorch doesn't call by the operator's name.
_STEPS = {"_scaled_dot_product_flash_attention_for_cpu": "ScaledDotProductFlashAttentionForCpuBackward0"}


def _by_names(name: str, backward: str) -> None:
    """Declare the derivative of an operator as a call of `backward`, whose arguments are the operator's by their names."""
    schema = builtin_schemas.schema_of(f"aten::{name}", "default")
    asked = builtin_schemas.schema_of(f"aten::{backward}", "default").arguments[1:]
    named = {a.name for a in schema.arguments}
    tensors = [a.name for a in schema.arguments if str(a.type) in ("Tensor", "Optional[Tensor]")]
    results = {r.name: i for i, r in enumerate(schema.returns) if r.name}
    single = len(schema.returns) == 1
    sources = {a.name: a.name if a.name in named else _result(a.name, results, single) for a in asked}
    saved = list(dict.fromkeys([x for n, x in sources.items() if x is not None]))
    extra = [n for n in _shaped(asked, tensors, schema) if n not in saved]
    call = getattr(aten, backward).default
    masked = len(builtin_schemas.schema_of(f"aten::{backward}", "default").returns) > 1

    def rule(**values: Any) -> Any:
        g, need = values.pop("g"), values.pop("need")

        def value(argument: Any) -> Any:
            source = sources[argument.name]
            if source is not None:
                return values[source]
            return _derived(argument.name, values, tensors, need)

        def asked_for() -> Any:
            positional = [value(a) for a in asked if not a.kwarg_only]
            return call(g, *positional, **{a.name: value(a) for a in asked if a.kwarg_only})

        others = [n for n in tensors[1:] if need[n]]
        if not masked and others and name in _SYMMETRIC:
            first = asked_for() if need[tensors[0]] else None
            values[tensors[0]], values[tensors[1]] = values[tensors[1]], values[tensors[0]]
            return first, asked_for()
        if not masked and others:
            raise NotImplementedError(
                f"the derivative of '{name}' for its argument '{others[0]}' under a mode or class that "
                "answers operators: detach that argument"
            )
        made = asked_for()
        return tuple(made) if isinstance(made, (tuple, list)) else made

    DERIVATIVES[name] = rule, _STEPS.get(name), 1 if not single else None, ["g", "need", *saved, *extra]


def _result(name: str, results: dict[str, int], single: bool) -> str | None:
    at = results.get(name, _RESULTS.get(name))
    return None if at is None else "out" if single else f"out{at}"


def _shaped(asked: Sequence[Any], tensors: Sequence[str], schema: FunctionSchema) -> list[str]:
    """The tensors of which a derivative is told a size or dtype."""
    found = []
    own = {a.name for a in schema.arguments}
    for a in asked:
        if a.name in own:
            continue
        if a.name in ("input_size", "input_sizes", "input_dtype", "num_weights"):
            found.append(tensors[0])
        elif a.name == "bias_sizes":
            found.append("bias")
        elif a.name == "train":
            found.append("training")
        elif a.name == "scale":
            found.append("p")
    return found


def _derived(name: str, values: dict[str, Any], tensors: Sequence[str], need: dict[str, bool]) -> Any:
    """The value of an argument of a derivative that is neither an argument of the operator nor a result."""
    if name in ("input_size", "input_sizes"):
        return list(values[tensors[0]].shape)
    if name == "input_dtype":
        return values[tensors[0]]._layout.dtype
    if name == "num_weights":
        return values[tensors[0]].shape[0]
    if name == "bias_sizes":
        return None if values["bias"] is None else list(values["bias"].shape)
    if name == "output_mask":
        return [bool(need[n]) for n in tensors if n not in ("running_mean", "running_var")]
    if name == "train":
        return values["training"]
    if name == "self_is_result":
        return False
    if name == "scale":
        return 1 / (1 - values["p"])
    raise NotImplementedError(f"the derivative asks for '{name}'")


for _name in _OWN_NAME:
    _by_names(_name, f"{_name}_backward")
for _name, _backward in _DERIVED.items():
    _by_names(_name, _backward)
