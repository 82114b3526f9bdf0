"""torch.cuda.streams: classes that need CUDA. A face of flambeau.cuda."""

from flambeau import cuda as _cuda

__all__ = ("Event ExternalStream Stream").split()
globals().update({name: getattr(_cuda, name) for name in __all__})
