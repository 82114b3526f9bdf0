"""Steps over many parameters at once: the same as one parameter at a time, whatever the parameters' layouts."""

from __future__ import annotations

import pytest

import flambeau as torch

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1), "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p), "amsgrad": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5), "adagrad": lambda p: torch.optim.Adagrad(p),
    "rprop": lambda p: torch.optim.Rprop(p), "asgd": lambda p: torch.optim.ASGD(p),
}  # fmt: skip


def _parameters() -> list[torch.Tensor]:
    torch.manual_seed(0)
    made = [
        torch.randn(3, 4),
        torch.randn(4, 3).t(),
        torch.randn(7, dtype=torch.float64),
        torch.randn(()),
        torch.randn(0, 2),
        torch.randn(6)[::2],
        torch.randn(5, dtype=torch.bfloat16),
    ]
    return [x.detach().requires_grad_() for x in made]


def _give_gradients(parameters: list[torch.Tensor], step: int) -> None:
    torch.manual_seed(step)
    for p in parameters:
        g = torch.randn(p.shape, dtype=p.dtype)
        p.grad = g.t().contiguous().t() if step % 2 and p.ndim == 2 else g  # gradients change how they lie


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_together_and_one_by_one(name: str) -> None:
    together, alone = _parameters(), _parameters()
    one, several = OPTIMIZERS[name](together), [OPTIMIZERS[name]([p]) for p in alone]
    for step in range(4):
        for parameters in (together, alone):
            _give_gradients(parameters, step)
        one.step()
        for each in several:
            each.step()
        assert [p._version for p in together] == [p._version for p in alone] == [step + 1] * len(alone)
        for p, q in zip(together, alone):
            assert torch.equal(p, q)


def test_a_parameter_that_can_not_be_written_stops_the_step() -> None:
    with torch.inference_mode():
        fixed = torch.zeros(3)
    free = torch.zeros(3, requires_grad=True)
    free.grad = torch.ones(3)
    fixed.grad = torch.ones(3)
    optimizer = torch.optim.SGD([free], 1.0)
    optimizer.param_groups[0]["params"].append(fixed)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        optimizer.step()
    assert free.tolist() == [-1.0] * 3 and fixed.tolist() == [0.0] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_clipped_together(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    leaves = [torch.zeros(4, 3, dtype=dtype, requires_grad=True), torch.zeros(3, dtype=dtype, requires_grad=True)]
    gradients = [torch.randn(3, 4, dtype=dtype).t(), torch.tensor([float("nan"), 9.0, -9.0], dtype=dtype)]
    for p, g in zip(leaves, gradients):
        p.grad = g.clone()
    torch.nn.utils.clip_grad_value_(leaves, 0.5)
    for p, g in zip(leaves, gradients):
        torch.testing.assert_close(p.grad, g.clamp(-0.5, 0.5), rtol=0, atol=0, equal_nan=True)
        p.grad = g.nan_to_num(0.0).clone()
    total = torch.nn.utils.clip_grad_norm_(leaves, 1.0)
    scale = 1.0 / (total + 1e-6)
    for p, g in zip(leaves, gradients):
        torch.testing.assert_close(p.grad, g.nan_to_num(0.0) * scale, rtol=0, atol=0)
