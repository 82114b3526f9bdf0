"""Random operators under vmap: refused, different for each example, or the same for all; the numbers are PyTorch's."""

import pytest

import flambeau as torch
from flambeau.func import vmap

X = torch.arange(6.0).reshape(2, 3)
#: draws for one example -> what `shape` of the same draw outside of vmap looks like
DRAWS = {
    "normal": (lambda x: torch.normal(0.0, 1.0, (3,)), lambda *lead: torch.normal(0.0, 1.0, (*lead, 3))),
    "bernoulli": (lambda x: torch.bernoulli(torch.full((3,), 0.5)), lambda *lead: torch.bernoulli(torch.full((*lead, 3), 0.5))),
    "multinomial": (lambda x: torch.multinomial(torch.ones(3), 2), lambda *lead: torch.multinomial(torch.ones(*lead, 3), 2)),
    "poisson": (lambda x: torch.poisson(torch.ones(3)), lambda *lead: torch.poisson(torch.ones(*lead, 3))),
    "rand": (lambda x: torch.rand(3), lambda *lead: torch.rand(*lead, 3)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_what_is_the_same_for_all_examples(name):
    draw, outside = DRAWS[name]
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        vmap(draw)(X)
    torch.manual_seed(0)
    expected = outside(2)
    torch.manual_seed(0)
    assert vmap(draw, randomness="different")(X).tolist() == expected.tolist()
    torch.manual_seed(0)
    one = outside()
    for chunk_size in (None, 1):  # every chunk draws the same numbers
        torch.manual_seed(0)
        made = vmap(draw, randomness="same", chunk_size=chunk_size)(X)
        assert made.tolist() == [one.tolist()] * 2


def test_the_same_in_place_draw_inside_of_different_ones():
    inner = vmap(lambda x: x.clone().normal_(), randomness="same")
    with pytest.raises(RuntimeError, match="Cannot ask for different inplace randomness on an unbatched tensor"):
        vmap(inner, randomness="different")(X.reshape(2, 1, 3))


def test_modules_made_inside():
    assert vmap(lambda x: torch.nn.Linear(3, 2)(x), randomness="same")(X).shape == (2, 2)


def test_data_and_views_in_place():
    with pytest.raises(RuntimeError, match="accessing `data` under vmap transform is not allowed"):
        vmap(lambda x: x.data * 2)(X)
    assert vmap(lambda x: (x * 1).unsqueeze_(0).t_().mul_(2))(X).tolist() == (X * 2).unsqueeze(-1).tolist()
