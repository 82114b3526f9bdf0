"""torch._functorch.vmap: vmap, and the structures of its dimensions."""

from __future__ import annotations

from typing import Any

from flambeau.func.vmap import name_of as _get_name
from flambeau.func.vmap import vmap

__all__ = ["_get_name", "in_dims_t", "out_dims_t", "vmap"]

in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...]
