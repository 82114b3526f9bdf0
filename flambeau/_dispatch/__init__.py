"""torch._dispatch: the dispatcher's Python side. `python` has the contexts."""

from flambeau._dispatch import python

__all__ = ["python"]
