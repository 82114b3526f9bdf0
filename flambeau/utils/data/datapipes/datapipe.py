"""torch.utils.data.datapipes.datapipe: the classes of pipes, without instances: nothing is a pipe."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.utils.data import DFIterDataPipe, IterDataPipe, MapDataPipe

__all__ = ["DFIterDataPipe", "IterDataPipe", "MapDataPipe"]

globals().update(_unsupported.all_of(
    "utils.data.datapipes.datapipe.", "write a Dataset or an IterableDataset, whose __iter__ may be a generator", "",
    "_DataPipeSerializationWrapper _IterDataPipeSerializationWrapper _MapDataPipeSerializationWrapper"))
