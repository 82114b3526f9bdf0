"""torch._tensor: where PyTorch defines Tensor; some programs import it, and what a pickle of a subclass calls, from here."""

from flambeau.core.modes.overrides import converted as _convert
from flambeau.core.tensor.rebuild import rebuild_from_type_v2 as _rebuild_from_type_v2
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Tensor", "_convert", "_rebuild_from_type_v2"]
