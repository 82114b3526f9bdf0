"""torch.utils.data.datapipes.iter.combinatorics: what programs ask of a data set before they shuffle it themselves."""

from flambeau.utils.data.datapipes import iter as _iter

SamplerIterDataPipe = _iter.Sampler  # type: ignore[attr-defined]
ShufflerIterDataPipe = _iter.Shuffler  # type: ignore[attr-defined]

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]
