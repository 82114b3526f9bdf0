"""torch.return_types: the classes of named results. A face over core.returns."""

from flambeau.core import returns as _returns

__all__ = [name for name in _returns.__all__ if hasattr(_returns, name)]
all_return_types = [getattr(_returns, name) for name in __all__]
globals().update({name: getattr(_returns, name) for name in __all__})
