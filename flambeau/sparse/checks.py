"""Whether the parts of sparse tensors are checked, and gradients of functions of sparse tensors checked numerically.

Stands on ops.sparse.construction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.ops.sparse.construction import Invariants


class check_sparse_tensor_invariants:
    """Context and decorator: check that places are inside of the shape, in order ... when sparse tensors are made.

    Without a context: `check_sparse_tensor_invariants.enable()` and `.disable()`.
    """

    @staticmethod
    def is_enabled() -> bool:
        """Whether parts are checked."""
        return Invariants.enabled

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        Invariants.enabled = True

    @staticmethod
    def disable() -> None:
        """Check no more."""
        Invariants.enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager instance for "
                "context nesting."
            )
        self.saved_state, Invariants.enabled = Invariants.enabled, self.state

    def __exit__(self, *exception: object) -> None:
        Invariants.enabled, self.saved_state = bool(self.saved_state), None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
