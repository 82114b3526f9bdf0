"""Every public operator name occurs in the record of what PyTorch gives, so that a new operator has to come with a sample.

A sample is a line in `catalogue`; its record is made by `generate.py`, which needs a Python that has PyTorch.
"""

from types import ModuleType

import pytest
from conformance.forms import Sample
from conformance.record import read

import flambeau as torch
import flambeau.fft
import flambeau.linalg
import flambeau.nn.functional
import flambeau.special
from flambeau.core.derive import OPERATORS

ROOMS = ("torch", "Tensor", "nn.functional", "linalg", "fft", "special")

# Settings and questions about them.
NO_OPERATORS = {
    f"torch.{name}" for name in (
        "get_default_device", "set_default_device", "get_default_dtype", "set_default_dtype", "set_printoptions",
        "get_num_threads", "set_num_threads", "get_num_interop_threads", "set_num_interop_threads",
        "is_grad_enabled", "is_inference_mode_enabled")
} | {"nn.functional.assert_int_or_pair", "nn.functional.boolean_dispatch", "Tensor.index"}

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
    """The operators and methods that a room offers."""
    place = Sample(torch, "torch.abs(1)").place(room)
    names = [name for name in dir(place) if not name.startswith("_")]
    if room == "Tensor":
        return names
    found = {name: getattr(place, name) for name in names}
    return [name for name, thing in found.items() if callable(thing) and not isinstance(thing, (type, ModuleType))
            and ".base." not in getattr(thing, "__module__", "") and not getattr(thing, "__module__", "").startswith("importlib")]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_a_sample(room: str) -> None:
    known = recorded() | NO_OPERATORS | ONLY_HERE
    without = [name for name in public(room) if f"{room}.{name}" not in known]
    assert not without, f"no sample in tests/conformance/catalogue.py: {', '.join(without)} of {room}"


def test_every_registered_operator_has_a_sample() -> None:
    """Those whose name begins with an underscore are parts of others."""
    names = {each.rpartition(".")[2] for each in recorded() | ONLY_HERE}
    without = [name for name in OPERATORS if not name.startswith("_") and name not in names
               and name.removeprefix("linalg_").removeprefix("special_").removeprefix("fft_") not in names]
    assert not without, f"no sample in tests/conformance/catalogue.py: {', '.join(without)}"


def test_exceptions_exist() -> None:
    for path in NO_OPERATORS | ONLY_HERE:
        room, _, name = path.rpartition(".")
        assert hasattr(Sample(torch, "torch.abs(1)").place(room), name), path
