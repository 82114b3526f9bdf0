"""torch.utils.tensorboard: not there; says what to use instead."""

from flambeau.core import absent as _absent

SummaryWriter = _absent.kind(
    "utils.tensorboard.SummaryWriter", "install tensorboardX, whose SummaryWriter takes NumPy arrays"
)
FileWriter = _absent.kind("utils.tensorboard.FileWriter", "install tensorboardX, whose FileWriter does the same")
