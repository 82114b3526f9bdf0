"""Whatever is recorded replays with eager's bits, on other inputs than it was recorded with; what can't be is refused.

For a share of the samples of the catalogue of conformance: results, written inputs, their versions, and random states.
"""

from __future__ import annotations

import ctypes
import warnings
import zlib
from typing import Any

import pytest
from conformance.catalogue import FAMILIES
from conformance.forms import flattened
from conformance.test_tracing import first_samples, function_of, inputs_of

import flambeau as torch
from flambeau.codegen.programs import Refusal, Replay, Unfit, record

SHARE = 5  # one sample of so many


def bits(x: Any) -> Any:
    x = x.detach().resolve_conj().resolve_neg()
    return (
        tuple(x.shape),
        x.stride(),
        x.dtype,
        bytes(x.contiguous().view(torch.uint8).numpy()) if x.numel() and x.dim() else x.tolist().__repr__(),
    )


def seen(outputs: Any, inputs: list[Any]) -> Any:
    """All that a call can have changed."""
    return (
        [bits(x) for x in outputs],
        [bits(x) for x in inputs],
        [x._version for x in inputs],
        bytes(torch.get_rng_state().numpy()),
    )


def poison(replay: Replay) -> None:
    """Fill the memory of what is fresh with NaNs."""
    for frames in replay.form.free:
        if frames.arena_bytes:
            ctypes.memset(frames.arena, 0xFF, frames.arena_bytes)


def said(sample: Any) -> str:
    """Why a sample is refused; "" where it replays rightly, "wrong" where not."""
    function = function_of(sample)
    try:
        with torch.no_grad():
            first, others = inputs_of(sample, 0), [inputs_of(sample, salt) for salt in (77, 78)]
            torch.manual_seed(5)
            wanted = function(*[x.clone() for x in first])
    except Exception:
        return "does not run"
    if not flattened(torch, wanted) or any(x._layout.flavor is not None for x in flattened(torch, wanted)):
        return "no tensors"
    with torch.no_grad():
        torch.manual_seed(5)
        given = [x.clone() for x in first]
        _, replay = record(function, *given)
        if isinstance(replay, Refusal):
            return replay.reason
        for inputs in (first, *others):
            try:
                torch.manual_seed(6)
                eager = [x.clone() for x in inputs]
                wanted = seen(flattened(torch, function(*eager)), eager)
            except Exception:
                continue
            torch.manual_seed(6)
            mine = [x.clone() for x in inputs]
            try:
                found = seen(replay(*mine), mine)
            except Unfit as reason:
                return f"unfit: {reason}"
            if found != wanted:
                return "wrong"
            poison(replay)
    return ""


@pytest.mark.parametrize("family", FAMILIES)
def test_replays_are_eager_bit_for_bit(family: str) -> None:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in first_samples(family):
            if zlib.crc32(sample.line.encode()) % SHARE == 0:
                words = said(sample)
                if words == "wrong":
                    found[sample.line] = words
    assert not found
