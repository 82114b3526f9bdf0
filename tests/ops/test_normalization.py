"""softmax, the norms and the losses: values against NumPy, gradients of both orders, reductions, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(1)


def sample(*shape, dtype=torch.float64, grad=False):
    """Normally distributed numbers."""
    made = torch.tensor(RANDOM.standard_normal(shape).tolist(), dtype=dtype)
    return made.requires_grad_() if grad else made


def close(result, expected, rtol=1e-6, atol=1e-7):
    """Assert that a tensor holds the expected values, in their shape."""
    expected = np.asarray(expected)
    assert tuple(result.shape) == expected.shape
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=rtol, atol=atol)


def both_orders(function, *inputs):
    """Check first and second derivatives."""
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


# ---------------------------------------------------------------- softmax


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmax(dim):
    x = sample(3, 4, 5)
    e = np.exp(x.numpy())
    expected = e / e.sum(dim, keepdims=True)
    close(torch.softmax(x, dim), expected)
    close(x.log_softmax(dim), np.log(expected))
    close(F.softmin(-x, dim), expected)
    both_orders(lambda x: torch.softmax(x, dim), sample(2, 3, 2, grad=True))
    both_orders(lambda x: torch.log_softmax(x, dim), sample(2, 3, 2, grad=True))


def test_softmax_of_large_numbers_and_other_dtypes():
    assert torch.tensor([1e30, 1e30]).softmax(0).tolist() == [0.5, 0.5]
    assert torch.tensor([0.0, -math.inf]).softmax(0).tolist() == [1, 0]
    x = sample(4, dtype=torch.float16, grad=True)
    y = F.softmax(x, 0, dtype=torch.float32)
    assert y.dtype is torch.float32
    y[0].backward()
    assert x.grad.dtype is torch.float16
    with pytest.raises(NotImplementedError, match="softmax_lastdim_kernel_impl"):
        torch.tensor([1, 2]).softmax(0)


# ---------------------------------------------------------------- norms


def normal(x, axes, eps=1e-5):
    """x at mean 0 and variance 1 over some axes."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_norm():
    x, w, b = sample(2, 3, 4), sample(4), sample(4)
    close(F.layer_norm(x, (4,), w, b), normal(x.numpy(), (2,)) * w.numpy() + b.numpy())
    close(F.layer_norm(x, [3, 4]), normal(x.numpy(), (1, 2)))
    close(F.layer_norm(x.transpose(0, 1), (4,)), normal(x.numpy().transpose(1, 0, 2), (2,)))
    both_orders(lambda x, w, b: F.layer_norm(x, (4,), w, b), sample(2, 4, grad=True), sample(4, grad=True), sample(4, grad=True))
    with pytest.raises(RuntimeError, match=r"Given normalized_shape=\[5\], expected input with shape \[\*, 5\]"):
        F.layer_norm(x, (5,))


def test_rms_norm():
    x, w = sample(3, 4), sample(4)
    close(F.rms_norm(x, (4,), w, 1e-5), x.numpy() / np.sqrt((x.numpy() ** 2).mean(1, keepdims=True) + 1e-5) * w.numpy())
    both_orders(lambda x, w: F.rms_norm(x, (4,), w), sample(2, 4, grad=True), sample(4, grad=True))


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5), (2, 4, 3, 3)])
def test_batch_norm(shape):
    x, w, b = sample(*shape), sample(4), sample(4)
    axes = (0, *range(2, len(shape)))
    after = (4, *(1,) * (len(shape) - 2))
    mean, variance = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    result = F.batch_norm(x, mean, variance, w, b, training=True, momentum=0.2)
    close(result, normal(x.numpy(), axes) * w.numpy().reshape(after) + b.numpy().reshape(after))
    close(mean, 0.2 * x.numpy().mean(axes))
    close(variance, 0.8 + 0.2 * x.numpy().var(axes, ddof=1))
    expected = (x.numpy() - mean.numpy().reshape(after)) / np.sqrt(variance.numpy().reshape(after) + 1e-5)
    close(F.batch_norm(x, mean, variance), expected)
    for training in (True, False):
        both_orders(
            lambda x, w, b: F.batch_norm(x, mean.clone(), variance.clone(), w, b, training),
            sample(*shape, grad=True),
            sample(4, grad=True),
            sample(4, grad=True),
        )


def test_batch_norm_twice_before_one_backward():
    """The gradient in training doesn't read the running statistics, so that they moved doesn't matter; another's write does."""
    mean, variance = torch.zeros(3), torch.ones(3)
    x, y = sample(4, 3, dtype=torch.float32, grad=True), sample(4, 3, dtype=torch.float32, grad=True)
    first, second = [F.batch_norm(z, mean, variance, training=True) for z in (x, y)]
    assert mean._version == 0
    (first * second).sum().backward()
    alone = x.detach().clone().requires_grad_()
    (F.batch_norm(alone, None, None, training=True) * second.detach()).sum().backward()
    close(x.grad, alone.grad.numpy())
    for training in (True, False):
        result = F.batch_norm(x, mean, variance, training=training)
        variance.mul_(2)
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[3\]\] is at version"):
            result.sum().backward()


def test_batch_norm_keeps_channels_last():
    x = sample(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    result = F.batch_norm(x, None, None, training=True)
    assert result.stride() == x.stride()
    close(result, normal(x.numpy(), (0, 2, 3)))


def test_group_and_instance_norm():
    x, w, b = sample(2, 4, 5), sample(4), sample(4)
    grouped = normal(x.numpy().reshape(2, 2, 10), (2,)).reshape(2, 4, 5)
    close(F.group_norm(x, 2, w, b), grouped * w.numpy()[:, None] + b.numpy()[:, None])
    close(F.instance_norm(x), normal(x.numpy(), (2,)))
    both_orders(lambda x, w, b: F.group_norm(x, 2, w, b), sample(2, 4, 3, grad=True), sample(4, grad=True), sample(4, grad=True))
    both_orders(lambda x: F.instance_norm(x), sample(2, 2, 3, grad=True))
    mean = torch.zeros(4, dtype=torch.float64)
    F.instance_norm(x, mean, torch.ones(4, dtype=torch.float64), momentum=0.5)
    close(mean, 0.5 * x.numpy().mean((0, 2)))


# ---------------------------------------------------------------- losses


def reference_cross_entropy(x, target, weight, smoothing, ignored):
    """Per row, and the weights of the rows."""
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    keep = target != ignored
    safe = np.where(keep, target, 0)
    own = np.where(keep, weight[safe], 0)
    loss = (
        -own * logs[np.arange(len(x)), safe] * (1 - smoothing)
        - np.where(keep, (logs * weight).sum(1), 0) * smoothing / x.shape[1]
    )
    return loss, own


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_cross_entropy(smoothing, weighted, ignored):
    x, target = sample(6, 4), torch.tensor([0, 3, 1, 2, 1, 0])
    weight = torch.tensor([0.5, 1.0, 2.0, 0.1], dtype=torch.float64) if weighted else None
    rows, own = reference_cross_entropy(
        x.numpy(), target.numpy(), np.ones(4) if weight is None else weight.numpy(), smoothing, ignored
    )
    given = {"weight": weight, "ignore_index": ignored, "label_smoothing": smoothing}
    close(F.cross_entropy(x, target, reduction="none", **given), rows)
    close(F.cross_entropy(x, target, reduction="sum", **given), rows.sum())
    close(F.cross_entropy(x, target, **given), rows.sum() / own.sum())
    deep = x.reshape(2, 3, 4).transpose(1, 2)
    close(F.cross_entropy(deep, target.reshape(2, 3), reduction="none", **given), rows.reshape(2, 3))
    for reduction in ("none", "mean"):
        both_orders(lambda x: F.cross_entropy(x, target, reduction=reduction, **given), sample(6, 4, grad=True))


def test_cross_entropy_of_one_row_and_of_probabilities():
    x = sample(4)
    logs = x.log_softmax(0)
    close(F.cross_entropy(x, torch.tensor(2)), -logs[2].item())
    close(F.nll_loss(logs, torch.tensor(2)), -logs[2].item())
    target = sample(3, 4).softmax(1)
    scores = sample(3, 4)
    close(F.cross_entropy(scores, target), -(scores.log_softmax(1) * target).sum().item() / 3)
    assert math.isnan(F.cross_entropy(scores, torch.tensor([-100] * 3)).item())


def test_cross_entropy_errors():
    x = sample(2, 3)
    with pytest.raises(IndexError, match=r"Target 3 is out of bounds\."):
        F.cross_entropy(x, torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"Expected input batch_size \(2\) to match target batch_size \(3\)."):
        F.cross_entropy(x, torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="foo is not a valid value for reduction"):
        F.cross_entropy(x, torch.tensor([0, 1]), reduction="foo")


ELEMENT_LOSSES = {
    "mse_loss": lambda x, y: (x - y) ** 2,
    "l1_loss": lambda x, y: np.abs(x - y),
    "smooth_l1_loss": lambda x, y: np.where(np.abs(x - y) < 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5),
    "huber_loss": lambda x, y: np.where(np.abs(x - y) <= 1, 0.5 * (x - y) ** 2, np.abs(x - y) - 0.5),
    "soft_margin_loss": lambda x, y: np.log1p(np.exp(-x * y)),
    "binary_cross_entropy_with_logits": lambda x, y: np.log1p(np.exp(x)) - x * y,
}


@pytest.mark.parametrize("name", ELEMENT_LOSSES)
def test_element_losses(name):
    function = getattr(F, name)
    x, y = sample(3, 4), sample(3, 4)
    expected = ELEMENT_LOSSES[name](x.numpy(), y.numpy())
    close(function(x, y, reduction="none"), expected)
    close(function(x, y, reduction="sum"), expected.sum())
    close(function(x, y), expected.mean())
    close(function(x.float(), y.float()), expected.mean(), rtol=1e-5)
    both_orders(function, sample(2, 3, grad=True), sample(2, 3))
    both_orders(lambda x: function(x, y, reduction="none"), sample(3, 4, grad=True))


def test_binary_cross_entropy():
    p, y = sample(3, 4).sigmoid(), sample(3, 4).sigmoid()
    expected = -(y.numpy() * np.log(p.numpy()) + (1 - y.numpy()) * np.log(1 - p.numpy()))
    close(F.binary_cross_entropy(p, y), expected.mean())
    assert F.binary_cross_entropy(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]), reduction="none").tolist() == [100, 0]
    both_orders(lambda x: F.binary_cross_entropy(x.sigmoid(), y), sample(3, 4, grad=True))
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.0]))


def test_binary_cross_entropy_of_what_is_no_chance():
    for value, target, name in ((2.0, 0.5, "input"), (math.nan, 0.5, "input"), (0.5, -1.0, "target"), (0.5, math.nan, "target")):
        with pytest.raises(RuntimeError, match=f"all elements of {name} should be between 0 and 1"):
            F.binary_cross_entropy(torch.tensor([0.5, value]), torch.tensor([1.0, target]))


def test_margin_losses():
    a, b, c = (sample(3, 4, grad=True) for _ in range(3))
    distance = np.sqrt(((a.detach().numpy() - b.detach().numpy() + 1e-6) ** 2).sum(1))
    close(F.pairwise_distance(a, b), distance)
    far = np.sqrt(((a.detach().numpy() - c.detach().numpy() + 1e-6) ** 2).sum(1))
    close(F.triplet_margin_loss(a, b, c), np.maximum(distance - far + 1, 0).mean())
    assert gradcheck(lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=3.0, swap=True), (a, b, c))
    assert gradcheck(lambda x: F.multi_margin_loss(x, torch.tensor([1, 0, 3]), p=2), a)
    assert gradcheck(lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 0, -1, 2]] * 3)), a)
    assert gradcheck(lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1])), (a, b))
    close(F.cosine_similarity(a, a), np.ones(3))


def test_ctc_loss_against_all_alignments():
    logs = sample(4, 1, 3).log_softmax(2)
    target = [1, 2]
    total = 0.0
    for code in range(3**4):
        path = [code // 3**t % 3 for t in range(4)]
        merged = [k for t, k in enumerate(path) if k and (t == 0 or path[t - 1] != k)]
        if merged == target:
            total += math.exp(sum(logs[t, 0, k].item() for t, k in enumerate(path)))
    loss = F.ctc_loss(logs, torch.tensor([target]), torch.tensor([4]), torch.tensor([2]), reduction="sum")
    close(loss, -math.log(total))
    assert gradcheck(
        lambda x: F.ctc_loss(x.log_softmax(2), torch.tensor([[1, 2], [2, 2]]), (4, 4), (2, 1)), sample(4, 2, 3, grad=True)
    )


def ctc_by_recursion(logs, labels, blank):
    """The likelihood of labels under logs (T, C), one state after the other."""
    states = [blank, *[x for label in labels for x in (label, blank)]]
    before = np.zeros(len(states))
    before[:2] = np.exp(logs[0, states[:2]])
    for t in range(1, len(logs)):
        after = before.copy()
        after[1:] += before[:-1]
        for s in range(2, len(states)):
            after[s] += before[s - 2] if states[s] != blank and states[s] != states[s - 2] else 0
        before = after * np.exp(logs[t, states])
    return before[-1] + (before[-2] if len(states) > 1 else 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("joined", [False, True])
def test_ctc_loss_of_long_targets(dtype, joined):
    generator = np.random.default_rng(0)
    raw = torch.from_numpy(generator.standard_normal((70, 5, 37)).astype(dtype)).requires_grad_()
    counts, times, blank = [0, 1, 17, 30, 9], [70, 2, 40, 70, 9], 36
    labels = [generator.integers(0, 36, n).tolist() for n in counts]
    labels[3][4:6] = [7, 7]
    padded = torch.tensor([x + [0] * (30 - len(x)) for x in labels])
    targets = torch.tensor([x for row in labels for x in row]) if joined else padded
    logs = raw.log_softmax(-1)
    losses = F.ctc_loss(logs, targets, times, counts, blank, "none")
    values = logs.detach().double().numpy()
    wanted = [-np.log(ctc_by_recursion(values[:t, n], labels[n], blank)) for n, t in enumerate(times)]
    assert np.allclose(losses.detach().numpy(), wanted, rtol=1e-5)
    losses[1:4].sum().backward()
    place, step = (11, 3, 20), 1e-4
    moved = []
    for sign in (1, -1):
        changed = raw.detach().double().clone()
        changed[place] += sign * step
        changed = changed.log_softmax(-1).numpy()
        moved.append(-np.log(ctc_by_recursion(changed[:70, 3], labels[3], blank)))
    assert raw.grad[place].item() == pytest.approx((moved[0] - moved[1]) / (2 * step), rel=1e-3)
    assert not raw.grad[:, [0, 4]].any() and not raw.grad[2:, 1].any()


def test_what_ctc_loss_refuses_and_cannot_explain():
    logs = torch.zeros(4, 2, 3).log_softmax(-1).requires_grad_()
    with pytest.raises(RuntimeError, match="index 3 is out of bounds for dimension 2 with size 3"):
        F.ctc_loss(logs, torch.tensor([[1, 3], [1, 2]]), (4, 4), (2, 2))
    losses = F.ctc_loss(logs, torch.tensor([[1] * 5, [1] * 5]), (4, 3), (5, 1), reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), logs, create_graph=True)
    assert losses[0] == math.inf and gradient[:, 0].isnan().all() and gradient[:3, 1].isfinite().all()
    assert not gradient[3, 1].any()
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not implemented"):
        gradient.sum().backward()
    losses = F.ctc_loss(logs, torch.tensor([[1] * 5, [1] * 5]), (4, 3), (5, 1), reduction="none", zero_infinity=True)
    assert losses[0] == 0 and not torch.autograd.grad(losses.sum(), logs)[0][:, 0].any()


def test_ctc_loss_of_no_input():
    logs = torch.zeros(5, 3, 3, requires_grad=True)
    losses = F.ctc_loss(logs, torch.ones(3, 1).long(), torch.tensor([0, 0, 5]), torch.tensor([0, 1, 1]), reduction="none")
    assert losses[:2].tolist() == [0, math.inf]
    assert losses[2].isfinite()
    losses[0].backward()
    assert logs.grad.count_nonzero() == 0


def test_second_derivative_of_group_norm_without_samples():
    x = torch.zeros(0, 6, 2, requires_grad=True)
    (first,) = torch.autograd.grad(torch.nn.functional.group_norm(x, 3).sum(), x, create_graph=True)
    assert torch.autograd.grad(first.sum(), x, allow_unused=True)[0].shape == (0, 6, 2)
