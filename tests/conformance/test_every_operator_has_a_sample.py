"""Every public operator name occurs in the record of what PyTorch gives, so that a new operator has to come with a sample.

A sample is a line in `catalogue`; its record is made by `generate.py`, which needs a Python that has PyTorch.
"""

import pytest
from conformance.forms import Sample
from conformance.record import read

import flambeau as torch
import flambeau.fft
import flambeau.linalg
import flambeau.nn.functional
import flambeau.special
from flambeau.core.operator.publishing import OPERATORS
from flambeau.core.operator.unsupported import ADVICE

ROOMS = ("torch", "Tensor", "nn.functional", "linalg", "fft", "special")

# TorchScript's helpers, functions of sizes, our own, a method of tuples that a tensor only refuses, and older names.
NO_OPERATORS = {
    "nn.functional.assert_int_or_pair",
    "nn.functional.boolean_dispatch",
    "nn.functional.adopt",
    "nn.functional.renamed",
    "nn.functional.filter_traceback",
    "Tensor.index",
    *(
        f"torch.sym_{name}"
        for name in "constrain_range constrain_range_for_size float fresh_size int ite max min not sqrt sum".split()
    ),
    *(f"torch.{name}" for name in "dsmm hsmm saddmm spmm".split()),
}  # older names of mm and addmm

# Of names that PyTorch doesn't have, it can't say what they give.
ONLY_HERE = {"torch.absolute_", "torch.native_dropout_backward", "Tensor.alias"}


def recorded() -> set[str]:
    """The names, with their rooms, of all recorded calls."""
    found = set()
    for each in read():
        sample = Sample(torch, each.line)
        found.add(f"{sample.room}.{sample.name}")
        found |= {f"{room}.{name}" for form, room, name in sample.variants() if form in each.outcomes}
    return found


def public(room: str) -> list[str]:
    """The operators and methods that a room lists: its own functions, not settings that it offers on."""
    place = Sample(torch, "torch.abs(1)").place(room)
    names = [name for name in dir(place) if not name.startswith("_")]
    if room == "Tensor":
        return names
    prefix = "" if room == "torch" else room + "."
    return [
        name
        for name in names
        if getattr(getattr(place, name), "__module__", "") == place.__name__
        and callable(getattr(place, name))
        and not isinstance(getattr(place, name), type)
        and prefix + name not in ADVICE
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_sample(room: str) -> None:
    known = recorded() | NO_OPERATORS | ONLY_HERE
    without = [name for name in public(room) if f"{room}.{name}" not in known]
    assert not without, f"no sample in tests/conformance/catalogue.py: {', '.join(without)} of {room}"


def test_every_registered_operator_has_a_sample() -> None:
    """Those that a room has, though it may not list them; the others are parts of these."""
    names = recorded() | NO_OPERATORS | ONLY_HERE
    places = {room: Sample(torch, "torch.abs(1)").place(room) for room in ROOMS}
    without = [
        f"{room}.{name}"
        for name in list(OPERATORS)
        for room, place in places.items()
        if not name.startswith("_") and hasattr(place, name) and f"{room}.{name}" not in names
    ]
    assert not without, f"no sample in tests/conformance/catalogue.py: {', '.join(without)}"


def test_exceptions_exist() -> None:
    for path in NO_OPERATORS | ONLY_HERE:
        room, _, name = path.rpartition(".")
        assert hasattr(Sample(torch, "torch.abs(1)").place(room), name), path
