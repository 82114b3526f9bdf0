"""Calls that come again find what the first one worked out, and writes in the graph don't search memory for views."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.codegen.runtime import launch
from flambeau.core.autograd import inplace

F = torch.nn.functional

CALLS = {
    "layer norm over a torch.Size": lambda x, image: F.layer_norm(x, x.shape[1:]),
    "cat of two dtypes": lambda x, image: torch.cat([x, x.double()]),
    "group norm": lambda x, image: F.group_norm(image, 2),
    "batch norm by running statistics": lambda x, image: F.batch_norm(image, x[0, :4], x[0, :4].abs()),
    "pixel_shuffle": lambda x, image: F.pixel_shuffle(image, 2),
    "pixel_unshuffle": lambda x, image: F.pixel_unshuffle(image, 2),
    "channel_shuffle": lambda x, image: F.channel_shuffle(image, 2),
    "reflection": lambda x, image: F.pad(image, (1, 1, 1, 1), mode="reflect"),
    "columns": lambda x, image: x[:, torch.tensor([0, 2])],
    "nll_loss": lambda x, image: F.nll_loss(x, torch.arange(8)),
    "eye": lambda x, image: torch.eye(5),
    "triu_indices": lambda x, image: torch.triu_indices(5, 5),
    "multinomial": lambda x, image: torch.multinomial(x.abs(), 3, True),
    "bernoulli": lambda x, image: torch.bernoulli(x.sigmoid()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_plans_nothing(name, monkeypatch):
    x, image = torch.randn(8, 16), torch.randn(2, 4, 6, 6)
    first = CALLS[name](x, image)
    monkeypatch.setattr(launch, "callable_of", lambda *_, **__: pytest.fail("planned again"))
    second = CALLS[name](x, image)
    assert second.shape == first.shape and second.dtype is first.dtype and second.stride() == first.stride()


WRITES = {
    "mask": lambda z, d: z.__setitem__(d > 0, d[d > 0]),
    "rows": lambda z, d: z.__setitem__(torch.tensor([0, 2]), d[:2]),
    "scatter_": lambda z, d: z.scatter_(0, torch.zeros(4, 4, dtype=torch.int64), d),
    "masked_fill_": lambda z, d: z.masked_fill_(d > 0, 0.0),
    "index_add_": lambda z, d: z.index_add_(0, torch.tensor([1]), d[:1]),
    "cumsum_": lambda z, d: z.cumsum_(0),
    "addmm_": lambda z, d: z.addmm_(d, d),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_recorded_write_finds_no_views_to_look_for(name, monkeypatch):
    d = torch.randn(4, 4, requires_grad=True)
    z = d * 1
    monkeypatch.setattr(inplace, "_refresh", lambda *_: pytest.fail("searched"))
    WRITES[name](z, d)
    z.sum().backward()
    assert d.grad is not None


def test_an_updated_view_assigned_to_itself():
    w = torch.ones(3, requires_grad=True)
    z = torch.zeros(3, 2)
    row = z[1]
    for i in range(3):
        z[i] += 2 * w[i]
        z[i] *= w[i]
    assert z.tolist() == [[2.0, 2.0]] * 3 and row.tolist() == [2.0, 2.0]
    z.sum().backward()
    assert w.grad.tolist() == [8.0] * 3
    cut = w * 1
    cut[0] = cut[0].detach()
    cut.sum().backward()
    assert w.grad.tolist() == [8.0, 9.0, 9.0]
