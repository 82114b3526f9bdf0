"""A model server: `flambeau serve MODEL...` puts exported programs, TorchScript and checkpoints with a handler behind HTTP.

The front end (HTTP, queues, versions, metrics) is one process; each version of a model has a process that loads it and forks
the workers, so that they share weights and compiled code. Stands on the public API and, by the extra `flambeau[serve]`, on
uvicorn, Starlette and prometheus-client; used by the command only. Handlers stand on `BaseHandler`, as TorchServe's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.serve.handlers.base import BaseHandler as BaseHandler
    from flambeau.serve.handlers.generation import TextModel as TextModel

__all__ = ["BaseHandler", "TextModel"]


def __getattr__(name: str) -> Any:
    if name == "BaseHandler":
        from flambeau.serve.handlers.base import BaseHandler

        return BaseHandler
    if name == "TextModel":
        from flambeau.serve.handlers.generation import TextModel

        return TextModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
