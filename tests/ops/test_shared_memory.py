"""Writes to memory that is read at the same time, or that an expanded tensor shows several times."""

import warnings

import pytest

import flambeau as torch
from flambeau.base import warn

INPUT = "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location."


def matrix():
    return torch.arange(12.0).reshape(3, 4)


INDEX, FIRST, ALL = torch.zeros(3, 4, dtype=torch.int64), torch.tensor([0]), torch.ones(3, 4, dtype=torch.bool)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: torch.gather(x, 0, INDEX, out=x),
        lambda x: torch.gather(x, 0, INDEX[:1], out=x[1:2]),
        lambda x: torch.take(x, INDEX, out=x),
        lambda x: torch.cat([x[:1], x[1:]], out=x),
        lambda x: torch.stack([x[0], x[1]], out=x[:2]),
        lambda x: torch.index_select(x, 0, FIRST, out=x[1:2]),
        lambda x: torch.masked_select(x, ALL, out=x),
        lambda x: torch.max(x, 0, out=(x[0], INDEX[0].clone())),
        lambda x: torch.cross(x[0, :3], x[1, :3], dim=0, out=x[0, :3]),
        lambda x: torch.where(ALL[1:], x[1:], x[1:], out=x[:-1]),
        lambda x: torch.clamp(x[1:], 0, 1, out=x[:-1]),
        lambda x: torch.cumsum(x[1:], 0, out=x[:-1]),
        lambda x: torch.sort(x[0], out=(x.view(-1)[1:5], INDEX[0].clone())),
        lambda x: torch.topk(x[0], 4, out=(x.view(-1)[1:5], INDEX[0].clone())),
        lambda x: torch.kthvalue(x[0], 1, out=(x[0, 0], INDEX[0, 0].clone())),
        lambda x: torch.median(x, 0, out=(x[0], INDEX[0].clone())),
        lambda x: torch.hstack([x[0], x[1]], out=x.view(-1)[:8]),
        lambda x: torch.outer(x[0, :3], x[1], out=x),
        lambda x: torch.nan_to_num(x[1:], out=x[:-1]),
        lambda x: torch.index_add(x[1:], 0, FIRST, x[:1].clone(), out=x[:-1]),
        lambda x: x.put_(FIRST, x[1, 1:2]),
        lambda x: x.scatter_(0, INDEX, x),
        lambda x: x.scatter_add_(0, INDEX[:1], x[1:2]),
        lambda x: x.scatter_reduce_(0, INDEX, x, "sum"),
        lambda x: x.index_add_(0, FIRST, x[1:2]),
        lambda x: x.index_copy_(0, FIRST, x[1:2]),
        lambda x: x.index_put_((FIRST,), x[1]),
        lambda x: x.__setitem__(FIRST, x[1]),
    ],
)
def test_refused(write):
    x = matrix()
    with pytest.raises(RuntimeError, match=INPUT):
        write(x)
    assert x.equal(matrix())


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.put_(x, x.clone()),
        lambda x: x.index_fill_(0, x, 0),
        lambda x: x.index_put_((x,), x.clone()),
        lambda x: x.__setitem__(x, 0),
    ],
)
def test_an_index_is_not_written_through_itself(write):
    x = torch.tensor([2, 1, 0])
    with pytest.raises(RuntimeError, match=INPUT):
        write(x)
    assert x.tolist() == [2, 1, 0]


def test_a_mask_is_not_moved_under_itself():
    mask = torch.tensor([True, False, True])
    with pytest.raises(RuntimeError, match=INPUT):
        mask[1:].masked_fill_(mask[:-1], False)
    assert mask.masked_fill_(mask, False).tolist() == [False] * 3


def test_running_sums_may_take_the_place_of_their_input():
    x = matrix()
    assert torch.cumsum(x, 1, out=x).tolist() == [[0, 1, 3, 6], [4, 9, 15, 22], [8, 17, 27, 38]]
    assert torch.sort(x, descending=True, out=(x, INDEX.clone())).values is x
    assert x[0].tolist() == [6, 3, 1, 0]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: torch.where(ALL, x, -x, out=x), list(range(12))),
        (lambda x: torch.clamp(x, 0, 1, out=x), [0] + [1] * 11),
        (lambda x: torch.amax(x, 0, out=x[0]), [8, 9, 10, 11]),
        (lambda x: x.masked_scatter_(ALL, x), list(range(12))),
        (lambda x: x.index_add_(0, FIRST, x[1:2].clone()), [4, 6, 8, 10, *range(4, 12)]),
        (lambda x: x.index_fill_(0, FIRST, x[2, 3]), [11] * 4 + list(range(4, 12))),
    ],
)
def test_allowed(write, expected):
    assert write(matrix()).flatten().tolist() == expected


@pytest.mark.parametrize(
    ("name", "write", "expected"),
    [
        ("masked_fill_", lambda v: v.expand(3, 4).masked_fill_(ALL, 1), [1, 1, 1, 1]),
        ("index_fill_", lambda v: v.expand(3, 4).index_fill_(0, FIRST, 1.0), [1, 1, 1, 1]),
        ("index_put_", lambda v: v.expand(3, 4).index_put_((FIRST,), torch.full((4,), 2.0)), [2, 2, 2, 2]),
    ],
)
def test_expanded_tensors_are_filled_with_a_warning(monkeypatch, name, write, expected):
    monkeypatch.setattr(warn, "_given", set())
    v = torch.arange(4.0)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        write(v)
    assert [str(warning.message).split(".")[0] for warning in given] == [f"Use of {name} on expanded tensors is deprecated"]
    assert v.tolist() == expected
