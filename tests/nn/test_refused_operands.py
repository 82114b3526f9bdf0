"""What losses, normalisations, convolutions and recurrent layers refuse: dtypes, shapes and settings, in PyTorch's words."""

import warnings

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

X = torch.arange(20.0).reshape(4, 5) / 20
CLASSES = torch.tensor([0, 1, 2, 3])
IMAGE = torch.ones(1, 1, 4, 4)
KERNEL = torch.ones(1, 1, 2, 2)
DENSE = "should be the same or input should be a MKLDNN tensor and weight is a dense tensor"


def refused(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).split("\n")[0] == words


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: F.mse_loss(X.long(), X.long()), NotImplementedError, "\"mse_cpu\" not implemented for 'Long'"),
        (lambda: F.mse_loss(X.long(), X.long(), reduction="none"), NotImplementedError, "\"mse_cpu\" not implemented for 'Long'"),
        (lambda: F.smooth_l1_loss(X.long(), X.long()), NotImplementedError, "\"smooth_l1_cpu\" not implemented for 'Long'"),
        (lambda: F.huber_loss(X.long(), X.long()), NotImplementedError, "\"huber_cpu\" not implemented for 'Long'"),
        (lambda: F.huber_loss(X.long(), X), RuntimeError, "result type Float can't be cast to the desired output type Long"),
        (
            lambda: F.soft_margin_loss(X.long(), X),
            RuntimeError,
            "result type Float can't be cast to the desired output type Long",
        ),
        (lambda: F.soft_margin_loss(X[0], X), RuntimeError, "output with shape [5] doesn't match the broadcast shape [4, 5]"),
        (
            lambda: F.binary_cross_entropy_with_logits(X, X.long()),
            RuntimeError,
            "result type Float can't be cast to the desired output type Long",
        ),
        (
            lambda: F.binary_cross_entropy_with_logits(X.long(), X),
            NotImplementedError,
            "\"log_sigmoid_cpu\" not implemented for 'Long'",
        ),
        (
            lambda: F.l1_loss(X.long(), X.long()),
            RuntimeError,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
        ),
        (lambda: F.kl_div(X.long(), X, reduction="sum"), RuntimeError, "kl_div: Integral inputs not supported."),
        (
            lambda: F.kl_div(1.0, X, reduction="sum"),
            TypeError,
            "kl_div(): argument 'input' (position 1) must be Tensor, not float",
        ),
        (
            lambda: F.poisson_nll_loss(X, 1.0),
            TypeError,
            "poisson_nll_loss(): argument 'target' (position 2) must be Tensor, not float",
        ),
        (lambda: F.gaussian_nll_loss(X, X, X[None]), ValueError, "var is of incorrect size"),
        (
            lambda: F.multi_margin_loss(X, CLASSES[None]),
            RuntimeError,
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). "
            "Expected target size [4], but got [1, 4]. Input has shape [4, 5].",
        ),
        (lambda: F.multi_margin_loss(X, CLASSES.int()), RuntimeError, "expected scalar type Long but found Int"),
        (
            lambda: F.multi_margin_loss(X, CLASSES, weight=torch.ones(4)),
            RuntimeError,
            "inconsistent weight size, expected 5 but got [4]",
        ),
        (
            lambda: F.multi_margin_loss(X.half(), CLASSES),
            NotImplementedError,
            "\"multi_margin_loss_cpu_kernel\" not implemented for 'Half'",
        ),
        (
            lambda: F.multilabel_margin_loss(X[None], X.long()),
            RuntimeError,
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: [1, 4, 5]",
        ),
        (lambda: nn.HuberLoss(delta=1j), TypeError, "delta must be a float or int, got: <class 'complex'>"),
        (
            lambda: nn.LinearCrossEntropyLoss(5, 3)(torch.ones(4, 4), CLASSES),
            RuntimeError,
            "expected equal input and linear_weight last dimensions (in_features), got 4 and 5, respectively",
        ),
        (
            lambda: nn.LinearCrossEntropyLoss(5, 3, weight=torch.ones(4)),
            RuntimeError,
            "expected weight shape to be (3,), got (4,)",
        ),
        (
            lambda: nn.LinearCrossEntropyLoss(5, 3, label_smoothing=2.0),
            RuntimeError,
            "expected label_smoothing to be in range [0, 1], got 2.0",
        ),
    ],
)
def test_losses(call, kind, words):
    refused(call, kind, words)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: F.batch_norm(X, None, None, training=True, eps=0.0),
            ValueError,
            "batch_norm eps must be positive during training, but got 0.0",
        ),
        (
            lambda: F.batch_norm(X, torch.zeros(5), torch.ones(5), eps=-1),
            ValueError,
            "batch_norm eps must be non-negative, but got -1",
        ),
        (
            lambda: F.batch_norm(X.double(), torch.zeros(5), torch.ones(5)),
            RuntimeError,
            "mixed dtype (CPU): all inputs must share same datatype.",
        ),
        (
            lambda: F.batch_norm(X, torch.zeros(5).double(), torch.ones(5).double()),
            RuntimeError,
            "mixed dtype (CPU): expect parameter to have scalar type of Float",
        ),
        (
            lambda: F.batch_norm(X, torch.zeros(5).double(), torch.ones(5), torch.ones(5)),
            RuntimeError,
            "expected scalar type Float but found Double",
        ),
        (
            lambda: F.layer_norm(X.double(), (5,), torch.ones(5)),
            RuntimeError,
            "mixed dtype (CPU): all inputs must share same datatype.",
        ),
        (lambda: nn.BatchNorm2d(1)(IMAGE.double()), RuntimeError, "mixed dtype (CPU): all inputs must share same datatype."),
    ],
)
def test_normalisations(call, kind, words):
    refused(call, kind, words)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: F.conv2d(IMAGE, KERNEL.double(), torch.ones(1)), "expected scalar type Float but found Double"),
        (lambda: F.conv2d(IMAGE.double(), KERNEL, torch.ones(1)), "Input type (double) and bias type (float) should be the same"),
        (
            lambda: F.conv2d(IMAGE.expand(4, 1, 4, 4), KERNEL.double()),
            f"Input type (torch.FloatTensor) and weight type (torch.DoubleTensor) {DENSE}",
        ),
        (lambda: F.conv2d(IMAGE.bfloat16(), KERNEL), f"Input type (CPUBFloat16Type) and weight type (torch.FloatTensor) {DENSE}"),
        (
            lambda: F.conv2d(IMAGE + 0j, KERNEL),
            "Input type (CPUComplexFloatType) and weight type (torch.FloatTensor) should be the same",
        ),
        (lambda: F.conv_transpose2d(IMAGE.double(), KERNEL, torch.ones(1)), "expected scalar type Double but found Float"),
    ],
)
def test_convolutions(call, words):
    refused(call, RuntimeError, words)


@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("setting", ["bias", "batch_first"])
def test_recurrent_layers_want_bools(layer, setting):
    refused(lambda: layer(2, 3, **{setting: 1}), TypeError, f"{setting} should be of type bool, got: int")


@pytest.mark.parametrize(("dims", "call"), [(2, F.fractional_max_pool2d), (3, F.fractional_max_pool3d)])
def test_fractional_pooling_checks_its_samples(dims, call):
    images, name = torch.ones(2, 3, *(6,) * dims), f"fractional_max_pool{dims}d{'_out' if dims == 3 else ''}()"

    def pool(images, *samples):
        return call(images, 2, 3, _random_samples=torch.full(samples, 0.5))

    refused(lambda: pool(images, 1, 3, dims), RuntimeError, "Expect _random_samples.size(0) no less then input batch size.")
    refused(lambda: pool(images, 2, 4, dims), RuntimeError, "Expect _random_samples.size(1) equals to input channel size.")
    refused(lambda: pool(images, 3, dims), RuntimeError, "Expect _random_samples to have 3 dimensions, got 2")
    refused(
        lambda: pool(images[0, 0], 2, 3, dims),
        RuntimeError,
        f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: {[6] * dims}",
    )
    assert pool(images[0], 1, 3, dims).shape == (3, *(3,) * dims)
    assert call(images, 2, 0, _random_samples=torch.rand(2, 3, dims)).shape == (2, 3, *(0,) * dims)


def test_warnings_point_at_the_program():
    for call in (
        lambda: F.mse_loss(X, X[:1]),
        lambda: F.kl_div(X, X),
        lambda: torch.range(0, 3),
        lambda: X.new_tensor(X),
        lambda: F.l1_loss(X, X, reduce=False),
        lambda: torch.add(X, X, out=torch.empty(2)),
    ):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            call()
        assert [warning.filename for warning in given] == [__file__]


@pytest.mark.parametrize(
    ("call", "step", "argument"),
    [
        (lambda x, w: F.nll_loss(x, torch.tensor([0, 1]), w), "nll_loss_forward", "weight"),
        (lambda x, w: F.cross_entropy(x, torch.tensor([0, 1]), w), "nll_loss_forward", "weight"),
        (lambda x, w: F.binary_cross_entropy(x, x.detach(), w), "binary_cross_entropy", "weight"),
        (
            lambda x, w: F.binary_cross_entropy_with_logits(x, x.detach(), pos_weight=w),
            "binary_cross_entropy_with_logits",
            "pos_weight",
        ),
        (lambda x, w: F.soft_margin_loss(x.detach(), w.expand(2, 2)), "soft_margin_loss", "target"),
        (lambda x, w: F.batch_norm(x, w, w.detach() + 1, training=True), "native_batch_norm", "running_mean"),
    ],
)
def test_arguments_without_a_derivative_may_not_require_grad(call, step, argument):
    x, w = torch.full((2, 2), 0.5, requires_grad=True), torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        call(x, w)
    assert str(caught.value) == (
        f"The function '{step}' is not differentiable with respect to argument '{argument}'. This input "
        "cannot have requires_grad True."
    )
    with torch.no_grad():
        call(x, w)


def test_losses_without_reduction_of_planes_that_lie_transposed():
    x = torch.arange(24.0).reshape(2, 3, 2, 2)
    target = torch.tensor([[[0, 1], [2, 0]], [[1, 1], [2, 0]]])
    turned = x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    flipped = target.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    for reduction in ("none", "sum"):
        expected = F.nll_loss(x, target, reduction=reduction)
        assert F.nll_loss(turned, flipped, reduction=reduction).equal(expected)
