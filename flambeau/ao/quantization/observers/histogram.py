"""An observer of a histogram, which leaves out the values at its ends where the error becomes smaller.

Stands on base.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch
from flambeau.ao.quantization.observers.base import UniformQuantizationObserverBase
from flambeau.ao.quantization.utils import check_min_max_valid, is_per_tensor
from flambeau.base.naming import public_module


class HistogramObserver(UniformQuantizationObserverBase):
    """A histogram of all values that passed, of which a range is chosen that leaves the least squared error.

    bins: how many; upsample_rate: into how many parts a bin is cut where the range grows.
    """

    __module__ = public_module("ao.quantization.observer")

    histogram: Any

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = torch.finfo(torch.float32).eps,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        place = {k: v for k, v in (factory_kwargs or {}).items() if k in ("device", "dtype")}
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins, **place))
        self.register_buffer("min_val", torch.tensor(float("inf"), **place))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **place))
        self.dst_nbins = 2 ** (8 * dtype.itemsize)  # of the whole dtype, also where a bit is left unused
        self.upsample_rate = 16

    def _error(self, first: int, last: int) -> float:
        """The squared error of all values if the bins from `first` to `last` are the range that integers cover.

        The values of a bin count as evenly spread. Where they are rounded to is a step's middle, and the integral of the squared
        distance over the part of a bin within a step is a difference of cubes.
        """
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (torch.arange(self.bins, device=self.histogram.device) - first) * width
        end = begin + width
        from_step = torch.clamp(torch.div(begin, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
        to_step = torch.clamp(torch.div(end, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
        density = self.histogram / width
        half = torch.ones(self.bins, device=self.histogram.device) * (step / 2)

        def cubes(a: Any, b: Any) -> Any:
            return density * (b * b * b - a * a * a) / 3

        total = cubes(begin - (from_step + 0.5) * step, half)
        total += (to_step - from_step - 1) * cubes(torch.tensor(-step / 2), torch.tensor(step / 2))
        total += cubes(-half, end - (to_step * step + step / 2))
        return total.sum().item()  # type: ignore[no-any-return]

    def _non_linear_param_search(self) -> tuple[Any, Any]:
        """The range that is left after bins were cut off at either end, in small shares of the values, until the error grows."""
        assert self.histogram.size()[0] == self.bins, "bins mismatch"
        width = (self.max_val - self.min_val) / self.bins
        total = torch.sum(self.histogram).item()
        below = torch.cumsum(self.histogram, dim=0).tolist()
        share, low_share, high_share = 1e-5, 0.0, 1.0
        first, last = 0, self.bins - 1
        least = float("inf")
        while low_share < high_share:
            next_low, next_high = low_share + share, high_share - share
            left, right = first, last
            while left < last and below[left] < next_low * total:
                left += 1
            while right > first and below[right] > next_high * total:
                right -= 1
            next_first, next_last = first, last
            if left - first > last - right:
                next_first, low_share = left, next_low
            else:
                next_last, high_share = right, next_high
            if next_first == first and next_last == last:
                continue
            error = self._error(next_first, next_last)
            if error > least:
                break
            least, first, last = error, next_first, next_last
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def _spread(self, histogram: Any, low: Any, high: Any, new_low: Any, new_high: Any) -> Any:
        """A histogram from low to high as one of a larger range: the parts of a bin go where their middles lie."""
        if self.bins == 0 or bool(low == high):
            count = histogram.sum()
            made = torch.zeros_like(histogram)
            place = 0 if bool(new_high == new_low) else int((low - new_low) / (new_high - new_low) * self.bins)
            made[min(max(place, 0), self.bins - 1)] = count
            return made
        parts = self.bins * self.upsample_rate
        counts = histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        middles = torch.linspace(low, high, parts + 1, device=low.device)[:-1] + 0.5 * (high - low) / parts
        edges = torch.linspace(new_low, new_high, self.bins + 1, device=low.device)
        places = (torch.bucketize(middles, edges, right=True) - 1).clamp(max=self.bins - 1)
        return torch.bincount(places, weights=counts, minlength=self.bins)

    def reset_histogram(self, x: Any, min_val: Any, max_val: Any) -> None:
        """The histogram of x alone, from min_val to max_val."""
        self.min_val.resize_(min_val.shape)
        self.min_val.copy_(min_val)
        self.max_val.resize_(max_val.shape)
        self.max_val.copy_(max_val)
        assert min_val.numel() == 1 and max_val.numel() == 1, "histogram min/max values must be scalar."
        made = torch.histc(x, self.bins, min=min_val, max=max_val)
        self.histogram.detach_().resize_(made.shape)
        self.histogram.copy_(made)

    def forward(self, x_orig: Any) -> Any:
        """x_orig, which is counted."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = torch.aminmax(x)
        if not (torch.isfinite(low) and torch.isfinite(high)):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = torch.aminmax(x)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self.reset_histogram(x, low, high)
            return x_orig
        new_low, new_high = torch.min(self.min_val, low), torch.max(self.max_val, high)
        counts = torch.histc(x, self.bins, min=new_low, max=new_high).to(self.histogram.device)
        if bool(new_low == self.min_val) and bool(new_high == self.max_val):
            counts = counts + self.histogram
        else:
            counts = counts + self._spread(self.histogram, self.min_val, self.max_val, new_low, new_high)
        self.histogram.detach_().resize_(counts.shape)
        self.histogram.copy_(counts)
        self.min_val.detach_().resize_(new_low.shape)
        self.min_val.copy_(new_low)
        self.max_val.detach_().resize_(new_high.shape)
        self.max_val.copy_(new_high)
        return x_orig

    def calculate_qparams(self) -> tuple[Any, Any]:
        """The scale and zero point of the range with the least error."""
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            check_min_max_valid(self.min_val, self.max_val)
            return torch.tensor([1.0], device=self.min_val.device), torch.tensor([0], device=self.min_val.device)
        assert self.bins == len(self.histogram), (
            "The number of bins in histogram should be equal to the number of bins supplied while making this observer"
        )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        if version is None or version < 3:
            for name, usual in (("min_val", "inf"), ("max_val", "-inf")):
                given = state_dict.get(prefix + name)
                if given is not None and given.shape == torch.Size([0]):
                    state_dict[prefix + name] = torch.tensor(float(usual))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"
