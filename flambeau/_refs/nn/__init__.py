"""torch._refs.nn: the module `functional`."""

from __future__ import annotations

from flambeau._refs.nn import functional

__all__ = ["functional"]
