"""torch.distributed.checkpoint.filesystem: checkpoints in a folder."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint", "", "FileSystemReader FileSystemWriter"))
