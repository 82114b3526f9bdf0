"""Layouts and the caches that are kept by them."""

from __future__ import annotations

import pytest

import flambeau
from flambeau.base import layout


def test_caches_of_keys_without_end_are_emptied_now_and_then() -> None:
    x = flambeau.zeros(100000)
    before = {id(cache): len(cache) for cache in layout._caches}
    for i in range(30000):
        x[i : i + 2]
        flambeau.narrow(x, 0, i, 3)
    assert all(len(cache) - before.get(id(cache), 0) < 20000 for cache in layout._caches)
    assert x[29998:30000]._layout is x[:2]._layout  # equal layouts stay one object


def test_sizes_and_strides_that_64_bits_do_not_hold_are_refused():
    for make in (flambeau.empty, flambeau.zeros, flambeau.empty(1).resize_, flambeau.empty(0).view):
        with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
            make([0, 4, 1 << 61])
        with pytest.raises(RuntimeError, match="overflow"):
            make([1 << 62, 4, 0])
    assert flambeau.empty(0, 1 << 31, 1 << 31).stride() == (1 << 62, 1 << 31, 1)
