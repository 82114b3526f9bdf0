"""torch.distributed.fsdp._flat_param: flat parameters, which there are none of: names to import."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.fsdp.fully_sharded_data_parallel import FlatParameter as FlatParameter

FlatParamHandle = _unsupported.kind(
    "distributed.fsdp._flat_param.FlatParamHandle", "parameters are DTensors of their own here; look at them by their names"
)
