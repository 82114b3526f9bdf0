"""torch.return_types: the classes of named results, those of calls with `out=` too. A face over core.returns."""

from flambeau.core import returns as _returns

_WITHOUT_OUT = ("histogramdd",)
_named = {name: getattr(_returns, name) for name in _returns.__all__ if hasattr(_returns, name)}
_written = {kind.__name__: kind for kind in [_returns.of_out(_named[name]) for name in _named if name not in _WITHOUT_OUT]}
globals().update(_named | _written)
__all__ = sorted(_named | _written)
all_return_types = list((_named | _written).values())
