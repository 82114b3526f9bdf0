"""torch._refs: every operator that PyTorch has a reference of, by that reference's name."""

from __future__ import annotations

import importlib

import pytest

import flambeau as torch
from flambeau import _refs

X = torch.tensor([[-7.0, 2.0], [3.0, 0.5]])


@pytest.mark.parametrize("room", ["", ".nn.functional", ".special", ".fft", ".linalg", "._conversions"])
def test_all_names_are_there(room):
    module = importlib.import_module("flambeau._refs" + room)
    assert module.__all__ and all(callable(getattr(module, name)) for name in module.__all__)
    assert not hasattr(module, "nothing")


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda: _refs.sin(X), lambda: X.sin()),
        (lambda: _refs.sum(X, 0, keepdim=True), lambda: X.sum(0, keepdim=True)),
        (lambda: _refs.expand(X[0], 2, 2), lambda: X[0].expand(2, 2)),
        (lambda: _refs.swap_axes(X, 0, 1), lambda: X.T),
        (lambda: _refs.T(X), lambda: X.T),
        (lambda: _refs.zero(X), lambda: torch.zeros(2, 2)),
        (lambda: _refs.rpow(X, 2.0), lambda: 2.0**X),
        (lambda: _refs.rtruediv(X, 2.0), lambda: 2.0 / X),
        (lambda: _refs.rfloordiv(X, 2.0), lambda: 2.0 // X),
        (lambda: _refs.trunc_divide(X, 2.0), lambda: (X / 2).trunc()),
        (lambda: _refs.copy_to(torch.zeros(2, 2), X), lambda: X),
        (lambda: _refs.nn.functional.celu(X), lambda: torch.nn.functional.celu(X)),
        (lambda: _refs.nn.functional.mish_(X.clone()), lambda: torch.nn.functional.mish(X)),
        (lambda: _refs.special.zeta(X.abs() + 1, 2.0), lambda: torch.special.zeta(X.abs() + 1, 2.0)),
        (lambda: _refs.fft.rfft(X), lambda: torch.fft.rfft(X)),
        (lambda: _refs.linalg.svdvals(X), lambda: torch.linalg.svdvals(X)),
        (lambda: _refs._conversions.double(X), lambda: X.double()),
        (lambda: _refs._conversions.complex(X, X), lambda: torch.complex(X, X)),
    ],
)
def test_references_give_what_operators_give(made, wanted):
    torch.testing.assert_close(made(), wanted(), rtol=0, atol=0)


def test_an_alias_shares_memory():
    other = _refs.alias(X.T)
    assert other is not X and other.stride() == (1, 2) and other.data_ptr() == X.data_ptr()


def test_samples_have_the_streams_of_the_methods_in_place():
    for name, args in (("cauchy", (1.0, 2.0)), ("exponential", (3.0,)), ("geometric", (0.3,)), ("log_normal", (0.0, 1.0))):
        torch.manual_seed(1)
        made = getattr(_refs, name)(X, *args)
        torch.manual_seed(1)
        assert torch.equal(made, getattr(torch.empty(2, 2), name + "_")(*args))


def test_references_have_no_wrapper_to_take_off():
    from flambeau._prims_common.wrappers import _maybe_remove_out_wrapper

    assert _maybe_remove_out_wrapper(_refs.sin) is _refs.sin
