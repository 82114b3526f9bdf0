"""torch.fx.experimental.proxy_tensor: tracing by operators, which flambeau doesn't have; `make_fx` says what to use instead."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.core.operator import unsupported

__all__ = ["get_proxy_mode", "maybe_disable_fake_tensor_mode", "maybe_enable_thunkify"]

_ADVICE = "use torch.fx.symbolic_trace, which records the calls of public functions and modules"

globals().update(
    unsupported.all_of(
        "fx.experimental.proxy_tensor.",
        _ADVICE,
        "make_fx dispatch_trace wrapper_and_args_for_make_fx proxy_call track_tensor track_tensor_tree set_proxy_slot "
        "get_proxy_slot get_isolated_graphmodule get_innermost_proxy_mode_of",
        "ProxyTorchDispatchMode PythonKeyTracer PreDispatchTorchFunctionMode DecompositionInterpreter",
    )
)


def get_proxy_mode() -> None:
    """None: no such tracing is on."""


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[None]:
    """Nothing has to be disabled: there are no fake tensors."""
    yield


disable_proxy_modes_tracing = maybe_disable_thunkify = maybe_enable_thunkify = maybe_disable_fake_tensor_mode


def handle_sym_dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    """func(*args, **kwargs): sizes are numbers."""
    return func(*args, **kwargs)
