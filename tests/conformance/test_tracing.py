"""A graph gives what its function gives, also for inputs other than those it was traced with, or tracing it is refused.

For the first sample of every public function: recorded by make_fx and by torch.jit.trace at one set of inputs, run on another.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance.catalogue import FAMILIES
from conformance.forms import Sample, flattened
from conformance.inputs import Inputs

import flambeau as torch
from flambeau.fx.experimental.proxy_tensor import make_fx

#: Lines whose values decide what is computed, or that call Python for each element; and two that PyTorch's tracer refuses.
REFUSED_BY_MAKE_FX = """__rpow__ apply_ coalesce cov ctc_loss embedding_bag gaussian_nll_loss histogramdd istft map2_ map_ smm
    sspaddmm""".split()
#: Of torch.jit.trace, beside those: what isn't written as an operator of a graph yet.
REFUSED_BY_TRACE = """H __rfloordiv__ __rmod__ as_subclass ccol_indices chalf col_indices crow_indices data embedding
    fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices grid_sample
    hinge_embedding_loss indices interpolate mH matrix_rank row_indices sparse_mask swapaxes_ to_dense to_sparse to_sparse_bsc
    to_sparse_bsr to_sparse_csc to_sparse_csr unique unsafe_chunk values""".split()


def made(line: str, salt: int, given: list[Any] | None = None) -> Inputs:
    inputs = Inputs(torch, line, given=dict(enumerate(given or [])))
    inputs.random = np.random.RandomState(zlib.crc32(line.encode()) + salt)
    return inputs


def function_of(sample: Sample) -> Callable[..., Any]:
    def function(*tensors: Any) -> Any:
        args, named = made(sample.line, 0, list(tensors)).arguments(sample.arguments)
        if sample.writes and args and isinstance(args[0], torch.Tensor):
            args = (args[0].clone(), *args[1:])
        return sample._called(sample.room, sample.name, args, named)

    return function


def inputs_of(sample: Sample, salt: int) -> list[Any]:
    inputs = made(sample.line, salt)
    inputs.arguments(sample.arguments)
    return inputs.made


def seeded(function: Callable[..., Any], inputs: list[Any]) -> Any:
    torch.manual_seed(5)
    return function(*[x.clone() for x in inputs])


def alike(found: Any, wanted: Any) -> bool:
    found, wanted = (flattened(torch, x) for x in (found, wanted))
    return len(found) == len(wanted) and all(
        x.shape == y.shape and x.dtype is y.dtype and torch.allclose(dense(x), dense(y), 1e-3, 1e-4, equal_nan=True)
        for x, y in zip(found, wanted)
    )


def dense(x: Any) -> Any:
    x = x.detach() if x.layout is torch.strided else x.detach().to_dense()
    return (x if x.is_complex() else x.double()).resolve_conj().resolve_neg()


def outcome(sample: Sample, tracer: Callable[..., Any]) -> str:
    """ "": right; "refused"; "wrong". "" too where there is nothing to trace."""
    function = function_of(sample)
    try:
        first, second = inputs_of(sample, 0), inputs_of(sample, 77)
        seeded(function, first)
        wanted = seeded(function, second)
    except Exception:
        return ""
    if not first or not flattened(torch, wanted):
        return ""
    try:
        torch.manual_seed(5)
        graph = tracer(function, [x.clone() for x in first])
    except (RuntimeError, NotImplementedError):
        return "refused"
    return "" if alike(seeded(graph, second), wanted) else "wrong"


def first_samples(family: str) -> list[Sample]:
    found: dict[str, Sample] = {}
    for line in FAMILIES[family]:
        sample = Sample(torch, line)
        found.setdefault(f"{sample.room}.{sample.name}", sample)
    return list(found.values())


def check(family: str, tracer: Callable[..., Any], refused: list[str]) -> None:
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in first_samples(family):
            said = outcome(sample, tracer)
            if said and not (said == "refused" and sample.name in refused):
                found[sample.line] = said
    assert not found


@pytest.mark.parametrize("family", FAMILIES)
def test_make_fx(family: str) -> None:
    check(family, lambda function, inputs: make_fx(function)(*inputs), REFUSED_BY_MAKE_FX)


@pytest.mark.parametrize("family", FAMILIES)
def test_jit_trace(family: str) -> None:
    check(
        family,
        lambda function, inputs: torch.jit.trace(function, tuple(inputs), check_trace=False),
        REFUSED_BY_MAKE_FX + REFUSED_BY_TRACE,
    )
