"""The first rung of the debug ladder: operators printed as they are called.

`FLAMBEAU_DEBUG=1` (or `with narrate():`) prints a line per call: name, operands, result, microseconds. Stands on
core.modes.observing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flambeau.base.aten_schemas import table
from flambeau.core.modes.interception import called_as
from flambeau.core.modes.observing import Observer
from flambeau.core.tensor.tensor import Tensor


def brief(x: Any) -> str:
    """A tensor as its dtype and shape, a sequence by its items, anything else as Python shows it."""
    if isinstance(x, Tensor):
        return f"{x._layout.dtype.abbr}{list(x._layout.shape)}"
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(map(brief, x))}]"
    text = repr(x)
    return text if len(text) < 40 else text[:37] + "..."


class narrate(Observer):
    """Print every operator call of this thread while the block runs."""

    def called(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = called_as(function)
        if not (hasattr(function, "operator") or "aten::" + name in table() or name in ("getitem", "setitem")):
            return self.go_on(function, own, args, kwargs)
        start = time.perf_counter()
        result = self.alone(function, own, args, kwargs)
        spent = (time.perf_counter() - start) * 1e6
        shown = ", ".join([*map(brief, args), *(f"{k}={brief(v)}" for k, v in kwargs.items())])
        print(f"{name}({shown}) -> {brief(result)}  {spent:.0f} us", file=sys.stderr)
        return result
