"""Splitting arguments over accelerators and putting results together again; without accelerators these raise."""

from __future__ import annotations

from flambeau.core.operator import unsupported

_ADVICE = "there are no accelerators to split a batch over; call the module with the whole batch"
__all__ = ["gather", "scatter", "scatter_kwargs"]
scatter, scatter_kwargs, gather = (
    unsupported.function(f"nn.parallel.scatter_gather.{name}", _ADVICE) for name in ("scatter", "scatter_kwargs", "gather")
)
replicate, parallel_apply = (unsupported.function(f"nn.parallel.{name}", _ADVICE) for name in ("replicate", "parallel_apply"))
