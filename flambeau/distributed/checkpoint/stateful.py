"""torch.distributed.checkpoint.stateful: objects that have a state dict, which checkpoints ask for and load."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object with `state_dict()` and `load_state_dict(state_dict)`."""

    def state_dict(self) -> dict[str, Any]:
        """What the object is to be saved as."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what was saved."""


StatefulT = TypeVar("StatefulT", bound=Stateful)
