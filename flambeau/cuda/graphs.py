"""torch.cuda.graphs: recorded work of a device, which needs CUDA. A face of flambeau.cuda."""

from flambeau import cuda as _cuda

__all__ = ("CUDAGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables").split()
globals().update({name: getattr(_cuda, name) for name in __all__})
