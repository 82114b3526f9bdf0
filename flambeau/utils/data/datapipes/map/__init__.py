"""torch.utils.data.datapipes.map: pipes that are indexed, by their short names."""

from flambeau.utils.data.datapipes.map.pipes import BatcherMapDataPipe as Batcher
from flambeau.utils.data.datapipes.map.pipes import ConcaterMapDataPipe as Concater
from flambeau.utils.data.datapipes.map.pipes import MapperMapDataPipe as Mapper
from flambeau.utils.data.datapipes.map.pipes import ShufflerIterDataPipe as Shuffler
from flambeau.utils.data.datapipes.map.pipes import ZipperMapDataPipe as Zipper
from flambeau.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
