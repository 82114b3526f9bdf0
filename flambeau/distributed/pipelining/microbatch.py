"""torch.distributed.pipelining.microbatch: a batch's arguments in chunks, and the chunks' results as one."""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]

DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """The dimension along which a tensor is cut into chunks."""

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({self.split_dim})"

    def __str__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """One for each positional argument."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each keyword argument."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """What every chunk gets as it is."""


def _chunks(value: Any, spec: Any, count: int) -> list[Any]:
    """A value in `count` chunks: tensors cut, anything else the same in each; containers by their items."""
    if isinstance(value, torch.Tensor):
        if spec is _Replicate or isinstance(spec, _Replicate):
            return [value] * count
        dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else DEFAULT_CHUNK_DIM
        parts = list(torch.tensor_split(value, count, dim))
        if len(parts) != count or any(part.size(dim) == 0 for part in parts):
            raise ValueError(f"a tensor of {tuple(value.shape)} can't be cut along dimension {dim} into {count} microbatches")
        return parts
    if isinstance(value, dict):
        each = {key: _chunks(item, spec.get(key) if isinstance(spec, dict) else spec, count) for key, item in value.items()}
        return [{key: parts[k] for key, parts in each.items()} for k in range(count)]
    if isinstance(value, (list, tuple)):
        specs = spec if isinstance(spec, (list, tuple)) else [spec] * len(value)
        parts = [_chunks(item, own, count) for item, own in zip(value, specs, strict=True)]
        return [type(value)([part[k] for part in parts]) for k in range(count)]
    return [value] * count


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """A call's arguments for each of `chunks` microbatches. Tensors are cut along their first dimension unless a spec says so."""
    given = kwargs or {}
    if args_chunk_spec is not None and len(args_chunk_spec) != len(args):
        raise AssertionError(f"args_chunk_spec has {len(args_chunk_spec)} entries for {len(args)} arguments")
    return _chunks(tuple(args), args_chunk_spec, chunks), _chunks(given, kwargs_chunk_spec, chunks)


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """The microbatches' results as one: tensors joined along the first dimension unless a spec says so."""
    first = chunks[0]
    if isinstance(first, torch.Tensor):
        dim = chunk_spec.split_dim if isinstance(chunk_spec, TensorChunkSpec) else DEFAULT_CHUNK_DIM
        return torch.stack(chunks) if first.ndim == 0 else torch.cat(chunks, dim)
    if isinstance(first, dict):
        spec = chunk_spec if isinstance(chunk_spec, dict) else {}
        return {key: merge_chunks([chunk[key] for chunk in chunks], spec.get(key)) for key in first}
    if isinstance(first, (list, tuple)):
        specs = chunk_spec if isinstance(chunk_spec, (list, tuple)) else [chunk_spec] * len(first)
        return type(first)([merge_chunks([c[k] for c in chunks], specs[k]) for k in range(len(first))])
    return first
