"""Every sample on fake tensors, in their mode: shapes, dtypes, strides and devices of the real run, or PyTorch's exceptions for
what only values can tell.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from conformance.forms import Sample
from conformance.inputs import Inputs
from conformance.record import read

import flambeau as torch
from flambeau._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode

#: What is of the class that it is asked to be, memory that there is none of, or parts that have other sizes in PyTorch as well.
NOT_ALIKE = frozenset("as_subclass numpy tolist share_memory_ data_ptr const_data_ptr torch.embedding_bag".split())
FAMILIES: dict[str, list[Sample]] = {}
for recorded in read():
    FAMILIES.setdefault(recorded.family, []).append(Sample(torch, recorded.line))


def described(value: Any) -> Any:
    """What is known of a result without its values."""
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.numel() else None
        return [*value.shape, value.dtype, strides, value.device, value.is_conj(), value.is_neg()]
    if isinstance(value, (tuple, list)):
        return [described(x) for x in value]
    return type(value)


def gave(sample: Sample, mode: FakeTensorMode | None) -> Any:
    """What a sample gives on real tensors, or on fake ones inside a mode."""
    args, named = Inputs(torch, sample.line, "float32").arguments(sample.arguments)
    if sample.writes:
        args = (args[0].clone(), *args[1:])
    if mode is None:
        return described(sample._called(sample.room, sample.name, args, named))
    args, named = faked(args, mode), faked(named, mode)
    with mode:
        made = sample._called(sample.room, sample.name, args, named)
    assert all(type(x) is FakeTensor for x in tensors(made))
    return described(made)


def faked(value: Any, mode: FakeTensorMode) -> Any:
    if isinstance(value, torch.Tensor):
        return mode.from_tensor(value)
    if type(value) in (tuple, list):
        return type(value)(faked(x, mode) for x in value)
    return {name: faked(x, mode) for name, x in value.items()} if isinstance(value, dict) else value


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_like_those_of_a_real_run(family: str) -> None:
    mode, wrong = FakeTensorMode(), []
    for sample in FAMILIES[family]:
        if (
            not NOT_ALIKE.isdisjoint((sample.name, sample.line.partition("(")[0])) or "sparse" in sample.line
        ):  # sparse tensors have no fakes
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                real = gave(sample, None)
            except Exception:
                continue
            try:
                got = gave(sample, mode)
            except (DataDependentOutputException, DynamicOutputShapeException):
                continue
            except Exception as error:
                got = f"{type(error).__name__}: {error}"[:300]
        if got != real:
            wrong.append(f"{sample.line}: {got}, not {real}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
