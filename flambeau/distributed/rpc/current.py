"""This process's agent and values, once init_rpc has made them. Stands on nothing of the room."""

from __future__ import annotations

from typing import Any

_made: dict[str, Any] = {}


def is_there() -> bool:
    """Whether init_rpc was called, and shutdown not yet."""
    return "agent" in _made


def agent() -> Any:
    """The agent. Raises RuntimeError before init_rpc."""
    if "agent" not in _made:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return _made["agent"]


def values() -> Any:
    """The values that others have references to. Raises RuntimeError before init_rpc."""
    agent()
    return _made["values"]


def calls() -> Any:
    """The module with rpc_sync, rpc_async and remote."""
    return _made["calls"]


def begin(**made: Any) -> None:
    """Take what init_rpc has made."""
    _made.update(made)


def end() -> None:
    """There is none any more."""
    _made.clear()


def contexts() -> Any:
    """The contexts of distributed autograd. Raises RuntimeError before init_rpc."""
    agent()
    return _made["contexts"]
