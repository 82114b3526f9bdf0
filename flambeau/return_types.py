"""torch.return_types: the classes of named results. A face over core.returns."""

from flambeau.core.returns import *  # noqa: F403
from flambeau.core.returns import __all__ as all_return_types

__all__ = list(all_return_types)
