"""Context managers of this package for programs. Compiled in the place of those of the same name."""

from typing import Any

import flambeau as torch


class no_grad:
    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.ops.aten.set_grad_enabled(False)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.ops.aten.set_grad_enabled(self.prev)


class enable_grad:
    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.ops.aten.set_grad_enabled(True)

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.ops.aten.set_grad_enabled(self.prev)


no_grad._jit_override_qualname = "__torch__.torch.autograd.grad_mode.no_grad"  # type: ignore[attr-defined]
enable_grad._jit_override_qualname = "__torch__.torch.autograd.grad_mode.enable_grad"  # type: ignore[attr-defined]
