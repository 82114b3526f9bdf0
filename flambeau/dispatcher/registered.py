"""Under which keys PyTorch's own operators are registered: what their schemas say, and how vmap computes them.

An operator that is computed by others is registered under CompositeImplicitAutograd; any other one for the CPU. Where vmap
has a rule for an operator, be it one that refuses, or runs its body, it is registered under the key of batches, or under that of
their decompositions if it is computed by others; an operator that runs once for each example is under neither.
Stands on builtin and transform; used by overloads and torch._C.
"""

from __future__ import annotations

import functools

from flambeau.dispatcher import builtin, builtin_schemas
from flambeau.dispatcher.schema import qualified
from flambeau.transform.batched import has_rule

__all__ = ["under"]


def under(name: str, key: str) -> bool:
    """Whether an operator of PyTorch, "ns::name.overload", is registered under the key of this name; "" is any."""
    namespace, short, overload = qualified(name)
    if builtin_schemas.is_script(f"{namespace}::{short}", overload or "default"):
        return False  # TorchScript's alone
    composite = builtin_schemas.is_composite(f"{namespace}::{short}", overload or "default")
    if key == "":
        return True
    if key in ("CPU", "CompositeImplicitAutograd"):
        return composite == (key == "CompositeImplicitAutograd")
    if key in ("FuncTorchBatched", "FuncTorchBatchedDecomposition"):
        return composite == (key == "FuncTorchBatchedDecomposition") and _is_batched(namespace, short, overload or "default")
    return False


@functools.cache
def _is_batched(namespace: str, short: str, overload: str) -> bool:
    """Whether vmap has a way of its own for an overload. It writes to no tensor that is given as `out`."""
    try:
        schema = builtin_schemas.schema_of(f"{namespace}::{short}", overload)
    except RuntimeError:
        return False  # of a class that isn't there
    if namespace != "aten" or any(argument.is_out for argument in schema.arguments):
        return False
    targets = builtin.targets(schema, short, overload)
    return bool(targets) and has_rule(targets[0])
