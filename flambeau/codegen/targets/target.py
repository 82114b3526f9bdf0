"""What a target is: it lowers the steps of plans to kernels, and makes what runs them.

Stands on plan.py; cpu.py and ptx.py beside it are targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flambeau.codegen.plan import Plan


class Target(Protocol):
    """Kernels of one kind of device."""

    name: str

    @property
    def vector_bytes(self) -> int:
        """Width of the vectors that kernels are written for."""

    @property
    def threads(self) -> int:
        """How many run a plan that is made now."""

    def lower(self, step: Any) -> Any:
        """The kernels of a step, with what they are launched with. Raises NotImplementedError for one that it has none for."""

    def launcher(self, plan: Plan) -> Callable:
        """A callable `launch(out_or_None..., inputs..., scalars...)` that runs a plan."""

    def allocate(self, nbytes: int) -> Any:
        """A storage of so many bytes."""
