"""torch.distributed.checkpoint._fsspec_filesystem: checkpoints on file systems of fsspec."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint._fsspec_filesystem", "", "FsspecReader FsspecWriter"))
