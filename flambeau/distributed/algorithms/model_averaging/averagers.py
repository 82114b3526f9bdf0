"""torch.distributed.algorithms.model_averaging.averagers: averages of the parameters of several processes."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("algorithms.model_averaging.averagers", "", "ModelAverager PeriodicModelAverager"))
