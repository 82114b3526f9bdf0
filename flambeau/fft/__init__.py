"""torch.fft: discrete Fourier transforms. Re-exports of ops.fft.transforms and ops.fft.frequencies."""

from flambeau.base.naming import adopt
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from flambeau.ops.fft.transforms import (
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

__all__ = [
    "Tensor",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

adopt(globals(), __all__[1:])
