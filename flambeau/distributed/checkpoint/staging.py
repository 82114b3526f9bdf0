"""torch.distributed.checkpoint.staging: copies of state dicts that later steps of training don't change.

Used by `state_dict_saver.async_save`, and by writers that stage for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import flambeau as torch
from flambeau.distributed.tensor._api import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """What makes the copy that `async_save` saves."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether async_save calls `synchronize_staging` before it returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """A copy of a state dict, or a future of one."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Waits for a copy that is being made."""

    def close(self) -> None:
        """Gives back what was kept for copies."""


@dataclass
class StagingOptions:
    """How DefaultStager copies.

    use_async_staging: in a thread; `stage` then returns a future. use_shared_memory: into memory that other processes can map.
    use_pinned_memory, use_non_blocking_copy: for copies from a device, of which there is none here: they make no difference.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


@torch.no_grad()
def _into(place: Any, source: torch.Tensor, shared: bool) -> torch.Tensor:
    """A copy of a plain tensor, in the memory of an earlier one if it fits."""
    if isinstance(place, torch.Tensor) and (place.shape, place.dtype) == (source.shape, source.dtype):
        return place.copy_(source)
    copy = source.detach().clone()
    return copy.share_memory_() if shared else copy


def staged(value: Any, place: Any = None, shared: bool = False) -> Any:
    """A value that later changes of its tensors don't reach; `place` is what an earlier call returned, to be copied into."""
    if isinstance(value, DTensor):
        own = place._local_tensor if isinstance(place, DTensor) else None
        return DTensor(_into(own, value._local_tensor, shared), value._spec, requires_grad=False)
    if isinstance(value, torch.Tensor):
        return _into(None if isinstance(place, DTensor) else place, value, shared)
    if isinstance(value, Mapping):
        places = place if isinstance(place, Mapping) else {}
        return {key: staged(item, places.get(key), shared) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        fits = isinstance(place, (list, tuple)) and len(place) == len(value)
        items = [staged(item, place[k] if fits else None, shared) for k, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class DefaultStager(AsyncStager):
    """Copies as its options say, each time into the same memory. One copy at a time; `close` it after the last."""

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config or StagingOptions()
        self._pool = ThreadPoolExecutor(1, "staging") if self._config.use_async_staging else None
        self._place: Any = None
        self._running: Future[Any] | None = None

    def _stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        self._place = staged(state_dict, self._place, self._config.use_shared_memory)
        result: dict[str, Any] = self._place
        return result

    def stage(self, state_dict: dict[str, Any]) -> Any:
        if self._pool is None:
            return self._stage(state_dict)
        self._running = self._pool.submit(self._stage, state_dict)
        return self._running

    def synchronize_staging(self) -> None:
        if self._running is not None:
            self._running.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._place = None


class BlockingAsyncStager(AsyncStager):
    """Copies at once.

    cache_staged_state_dict: into the same memory each time. type_check: RuntimeError for values that are neither tensors,
    numbers, texts, bytes, None nor containers of them.
    """

    _synchronize_after_execute: bool = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self.state_dict_cache: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "state_dict_cache": None}

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        if self.type_check:
            _check_types(state_dict)
        result: dict[str, Any] = staged(state_dict, self.state_dict_cache)
        if self.cache_staged_state_dict:
            self.state_dict_cache = result
        return result

    def synchronize_staging(self) -> None:
        """Nothing: `stage` has copied when it returns."""

    def close(self) -> None:
        self.state_dict_cache = None


def _check_types(value: Any) -> None:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_types(item)
    elif not isinstance(value, (torch.Tensor, int, float, complex, str, bytes, type(None))):
        raise RuntimeError(f"Unexpected value type {type(value)}")
