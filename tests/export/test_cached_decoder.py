"""A decoder with a cache of keys and values is exported with open sizes: batch, length, and length of the cache."""

from __future__ import annotations

import cached_decoder
import pytest

import flambeau as torch
from flambeau.export import Dim, export


def shapes(kind, total):
    batch, length, before = (kind, kind, kind) if not isinstance(kind, tuple) else kind
    past = tuple({0: batch, 2: before} for _ in range(2 * cached_decoder.LAYERS))
    return ({0: batch, 1: length}, {0: batch, 1: total}, {0: batch, 1: length}, past)


NAMED = Dim("batch"), Dim("length"), Dim("past")


@pytest.mark.parametrize("kind", [Dim.AUTO, Dim.DYNAMIC, NAMED], ids=["auto", "open", "named"])
def test_sizes_stay_open(kind):
    model = cached_decoder.decoder()
    program = export(model, cached_decoder.inputs(2, 3, 4), dynamic_shapes=shapes(kind, Dim.AUTO))
    given = [n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder"][-7:]
    assert all(isinstance(shape[0], torch.SymInt) for shape in given)
    assert all(isinstance(shape[1], torch.SymInt) for shape in given[:3])
    assert all(isinstance(shape[2], torch.SymInt) for shape in given[3:])
    run = program.module()
    for sizes in ((2, 3, 4), (3, 5, 7), (1, 1, 4), (4, 1, 9, 2), (2, 6, 1, 1)):
        args = cached_decoder.inputs(*sizes)
        for x, y in zip(run(*args), model(*args)):
            torch.testing.assert_close(x, y)


def test_decomposed():
    model = cached_decoder.decoder()
    program = export(model, cached_decoder.inputs(2, 3, 4), dynamic_shapes=shapes(Dim.AUTO, Dim.AUTO)).run_decompositions()
    args = cached_decoder.inputs(3, 1, 8, 1)
    for x, y in zip(program.module()(*args), model(*args)):
        torch.testing.assert_close(x, y)


def test_sizes_between_two_bounds_are_no_constants():
    """Two inequalities that only equal sizes fulfil leave the operators behind them open."""

    class Cut(torch.nn.Module):
        def forward(self, x, y):
            y = y[:, : x.shape[1]] if y.shape[1] >= x.shape[1] else y
            return (x & y) if y.shape[1] <= x.shape[1] else x

    x, y = torch.arange(6).reshape(2, 3), torch.ones(2, 3, dtype=torch.int64)
    auto = {0: Dim.AUTO, 1: Dim.AUTO}
    program = export(Cut(), (x, y), dynamic_shapes=(auto, auto))
    wide = torch.arange(20).reshape(4, 5)
    assert torch.equal(program.module()(wide, torch.ones_like(wide)), wide & 1)
