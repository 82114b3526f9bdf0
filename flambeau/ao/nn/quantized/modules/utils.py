"""What quantized modules have in common. Stands on nn."""

from __future__ import annotations

import itertools
from typing import Any

import flambeau as torch
from flambeau.nn import Module

__all__ = ["WeightedQuantizedModule"]


class WeightedQuantizedModule(Module):
    """A quantized module with a weight; `from_float` makes one of an observed module."""

    @classmethod
    def from_reference(cls, ref_module: Any, output_scale: float, output_zero_point: int) -> Any:
        """The module that a reference module becomes. NotImplementedError where there is no such form."""
        raise NotImplementedError(f"{cls.__name__}.from_reference: use from_float of an observed module")


def _get_weight_observer(observer: Any) -> Any:
    """The observer within a fake quantizer."""
    return getattr(observer, "activation_post_process", observer)


def _needs_weight_clamping(observer: Any, dtype: Any) -> bool:
    observer = _get_weight_observer(observer)
    if dtype in (torch.qint8, torch.quint8, torch.qint32):
        info = torch.iinfo({torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}[dtype])
        return bool(observer.quant_min > info.min or observer.quant_max < info.max)
    return False


def _clamp_weights(qweight: Any, observer: Any, scale: Any, zp: Any) -> Any:
    """The weight with integers within the observer's range, where that is narrower than the dtype's."""
    if not _needs_weight_clamping(observer, qweight.dtype):
        return qweight
    observer = _get_weight_observer(observer)
    integers = qweight.int_repr().clamp(observer.quant_min, observer.quant_max)
    if observer.qscheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        return torch._make_per_tensor_quantized_tensor(integers, scale.item(), zp.item())
    axis = observer.ch_axis
    return torch._make_per_channel_quantized_tensor(integers, scale, zp, axis=axis)


def _quantize_weight(float_wt: Any, observer: Any) -> Any:
    """A float weight quantized by an observer that has seen it. ValueError for an unknown scheme."""
    scale, zero_point = observer.calculate_qparams()
    scheme = observer.qscheme
    if scheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        made = torch.quantize_per_tensor(float_wt, float(scale), int(zero_point), torch.qint8)
    elif scheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        made = torch.quantize_per_channel(
            float_wt, scale.to(torch.double), zero_point.to(torch.int64), observer.ch_axis, torch.qint8
        )
    elif scheme is torch.per_channel_affine_float_qparams:
        made = torch.quantize_per_channel(
            float_wt, scale.to(torch.float), zero_point.to(torch.float), observer.ch_axis, observer.dtype
        )
        return _clamp_weights(made, observer, scale, zero_point) if observer.dtype is not torch.quint4x2 else made
    else:
        raise ValueError(f"Unexpected qscheme {scheme}")
    return _clamp_weights(made, observer, scale, zero_point)


def _ntuple_from_first(n: int) -> Any:
    """A function that repeats a number, or the first of a tuple, n times."""

    def parse(x: Any) -> tuple[Any, ...]:
        while not isinstance(x, (int, float)):
            x = x[0]
        return tuple(itertools.repeat(x, n))

    return parse


def _hide_packed_params_repr(self: Any, params: type) -> str:
    """The text of a module without its packed parameters."""
    own = self.extra_repr()
    lines = own.split("\n") if own else []
    children = []
    for name, module in self._modules.items():
        if isinstance(module, params):
            continue
        text = repr(module).replace("\n", "\n  ")
        children.append(f"({name}): {text}")
    text = self._get_name() + "("
    if lines or children:
        text += lines[0] if len(lines) == 1 and not children else "\n  " + "\n  ".join(lines + children) + "\n"
    return text + ")"


_pair_from_first = _ntuple_from_first(2)


def qparams_of(mod: Any) -> tuple[float, int]:
    """The scale and zero point of what a module's observer saw."""
    scale, zero_point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


def loaded(state_dict: Any, prefix: str, name: str) -> Any:
    """The number that a state dict holds as a tensor; taken out of it."""
    return state_dict.pop(prefix + name).item()


class OfObserved:
    """Modules that `from_reference` makes of a float module, a scale and a zero point, and `from_float` of an observed one."""

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The module that an observed float module becomes."""
        return cls.from_reference(mod, *qparams_of(mod))

    @classmethod
    def from_reference(cls, mod: Any, scale: float, zero_point: int) -> Any:
        """The module that a float module becomes, with this scale and zero point of the result."""
        raise NotImplementedError
