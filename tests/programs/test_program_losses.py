"""Programs about loss functions; the figures are PyTorch's."""

import pytest
from implementation import torch

nn, F = torch.nn, torch.nn.functional


@pytest.fixture
def logits():
    return torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.2, -0.3], [-1.5, 3.0, 1.0], [0.0, 0.7, 2.2]])


@pytest.fixture
def labels():
    return torch.tensor([0, 2, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({}, 0.8967340588569641), ({"label_smoothing": 0.1}, 0.9742341041564941), ({"reduction": "sum"}, 3.5869362354)],
)
def test_cross_entropy(logits, labels, arguments, expected):
    assert nn.CrossEntropyLoss(**arguments)(logits, labels).item() == pytest.approx(expected, rel=1e-6)


def test_cross_entropy_with_class_weights(logits, labels):
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0]))
    assert criterion(logits, labels).item() == pytest.approx(1.119504451751709, rel=1e-6)


def test_cross_entropy_ignores_padding(logits):
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    loss = criterion(logits, torch.tensor([0, -100, 1, -100]))
    assert loss.item() == pytest.approx(0.18898829817771912, rel=1e-6)


def test_cross_entropy_is_log_softmax_and_nll(logits, labels):
    loss = nn.NLLLoss()(F.log_softmax(logits, dim=1), labels)
    torch.testing.assert_close(loss, F.cross_entropy(logits, labels))


def test_gradient_of_label_smoothing(logits, labels):
    logits.requires_grad_()
    nn.CrossEntropyLoss(label_smoothing=0.1)(logits, labels).backward()
    expected = [-0.036934, 0.001445, 0.035489, 0.081741, 0.091214, -0.172955]
    expected += [-0.005911, -0.015268, 0.021179, 0.012433, -0.191515, 0.179082]
    assert logits.grad.flatten().tolist() == pytest.approx(expected, abs=2e-6)


def test_binary_cross_entropy(logits):
    outputs, labels = logits[:, :1], torch.tensor([1, 0, 0, 1])
    loss = nn.BCEWithLogitsLoss()(outputs.squeeze(), labels.float())
    assert loss.item() == pytest.approx(0.44147127866744995, rel=1e-6)
    torch.testing.assert_close(nn.BCELoss()(outputs.squeeze().sigmoid(), labels.float()), loss)


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        (nn.MSELoss(), 3.375),
        (nn.MSELoss(reduction="sum"), 13.5),
        (nn.L1Loss(), 1.5),
        (nn.SmoothL1Loss(), 1.0625),
        (nn.HuberLoss(delta=1.0), 1.0625),
        (nn.HuberLoss(delta=0.5), 0.625),
    ],
)
def test_regression(criterion, expected):
    prediction, target = torch.tensor([0.5, 2.0, -1.0, 4.0]), torch.tensor([1.0, 0.0, -1.5, 1.0])
    assert criterion(prediction, target).item() == expected


def test_embedding_losses():
    anchor, positive = torch.arange(12.0).reshape(3, 4).sin(), torch.arange(12.0).reshape(3, 4).cos()
    negative = torch.arange(12.0).reshape(3, 4).mul(0.3).sin()
    assert nn.TripletMarginLoss()(anchor, positive, negative).item() == pytest.approx(1.3413223028, rel=1e-6)
    sign = torch.tensor([1.0, -1.0, 1.0])
    assert nn.CosineEmbeddingLoss()(anchor, positive, sign).item() == pytest.approx(0.7639845014, rel=1e-6)


def test_kl_divergence(logits):
    loss = nn.KLDivLoss(reduction="batchmean")(F.log_softmax(logits, 1), F.softmax(logits.flip(0), 1))
    assert loss.item() == pytest.approx(1.081809401512146, rel=1e-6)
