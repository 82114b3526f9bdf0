"""torch.fx.passes.backends.cudagraphs: names without work, since there is no CUDA."""

from flambeau.core.operator import unsupported

_ADVICE = "there is no CUDA; use torch.fx.passes.infra.partitioner.CapabilityBasedPartitioner to cut graphs"
globals().update(unsupported.all_of("fx.passes.backends.cudagraphs.", _ADVICE, "partition_cudagraphs", "CudaGraphsSupport"))
