"""torch.utils.data.datapipes.map: the names of the pipes that are indexed, without instances."""

from flambeau.utils.data import MapDataPipe
from flambeau.utils.data.datapipes._absent import pipes

globals().update(pipes(
    "map", MapDataPipe, callable="Mapper", combinatorics="Shuffler", combining="Concater Zipper", grouping="Batcher",
    utils="SequenceWrapper"))
