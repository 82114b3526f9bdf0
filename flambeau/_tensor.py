"""torch._tensor: where PyTorch defines Tensor; some programs import it from here."""

from flambeau.core.rebuild import *  # noqa: F403
from flambeau.core.tensor import Tensor

__all__ = ["Tensor"]
