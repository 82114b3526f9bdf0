"""The short-time Fourier transform and its inverse: frames, a window, a transform of each; overlap and add.

Stands on ops.fft.transforms; the frames are a view, so the gradient is that of `unfold`.
"""

from __future__ import annotations

import builtins
from typing import Any

from flambeau.base.warn import warn_once
from flambeau.core.autograd.inplace import owned
from flambeau.core.modes.autocast import single
from flambeau.core.operator.define import composite
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import found
from flambeau.ops.fft import transforms
from flambeau.ops.views.fold import unfold_backward
from flambeau.ops.views.pad import pad

_NO_WINDOW = (
    "A window was not provided. A rectangular window will be applied{}To suppress this warning and use a "
    "rectangular window, "
    "explicitly set `window=torch.ones(n_fft, device=<device>)`."
)


def _described(given: Tensor | None, /, **arguments: Any) -> str:
    """The arguments as PyTorch writes them in front of its errors."""

    def text(value: Any) -> str:
        return str(int(value)) if isinstance(value, bool) else str(value)

    shown = "None" if given is None else f"{_type(given)}{{{list(given._layout.shape)}}}"
    return ", ".join(f"{name}={shown if name == 'window' else text(value)}" for name, value in arguments.items())


def _type(x: Tensor) -> str:
    return f"CPU{x._layout.dtype.scalar_name}Type" if x._layout.dtype.is_complex else x.type()


def _window(name: str, x: Tensor, n_fft: int, win_length: int, window: Tensor | None) -> Tensor | None:
    """The window, filled up with zeros on both sides to n_fft; None for no window."""
    if window is not None and (window._layout.ndim != 1 or window._layout.shape[0] != win_length):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got "
            "window with size "
            f"{list(window._layout.shape)}"
        )
    if win_length == n_fft:
        return window
    if window is None:
        dtype = x._layout.dtype.to_real() if x._layout.dtype.is_complex else x._layout.dtype
        window = NAMESPACE["ones"](win_length, dtype=dtype, device=input._layout.device)
    left = (n_fft - win_length) // 2
    return NAMESPACE["cat"]([window.new_zeros(left), window, window.new_zeros(n_fft - win_length - left)])


@composite(autocast=single, written_in_python=True)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: builtins.bool = True,
    pad_mode: str = "reflect",
    normalized: builtins.bool = False,
    onesided: builtins.bool | None = None,
    return_complex: builtins.bool | None = None,
    align_to_window: builtins.bool | None = None,
) -> Tensor:
    """Fourier transforms of windowed frames, `hop_length` (n_fft // 4) apart: (*, time) gives (*, n_fft // 2 + 1 or
    n_fft, frames).

    center: frames are centred on their times, the signal is padded. Raises RuntimeError where sizes don't fit.
    """
    if window is None:
        warn_once(
            _NO_WINDOW.format(
                ",which is known to cause spectral leakage. Other windows such as torch.hann_window or "
                "torch.hamming_window are recommended to reduce spectral leakage."
            )
        )
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    x = input
    if return_complex is None:
        if not (x.is_complex() or (window is not None and window.is_complex())):
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further "
                "require that return_complex=True in a future PyTorch release."
            )
        return_complex = True
    ndim = x._layout.ndim
    if center:
        padded = pad(x.reshape((1,) * max(3 - ndim, 1) + x._layout.shape), [n_fft // 2, n_fft // 2], pad_mode)
        x = padded.view(padded._layout.shape[-ndim:] if ndim else ())
    arguments = _described(
        window,
        n_fft=n_fft,
        hop_length=hop,
        win_length=length,
        window=window,
        normalized=normalized,
        onesided=onesided,
        return_complex=return_complex,
        align_to_window=align_to_window,
    )
    name = f"stft({_type(x)}{list(x._layout.shape)}, {arguments}) "
    if not (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex):
        raise RuntimeError(f"{name}: expected a tensor of floating point or complex values")
    if ndim not in (1, 2):
        raise RuntimeError(f"{name}: expected a 1D or 2D tensor")
    batched = ndim == 2
    if not batched:
        x = x.unsqueeze(0)
    size = x._layout.shape[1]
    if not 0 < n_fft <= size:
        raise RuntimeError(f"{name}: expected 0 < n_fft < {size}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}")
    shape = _window(name, x, n_fft, length, window)
    frames = x.unfold(1, n_fft, hop)
    mixed = x.is_complex() or (shape is not None and shape.is_complex())
    if onesided is None:
        onesided = not mixed
    if onesided and mixed:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    norm = "ortho" if normalized else None
    if onesided and shape is not None:
        made = transforms.windowed(frames, shape, norm)
    else:
        made = (transforms.rfft if onesided else transforms.fft)(frames if shape is None else frames * shape, None, -1, norm)
    made = made.transpose(1, 2)
    if not batched:
        made = made.squeeze(0)
    made = owned(made)
    return made if return_complex else NAMESPACE["view_as_real"](made)


@composite(written_in_python=True)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: builtins.bool = True,
    normalized: builtins.bool = False,
    onesided: builtins.bool | None = None,
    length: int | None = None,
    return_complex: builtins.bool = False,
) -> Tensor:
    """The signal whose stft is `input` (least squares): (*, terms, frames) gives (*, time).

    Raises RuntimeError where sizes don't fit or the windows leave a sample uncovered.
    """
    if window is None:
        warn_once(_NO_WINDOW.format(".Please provide the same window used by stft to make the inversion lossless."))
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    if not input._layout.numel:
        raise RuntimeError("istft: input tensor cannot be empty.")
    if input._layout.ndim not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor with 3 or 4 dimensions, but got {input._layout.ndim + 1}")
    arguments = _described(
        window,
        n_fft=n_fft,
        hop_length=hop,
        win_length=width,
        window=window,
        center=center,
        normalized=normalized,
        onesided=onesided,
        length=length,
        return_complex=return_complex,
    )
    name = f"istft({_type(input)}{list(input._layout.shape)}, {arguments})"
    batched = input._layout.ndim == 3
    x = input if batched else input.unsqueeze(0)
    terms, count = x._layout.shape[1:]
    if onesided is None:
        onesided = terms != n_fft
    if onesided and n_fft // 2 + 1 != terms:
        raise RuntimeError(
            f"{name}: expected the frequency dimension (3rd to the last) of the input tensor to match "
            f"n_fft / 2 + 1 when onesided=True, but got {terms}"
        )
    if not onesided and n_fft != terms:
        raise RuntimeError(
            f"{name}: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when "
            f"onesided=False, but got {terms}"
        )
    if not 0 < hop <= width:
        raise RuntimeError(f"{name}: expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft")
    if return_complex and onesided:
        raise RuntimeError("cannot have onesided output if window or input is complex")
    real = x._layout.dtype.to_real()
    if window is None:
        window = NAMESPACE["ones"](width, dtype=real, device=input._layout.device)
    elif window.is_complex() and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    shape = _window(name, x, n_fft, width, window)
    assert shape is not None
    norm = "ortho" if normalized else None
    x = x.transpose(1, 2)
    if return_complex:
        frames = transforms.ifft(x, None, -1, norm)
    else:
        frames = transforms.irfft(x if onesided else x.narrow(-1, 0, n_fft // 2 + 1), n_fft, -1, norm)
    frames = frames * shape
    total = n_fft + hop * (count - 1)
    signal = unfold_backward(frames, (frames._layout.shape[0], total), 1, n_fft, hop)
    envelope = unfold_backward(shape.square().expand(count, n_fft), (total,), 0, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    signal, envelope = signal[:, start:end], envelope[start:end]
    if found(envelope.detach().abs() < 1e-11):
        raise RuntimeError(f"{name} window overlap add min: 1")
    made = signal / envelope
    if length is not None and end > total:
        made = NAMESPACE["cat"]([made, made.new_zeros(made._layout.shape[0], end - total)], 1)
    return made if batched else made.squeeze(0)
