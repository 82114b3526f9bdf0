"""Argument shapes shared by layers (`_pair(3) == (3, 3)`), at PyTorch's public path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(count: int, name: str = "parse") -> Callable[[Any], tuple]:
    """A function that repeats a number `count` times and turns an iterable into a tuple."""

    def parse(value: Any) -> tuple:
        return tuple(value) if isinstance(value, Iterable) else (value,) * count

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values: tuple, count: int) -> tuple:
    """(a, b), 2 -> (b, b, a, a): a per-dimension padding in the order that `F.pad` wants."""
    return tuple(value for value in reversed(values) for _ in range(count))


def _list_with_default(out_size: list[int], defaults: list[int]) -> list[int]:
    """out_size with each None replaced by the input's size from the end of `defaults`."""
    if isinstance(out_size, (int,)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix (such as "module.") off the names of a state_dict and its metadata, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in list(metadata):
            # The wrapper's own entry is "module", those below it "module.x".
            if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
                metadata[key[len(prefix) :]] = metadata.pop(key)
