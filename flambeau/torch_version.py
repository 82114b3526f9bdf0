"""torch.torch_version: the class of torch.__version__."""

from flambeau.version import TorchVersion, __version__

__all__ = ["TorchVersion", "__version__"]
