"""torch.distributed.checkpoint.hf_storage: checkpoints in safetensors files."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint.hf_storage", "", "HuggingFaceStorageReader HuggingFaceStorageWriter"))
