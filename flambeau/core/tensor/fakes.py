"""Fake tensors: tensors on the CPU, say, that have a shape, strides, a dtype and a place in the graph, but no data.

Their layouts lie on a stand-in for the device (base.device), which computing code takes for meta: so every operator works out
results as it does there, and whatever it makes is a FakeTensor, by its layout. What only values could tell ends in the
exceptions that are here. Stands on base.layout; used by core.tensor.without_data, core.tensor.create, and
dispatcher.fake_inputs; `_subclasses` has their class, and the mode that makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.layout import Layout
from flambeau.base.naming import public_module

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensorDeviceMismatchError",
    "UnsupportedOperatorException",
    "is_fake",
    "known_value",
    "overload_named",
    "refuse_mixing",
    "remember",
    "two_devices",
    "without_values",
]

_HOME = public_module("_subclasses.fake_tensor")

#: Finds an overload by its name ("aten::nonzero", "aten::linalg_lstsq.out"); set by the room that knows them.
find_overload: Callable[[str], Any] | None = None


def overload_named(name: str) -> Any:
    """The overload that torch.ops has by this name."""
    assert find_overload is not None  # there are no fake tensors without that room
    return find_overload(name)


class DynamicOutputShapeException(RuntimeError):
    """The shape of an operator's result depends on values, which fake tensors don't have. func: the operator."""

    __module__ = _HOME

    def __init__(self, func: Any):
        super().__init__(func)
        self.func = func


class DataDependentOutputException(RuntimeError):
    """An operator gives a value, and fake tensors have none. func: the operator."""

    __module__ = _HOME

    def __init__(self, func: Any):
        super().__init__(func)
        self.func = func


class UnsupportedOperatorException(RuntimeError):
    """An operator that only works on values. func: the operator."""

    __module__ = _HOME

    def __init__(self, func: Any):
        super().__init__(func)
        self.func = func


class FakeTensorDeviceMismatchError(RuntimeError):
    """Fake tensors of one call are on different devices."""

    __module__ = _HOME


def is_fake(layout: Layout) -> bool:
    """Whether it is the layout of a fake tensor."""
    return layout.device.stand_ins is not None


def without_values(operator: str) -> Exception:
    """What aten's `operator` ("nonzero", "linalg_lstsq.out") raises for fake tensors; its tags say what it needs values for."""
    overload = overload_named(f"aten::{operator}")
    tags = {tag.name for tag in overload.tags}
    if "dynamic_output_shape" in tags:
        return DynamicOutputShapeException(overload)
    return DataDependentOutputException(overload) if "data_dependent_output" in tags else UnsupportedOperatorException(overload)


def refuse_mixing(one: Any, other: Any) -> None:
    """AssertionError for operands on these devices if just one is a fake tensor's, or they belong to two modes."""
    if one.stand_ins is not other.stand_ins:
        if one.stand_ins is not None and other.stand_ins is not None:
            raise AssertionError(f"Mixing fake modes NYI x.fake_mode={other.stand_ins.mode} vs self={one.stand_ins.mode}")
        raise AssertionError(MIXING)


def two_devices(one: Any, other: Any) -> Exception:
    """The exception for operands on different devices."""
    if one.stand_ins is None and "meta" in (one.type, other.type):
        return RuntimeError(f"Tensor on device {other} is not on the expected device {one}!")
    kind = RuntimeError if one.stand_ins is None else FakeTensorDeviceMismatchError
    return kind(f"Expected all tensors to be on the same device, but found at least two devices, {one} and {other}!")


MIXING = "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'."

# ---------------------------------------------------------------- values that are known


def remember(fake: Any, values: Any) -> None:
    """Let a fake tensor know its values, until something is written to it."""
    fake.__dict__["_known"] = (values, fake._storage.writes)


def known_value(fake: Any) -> Any:
    """The values of a fake tensor, or None where they aren't known."""
    found = fake.__dict__.get("_known")
    return None if found is None or found[1] != fake._storage.writes else found[0]
