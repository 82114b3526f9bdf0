"""torch.jit._state: what was compiled in this process."""

from __future__ import annotations

from flambeau.jit.frontend.python_classes import forget as _clear_class_state

__all__ = ["_clear_class_state"]
