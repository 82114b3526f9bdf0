"""torch._functorch.vmap: a face of func.vmap. What programs put in the place of vmap's three steps here is what vmap does."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.func.vmap import (
    _broadcast_to_and_flatten,
    _create_batched_inputs,
    _get_name,
    _maybe_remove_batch_dim,
    _process_batched_inputs,
    _unwrap_batched,
    in_dims_t,
    out_dims_t,
    tree_flatten,
    tree_unflatten,
    vmap,
)
from flambeau.transform.batched import add_batch_dim as _add_batch_dim
from flambeau.transform.batched import remove_batch_dim as _remove_batch_dim

__all__ = [
    "Tensor", "_add_batch_dim", "_broadcast_to_and_flatten", "_create_batched_inputs", "_get_name", "_maybe_remove_batch_dim",
    "_process_batched_inputs", "_remove_batch_dim", "_unwrap_batched", "in_dims_t", "out_dims_t", "tree_flatten",
    "tree_unflatten", "vmap",
]  # fmt: skip

_PLACE = importlib.import_module("flambeau.func.vmap")


class _Steps(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_process_batched_inputs", "_create_batched_inputs", "_unwrap_batched"):
            setattr(_PLACE, name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Steps
