"""torchaudio's loops over samples: recursive filters and overdrive. Stands on codegen.audio; used by the family's `register`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import float32, float64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen import audio as kernels
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous

_plans: dict[Any, Callable] = register_cache({})


def _plan(
    key: Any, kernel: Callable, rows: int, work: int, constants: list[int], outputs: list[Layout], inputs: list[Tensor]
) -> Callable:
    """The plan of a kernel over rows, each of which is a unit of work."""
    launch = _plans.get(key)
    if launch is None:
        phase = Phase(kernel(_kind(inputs[0])), rows, max(1, 16384 * rows // max(work, 1)), constants)
        layouts = [each._layout for each in inputs]
        launch = _plans[key] = lowered(Plan([phase], outputs, layouts, "", 0, release=work >= RELEASE_FROM))
    return launch


def _kind(tensor: Tensor) -> Kind:
    return kind_of(tensor._layout.dtype)


def _same_dtype(operator: str, *tensors: Tensor) -> None:
    """RuntimeError unless all are float32, or all float64."""
    dtypes = [tensor.dtype for tensor in tensors]
    if dtypes[0] not in (float32, float64) or any(dtype is not dtypes[0] for dtype in dtypes):
        raise RuntimeError(f"{operator}: expected tensors that are all float32 or all float64, got {', '.join(map(str, dtypes))}")


def lfilter_core_loop(input_signal_windows: Tensor, a_coeff_flipped: Tensor, padded_output_waveform: Tensor) -> Tensor:
    """Filter (batch, channels, samples) with coefficients (channels, order), into (batch, channels, samples + order - 1).

    The first order - 1 samples of the output are what came before; it is written and returned. All of them contiguous, all
    float32 or all float64; RuntimeError if not, and for other shapes.
    """
    x, a, y = input_signal_windows, a_coeff_flipped, padded_output_waveform
    _same_dtype("_lfilter_core_loop", x, a, y)
    if not (x.is_contiguous() and a.is_contiguous() and y.is_contiguous()):
        raise RuntimeError("_lfilter_core_loop: expected contiguous tensors")
    if x.ndim != 3 or a.ndim != 2 or y.ndim != 3:
        raise RuntimeError(f"_lfilter_core_loop: expected 3, 2 and 3 dimensions, got {x.ndim}, {a.ndim} and {y.ndim}")
    (batch, channels, samples), (filters, order) = x.shape, a.shape
    if filters != channels or y.shape != (batch, channels, samples + order - 1):
        raise RuntimeError(
            f"_lfilter_core_loop: an input of {list(x.shape)} and coefficients of {list(a.shape)} don't go with "
            f"an output of {list(y.shape)}"
        )
    if x.numel() and order:
        inputs = [x.detach(), a.detach(), y.detach()]
        key = "lfilter", x._layout, a._layout
        launch = _plan(
            key,
            kernels.recursive_filter_kernel,
            batch * channels,
            x.numel() * order,
            [samples, order, channels],
            [y._layout],
            inputs,
        )
        y.detach().copy_(launch(None, *inputs))
    return y


def overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Overdrive (rows, samples) into `output_waveform`; `last_in` and `last_out` (rows,) go from before the first sample to after
    the last.

    All float32 or all float64; RuntimeError if not, and for other shapes.
    """
    _same_dtype("_overdrive_core_loop", waveform, temp, last_in, last_out, output_waveform)
    rows = waveform.shape[:1]
    if (
        waveform.ndim != 2
        or temp.shape != waveform.shape
        or output_waveform.shape != waveform.shape
        or last_in.shape != rows
        or last_out.shape != rows
    ):
        raise RuntimeError(
            "_overdrive_core_loop: expected a waveform, its distortion and an output of (channels, samples), and "
            "two tensors of (channels,)"
        )
    if waveform.numel():
        inputs = [contiguous(each.detach()) for each in (waveform, temp, last_in, last_out)]
        layouts = [each._layout for each in (inputs[0], inputs[2], inputs[3])]
        launch = _plan(
            ("overdrive", layouts[0]),
            kernels.overdrive_kernel,
            rows[0],
            4 * waveform.numel(),
            [waveform.shape[1]],
            layouts,
            inputs,
        )
        results = launch(None, None, None, *inputs)
        for target, result in zip((output_waveform, last_in, last_out), results):
            target.detach().copy_(result)
    return last_in, last_out, output_waveform
