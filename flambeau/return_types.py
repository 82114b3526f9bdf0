"""torch.return_types: the classes of named results, those of calls with `out=` too. A face over core.operator.return_types."""

from flambeau.core.operator import return_types as _return_types

_WITHOUT_OUT = ("histogramdd",)
_named = {name: getattr(_return_types, name) for name in _return_types.__all__ if hasattr(_return_types, name)}
_written = {kind.__name__: kind for kind in [_return_types.of_out(_named[name]) for name in _named if name not in _WITHOUT_OUT]}
globals().update(_named | _written)
__all__ = sorted(_named | _written)
all_return_types = list((_named | _written).values())
