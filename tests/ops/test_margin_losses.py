"""Losses over margins between classes: values and gradients against loops over the definition, targets that are no classes."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F

CLASSES = (1, 5, 16, 37)


def scores(rows, classes, dtype=np.float64):
    return np.random.default_rng(classes).standard_normal((rows, classes)).astype(dtype)


def single(x, y, p, margin, weight):
    losses, gradient = np.zeros(len(x)), np.zeros(x.shape)
    for n, (row, t) in enumerate(zip(x, y)):
        for c in range(len(row)):
            excess = margin - row[t] + row[c]
            if c != t and excess > 0:
                losses[n] += weight[t] * excess**p / len(row)
                slope = weight[t] * p * excess ** (p - 1) / len(row)
                gradient[n, c] += slope
                gradient[n, t] -= slope
    return losses, gradient


def several(x, y):
    losses, gradient = np.zeros(len(x)), np.zeros(x.shape)
    for n, (row, all_targets) in enumerate(zip(x, y)):
        targets = list(all_targets)[: list(all_targets).index(-1)] if -1 in all_targets else list(all_targets)
        for t in targets:
            for c in set(range(len(row))) - set(targets):
                if 1 - row[t] + row[c] > 0:
                    losses[n] += (1 - row[t] + row[c]) / len(row)
                    gradient[n, c] += 1 / len(row)
                    gradient[n, t] -= 1 / len(row)
    return losses, gradient


def check(loss, x, losses, gradient, rtol=1e-10):
    """The loss by every reduction, and its gradient, of scores in either order of memory."""
    for reduction, wanted, share in (("none", losses, 1), ("sum", losses.sum(), 1), ("mean", losses.mean(), 1 / len(x))):
        for leaf in (torch.tensor(x, requires_grad=True), torch.tensor(x.T.copy()).t().requires_grad_()):
            made = loss(leaf, reduction)
            (made * 2).sum().backward()
            np.testing.assert_allclose(made.detach().numpy(), wanted, rtol, rtol)
            np.testing.assert_allclose(leaf.grad.numpy(), 2 * share * gradient, rtol, rtol)


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("p", [1, 2])
def test_one_target_a_row(classes, p):
    x, y = scores(9, classes), np.arange(9) * 7 % classes
    weight = np.linspace(0.5, 2, classes)
    check(
        lambda leaf, reduction: F.multi_margin_loss(leaf, torch.tensor(y), p=p, margin=0.8, reduction=reduction),
        x,
        *single(x, y, p, 0.8, np.ones(classes)),
    )
    check(
        lambda leaf, reduction: F.multi_margin_loss(leaf, torch.tensor(y), p, weight=torch.tensor(weight), reduction=reduction),
        x,
        *single(x, y, p, 1.0, weight),
    )


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_several_targets_a_row(classes, dtype):
    x = scores(9, classes, dtype)
    y = np.random.default_rng(1).integers(0, classes, x.shape)  # some of them twice
    y[np.arange(9), np.arange(9) % classes] = -1
    y[3] = np.arange(classes) % max(1, classes // 2)  # no end
    check(
        lambda leaf, reduction: F.multilabel_margin_loss(leaf, torch.tensor(y), reduction=reduction),
        x,
        *several(x, y),
        rtol=1e-5 if dtype == np.float32 else 1e-10,
    )


def test_a_single_row():
    x = torch.tensor([0.1, 0.2, 0.4, 0.8])
    assert abs(F.multi_margin_loss(x, torch.tensor(3)).item() - 0.325) < 1e-6
    assert F.multi_margin_loss(x, torch.tensor([3]), reduction="none").shape == (1,)
    made = F.multilabel_margin_loss(x, torch.tensor([3, 0, -1, 1]), reduction="none")
    assert made.shape == () and abs(made.item() - 0.85) < 1e-6
    assert F.multi_margin_loss(torch.ones(0, 4), torch.ones(0, dtype=torch.int64)).item() == 0


@pytest.mark.parametrize("bad", [-1, 3, 1 << 62])
def test_targets_that_are_no_classes(bad):
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^target out of range$"):
        F.multi_margin_loss(x, torch.tensor([0, bad]))
    with pytest.raises(RuntimeError, match=r"^argument #2 'target' is out of range$"):
        F.multilabel_margin_loss(x, torch.tensor([[0, -1, bad - (bad < 0)], [1, 2, 0]]))  # behind the end, too


def test_refusals():
    x, y = torch.ones(2, 3, requires_grad=True), torch.tensor([0, 1])
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        F.multi_margin_loss(x, y, weight=torch.ones(3, requires_grad=True))
    several = y[:, None].expand(2, 3)
    for loss, name in ((F.multi_margin_loss(x, y), "multi"), (F.multilabel_margin_loss(x, several), "multilabel")):
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name}_margin_loss_backward is not implemented"):
            torch.autograd.grad(slope.sum(), x)


@pytest.mark.parametrize(
    ("scores", "classes", "expected"),
    [
        ((1,), (5, 1), 5 * 0.8132616877555847),
        ((5,), (3, 5), 3 * 0.8132616877555847 / 5),
        ((3, 1), (3, 5), 5 * 0.8132616877555847),
    ],
)
def test_the_input_has_the_classes(scores: tuple, classes: tuple, expected: float) -> None:
    """A target that has more dimensions, or more elements along one, is summed over the input's last."""
    scores = torch.ones(scores, requires_grad=True)
    loss = F.multilabel_soft_margin_loss(scores, torch.full(classes, 0.5))
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert scores.grad.sum().item() == pytest.approx((torch.tensor(1.0).sigmoid().item() - 0.5) * expected / 0.8132616877555847)
