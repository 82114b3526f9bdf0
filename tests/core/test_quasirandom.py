"""Sobol sequences: the first points, scrambled ones, places in the sequence. Expected values were recorded from PyTorch."""

import pytest

import flambeau as torch
from flambeau.quasirandom import SobolEngine


def test_the_first_points():
    engine = SobolEngine(5)
    assert engine.draw(4).tolist() == [[0] * 5, [0.5] * 5, [0.75, 0.25, 0.25, 0.25, 0.75], [0.25, 0.75, 0.75, 0.75, 0.25]]
    assert engine.draw(1).tolist() == [[0.375, 0.375, 0.625, 0.875, 0.375]] and engine.num_generated == 5
    assert engine.sobolstate[:, 2].tolist() == [134217728, 671088640, 402653184, 134217728, 134217728]
    assert repr(engine) == "SobolEngine(dimension=5)"


def test_places_in_the_sequence():
    whole = SobolEngine(3).draw(20)
    engine = SobolEngine(3)
    parts = [engine.draw(1), engine.draw(6), engine.fast_forward(5).draw(8)]
    assert torch.cat(parts).equal(torch.cat([whole[:7], whole[12:]]))
    assert engine.reset().draw(20).equal(whole) and SobolEngine(3).fast_forward(4).draw(2).equal(whole[4:6])
    balanced = SobolEngine(3)
    assert torch.cat([balanced.draw_base2(1), balanced.draw_base2(1)]).equal(whole[:4])
    with pytest.raises(ValueError, match=r"power of 2. 4 points have been previously generated, then: n=4\+2\*\*3=12"):
        balanced.draw_base2(3)


def test_scrambled_points():
    engine = SobolEngine(3, scramble=True, seed=7)
    expected = torch.tensor([[0.1995, 0.1709, 0.7494], [0.6922, 0.7115, 0.4898], [0.8505, 0.2963, 0.7880]])
    torch.testing.assert_close(engine.draw(3), expected, atol=5e-5, rtol=0)
    assert repr(engine) == "SobolEngine(dimension=3, scramble=True, seed=7)"
    points = SobolEngine(2, scramble=True).draw(64)  # every interval of 1 / 64 holds a point
    assert [sorted((column * 64).long().tolist()) for column in points.T] == [list(range(64))] * 2


def test_the_last_dimension():
    engine = SobolEngine(21201)
    assert engine.sobolstate.sum().item() == 341565579072477 and engine.draw(2).shape == (2, 21201)
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match=r"^Supported range of dimensionality for SobolEngine is \[1, 21201\]$"):
            SobolEngine(dimension)
