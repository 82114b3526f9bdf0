"""Averaged models, their functions and scheduler."""

import pytest

import flambeau as torch
from flambeau.optim import SGD
from flambeau.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)


def set_weights(model, value):
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 2.0),
        ({"avg_fn": get_swa_avg_fn()}, 2.0),
        ({"multi_avg_fn": get_swa_multi_avg_fn()}, 2.0),
        ({"avg_fn": get_ema_avg_fn(0.5)}, 2.25),
        ({"multi_avg_fn": get_ema_multi_avg_fn(0.5)}, 2.25),
    ],
)
def test_averages(options, expected):
    model = torch.nn.Linear(2, 2)
    averaged = AveragedModel(model, **options)
    assert list(averaged.state_dict()) == ["n_averaged", "module.weight", "module.bias"]
    for value in (1.0, 2.0, 3.0):
        set_weights(model, value)
        averaged.update_parameters(model)
    assert averaged.n_averaged.item() == 3
    assert averaged.module.bias.tolist() == pytest.approx([expected] * 2)
    assert averaged(torch.zeros(1, 2)).tolist() == [pytest.approx([expected] * 2)]


@pytest.mark.parametrize(("use_buffers", "expected"), [(False, 3.0), (True, 2.0)])
def test_buffers(use_buffers, expected):
    model = torch.nn.BatchNorm1d(1)
    averaged = AveragedModel(model, use_buffers=use_buffers)
    for value in (1.0, 3.0):
        model.running_mean.fill_(value)
        averaged.update_parameters(model)
    assert averaged.module.running_mean.item() == expected


def test_refusals():
    with pytest.raises(ValueError, match=r"Invalid decay value 2.0 provided"):
        get_ema_avg_fn(2.0)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        AveragedModel(torch.nn.Linear(2, 2), avg_fn=len, multi_avg_fn=len)
    sgd = SGD([torch.zeros(1, requires_grad=True)])
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear', instead got x"):
        SWALR(sgd, 0.1, anneal_strategy="x")
    with pytest.raises(ValueError, match=r"anneal_epochs must be equal or greater than 0, got 1.5"):
        SWALR(sgd, 0.1, anneal_epochs=1.5)


def test_update_bn():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(1))
    model.eval()
    batches = [torch.tensor([[0.0], [2.0]]), (torch.tensor([[4.0], [6.0]]), None)]
    update_bn(batches, model)
    assert model[0].running_mean.item() == 3.0 and model[0].momentum == 0.1 and not model.training


def test_swalr():
    sgd = SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = SWALR(sgd, 0.5, anneal_epochs=2, anneal_strategy="linear")
    rates = []
    for _ in range(4):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step()
        scheduler.step()
    assert rates == pytest.approx([1.0, 0.75, 0.5, 0.5])
    assert "anneal_func" not in scheduler.state_dict()
