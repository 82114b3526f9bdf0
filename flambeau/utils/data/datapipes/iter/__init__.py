"""torch.utils.data.datapipes.iter: the names of the pipes that are iterated, without instances."""

from flambeau.utils.data import IterDataPipe
from flambeau.utils.data.datapipes._absent import pipes

globals().update(pipes(
    "iter", IterDataPipe, callable="Collator Mapper", combinatorics="Sampler Shuffler", filelister="FileLister",
    combining="Concater Demultiplexer Forker Multiplexer Zipper", fileopener="FileOpener", grouping="Batcher Grouper UnBatcher",
    routeddecoder="RoutedDecoder", selecting="Filter", sharding="ShardingFilter", streamreader="StreamReader",
    utils="IterableWrapper"))
