"""torch.fft: discrete Fourier transforms. Re-exports of ops.fft and ops.fft_frequencies."""

from flambeau.base.naming import adopt
from flambeau.core.tensor import Tensor
from flambeau.ops.fft import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from flambeau.ops.fft_frequencies import fftfreq, fftshift, ifftshift, rfftfreq

__all__ = [
    "Tensor", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn",
    "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]

adopt(globals(), __all__[1:])
