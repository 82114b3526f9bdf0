"""torch.distributed.fsdp._common_utils: names of parameters without those of the wrappers."""

from flambeau.distributed.state_names import clean_name as clean_tensor_name

__all__ = ["FSDP_PREFIX", "FSDP_WRAPPED_MODULE", "clean_tensor_name"]

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
FSDP_PREFIX = FSDP_WRAPPED_MODULE + "."
