"""torch.distributed.checkpoint._consolidate_hf_safetensors: joining the safetensors files of several processes."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint._consolidate_hf_safetensors", "consolidate_safetensors_files"))
