"""torch.utils.data: datasets, samplers and the DataLoader."""

from flambeau.core.operator import unsupported
from flambeau.utils.data import _utils
from flambeau.utils.data._utils.collate import default_collate, default_convert
from flambeau.utils.data._utils.worker import get_worker_info
from flambeau.utils.data.dataloader import DataLoader, _DatasetKind
from flambeau.utils.data.datapipes._decorator import functional_datapipe
from flambeau.utils.data.datapipes.datapipe import DataChunk, DFIterDataPipe, IterDataPipe, MapDataPipe
from flambeau.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from flambeau.utils.data.distributed import DistributedSampler
from flambeau.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader", "Dataset", "DistributedSampler",
    "IterDataPipe", "IterableDataset", "MapDataPipe", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "_DatasetKind", "_utils", "default_collate",
    "default_convert", "functional_datapipe", "get_worker_info", "random_split",
]  # fmt: skip

# PyTorch keeps its pipes of data sets for old programs only; of hints of their items' types nothing is made here.
globals().update(
    unsupported.all_of(
        "utils.data.",
        "write a Dataset or an IterableDataset, whose __iter__ may be a generator",
        "argument_validation guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled",
    )
)
