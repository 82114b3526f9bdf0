"""torch.distributed.autograd: gradients through calls to other processes, of which there are none."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("autograd", "", "context"))


def is_available() -> bool:
    """False."""
    return False
