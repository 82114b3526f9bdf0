"""Questions that observers, qconfigs and modules ask. Stands on the public operators."""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = [
    "activation_dtype",
    "activation_is_statically_quantized",
    "calculate_qmin_qmax",
    "check_min_max_valid",
    "get_combined_dict",
    "get_qparam_dict",
    "get_quant_type",
    "has_no_children_ignoring_parametrizations",
    "is_per_channel",
    "is_per_tensor",
    "validate_qmin_qmax",
    "weight_dtype",
    "weight_is_quantized",
]

_RANGES = {
    torch.qint8: (-128, 127),
    torch.int8: (-128, 127),
    torch.quint8: (0, 255),
    torch.uint8: (0, 255),
    torch.qint32: (-(2**31), 2**31 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
    torch.uint16: (0, 2**16 - 1),
    torch.int16: (-(2**15), 2**15 - 1),
}
# The integers of plain tensors that may stand for quantized numbers.
_INTEGER_LIMITS = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.uint16: (0, 2**16 - 1),
    torch.int16: (-(2**15), 2**15 - 1),
    torch.int32: (-(2**31), 2**31 - 1),
}
_STATIC = (torch.quint8, torch.qint8, torch.qint32, torch.float16, torch.uint8, torch.int8, torch.int16, torch.int32)


def get_combined_dict(default_dict: dict[Any, Any], additional_dict: dict[Any, Any]) -> dict[Any, Any]:
    """A dict with the entries of both, those of the second first."""
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme: Any) -> bool:
    """Whether a scheme has one scale for all elements."""
    return qscheme in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def is_per_channel(qscheme: Any) -> bool:
    """Whether a scheme has a scale for each index of an axis."""
    return qscheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams, torch.per_channel_symmetric)


def activation_dtype(qconfig: Any) -> Any:
    """The dtype of a qconfig's activations."""
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    """The dtype of a qconfig's weights."""
    return qconfig.weight().dtype


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Whether activations are quantized with ranges that are known before."""
    activation = qconfig.activation()
    return activation.dtype in _STATIC and not getattr(activation, "is_dynamic", False)


def weight_is_quantized(qconfig: Any) -> bool:
    """Whether weights are quantized."""
    return weight_dtype(qconfig) in (*_STATIC, torch.quint4x2)


def check_min_max_valid(min_val: Any, max_val: Any) -> bool:
    """Whether a range was observed; warns where none was. AssertionError for one that begins above its end."""
    if min_val.numel() == 0 or max_val.numel() == 0:
        _unobserved()
        return False
    if min_val.dim() == 0 or max_val.dim() == 0:
        if min_val == float("inf") and max_val == float("-inf"):
            _unobserved()
            return False
        assert min_val <= max_val, f"min {min_val} should be less than max {max_val}"
    else:
        assert torch.all(min_val <= max_val), f"min {min_val} should be less than max {max_val}"
    return True


def _unobserved() -> None:
    import warnings

    warnings.warn("must run observer before calling calculate_qparams. Returning default scale and zero point ", stacklevel=4)


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """AssertionError for a range of integers that has no 0, or begins above its end."""
    assert quant_min <= 0 <= quant_max, "Used-specified quantization range must include 0."
    assert quant_min < quant_max, "qmin must be strictly less than qmax for user-specified quantization range."


def calculate_qmin_qmax(
    quant_min: Any, quant_max: Any, has_customized_qrange: bool, dtype: Any, reduce_range: bool
) -> tuple[int, int]:
    """The least and the greatest integer: those given, or the dtype's; of one bit less if reduce_range."""
    if has_customized_qrange:
        low, high = _RANGES.get(dtype, (0, 15))
        if dtype in (torch.qint32, torch.int32):
            low, high = 0, 2**32 - 1
        given = (low, high) if quant_min is None or quant_max is None else (quant_min, quant_max)
        size = given[1] - given[0] + 1
        most = 2**32 if dtype in (torch.qint32, torch.int32) else 2**31 if dtype is torch.uint16 else 256
        assert 0 < size <= most, f"quantization range should be positive and not exceed the maximum bit range (={most})."
        if reduce_range and dtype in (torch.qint8, torch.int8, torch.quint8, torch.uint8):
            return given[0] // 2, given[1] // 2
        return given
    low, high = _RANGES.get(dtype, (0, 15))
    if reduce_range and high <= 255 and dtype in _RANGES:
        return (low // 2, high // 2)
    return low, high


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """How a weight that was observed is quantized, as reference modules take it."""
    scheme, dtype = getattr(observer_or_fake_quant, "qscheme", None), observer_or_fake_quant.dtype
    if not scheme or isinstance(observer_or_fake_quant, torch.ao.quantization.PlaceholderObserver):
        return {"qscheme": None, "dtype": dtype}
    made = {"qscheme": torch.per_tensor_affine, "dtype": dtype}
    if is_per_channel(scheme):
        made["qscheme"] = torch.per_channel_affine if scheme is torch.per_channel_symmetric else scheme
        made["axis"] = observer_or_fake_quant.ch_axis
    elif not is_per_tensor(scheme):
        raise RuntimeError(f"Unrecognized qscheme: {scheme}")
    made["scale"], made["zero_point"] = observer_or_fake_quant.calculate_qparams()
    limits = ("quant_min", "quant_max")
    return made | {name: getattr(observer_or_fake_quant, name) for name in limits if hasattr(observer_or_fake_quant, name)}


def has_no_children_ignoring_parametrizations(module: Any) -> bool:
    """Whether a module has no children beside its parametrizations."""
    names = list(module._modules)
    return not names or names == ["parametrizations"]


def get_quant_type(qconfig: Any) -> Any:
    """DYNAMIC, STATIC or WEIGHT_ONLY. ValueError for another combination of dtypes."""
    from flambeau.ao.quantization.quant_type import QuantType

    assert qconfig is not None
    activation, weight = qconfig.activation(), qconfig.weight()
    if weight.dtype in (*_STATIC, torch.quint4x2):
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation.dtype in _STATIC else QuantType.WEIGHT_ONLY
    if weight.dtype is torch.float16:
        return QuantType.DYNAMIC if getattr(activation, "is_dynamic", False) else QuantType.STATIC
    raise ValueError(f"Unrecognized dtype combination in get_quant_type: activation({activation.dtype}),weight({weight.dtype})")


def type_before_parametrizations(module: Any) -> type:
    """The class that a module had before it was parametrized."""
    return torch.nn.utils.parametrize.type_before_parametrizations(module)  # type: ignore[no-any-return]


class MatchAllNode:
    """Stands in a pattern for any node."""


_UNDERLYING = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
_PLAIN = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.float8_e5m2, torch.float8_e4m3fn)


def to_underlying_dtype(qdtype: Any) -> Any:
    """The dtype of the integers of a quantized dtype. AssertionError for one that has none."""
    if qdtype in _PLAIN:
        return qdtype
    if qdtype not in _UNDERLYING:
        raise AssertionError(f"Unsupported dtype: {qdtype}")
    return _UNDERLYING[qdtype]


def _parent_name(name: str) -> tuple[str, str]:
    """The name of the module around one, and its own name there."""
    parent, _, own = name.rpartition(".")
    return parent, own


def _normalize_kwargs(func: Any, loc: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function among local names, with defaults for those that are missing."""
    import inspect

    made: dict[str, Any] = {}
    for name, parameter in inspect.signature(func).parameters.items():
        if name in loc:
            made[name] = loc[name]
        elif parameter.default is not inspect.Parameter.empty:
            made[name] = parameter.default
    return made


def get_fqn_to_example_inputs(model: Any, example_inputs: tuple[Any, ...]) -> dict[str, tuple[Any, ...]]:
    """The inputs with which each module below a model is called, by name, for these inputs of the model."""
    import inspect

    found: dict[str, tuple[Any, ...]] = {}
    handles = []

    def hook(name: str) -> Any:
        def keep(module: Any, args: Any, kwargs: Any) -> None:
            if not kwargs:
                found.setdefault(name, tuple(args))
                return
            parameters = list(inspect.signature(module.forward).parameters.values())
            values = list(args)
            given = dict(kwargs)
            for parameter in parameters[len(values) :]:
                if not given:
                    break
                values.append(given.pop(parameter.name) if parameter.name in given else parameter.default)
            found.setdefault(name, tuple(values))

        return keep

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(hook(name), with_kwargs=True))
    try:
        model(*example_inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
