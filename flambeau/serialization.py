"""torch.serialization: a face of flambeau.serialize."""

from flambeau.serialize import *  # noqa: F403
from flambeau.serialize import __all__ as __all__
