"""torch.utils.data.datapipes._decorator: classes of pipes that become methods of every pipe."""

from __future__ import annotations

from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["functional_datapipe"]


class functional_datapipe:
    """A decorator of a class of pipes: `pipe.name(...)` is then `cls(pipe, ...)`. Exception for a name that is taken."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        if issubclass(cls, (IterDataPipe, MapDataPipe)):
            cls.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls
