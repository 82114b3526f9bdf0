"""Modules whose weights are rounded while they are trained."""

from flambeau.ao.nn.qat.modules.conv import Conv1d, Conv2d, Conv3d
from flambeau.ao.nn.qat.modules.embedding_ops import Embedding, EmbeddingBag
from flambeau.ao.nn.qat.modules.linear import Linear

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]
