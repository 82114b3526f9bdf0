"""This package's modules and functions in programs: what `shadows` has in their place gives what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch

nn, F = torch.nn, torch.nn.functional
IMAGES, ROWS, STEPS = (2, 3, 8, 8), (4, 6), (5, 2, 6)
MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(6, 3), ROWS),
    "Conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1), (2, 3, 8)),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), IMAGES),
    "Conv2d by reflection": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), IMAGES),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 2, 2), IMAGES),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), IMAGES),
    "LayerNorm": (lambda: nn.LayerNorm(6), ROWS),
    "GroupNorm": (lambda: nn.GroupNorm(3, 3), IMAGES),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3), IMAGES),
    "activations": (lambda: nn.Sequential(nn.ReLU(), nn.GELU(), nn.SiLU(), nn.LeakyReLU(), nn.ELU(), nn.Sigmoid(), nn.Tanh(),
                                          nn.Hardswish(), nn.Hardtanh(), nn.Softplus(), nn.PReLU(), nn.Mish(),
                                          nn.Softmax(dim=1)), ROWS),
    "pooling": (lambda: nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()), IMAGES),
    "Upsample": (lambda: nn.Upsample(scale_factor=2), IMAGES),
    "LSTM": (lambda: nn.LSTM(6, 4, num_layers=2, bidirectional=True), STEPS),
    "GRU": (lambda: nn.GRU(6, 4, batch_first=True), STEPS),
    "RNN": (lambda: nn.RNN(6, 4), STEPS),
    "LSTMCell": (lambda: nn.LSTMCell(6, 4), ROWS),
    "GRUCell": (lambda: nn.GRUCell(6, 4), ROWS),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), STEPS),
}  # fmt: skip


def flat(value: Any) -> list[Any]:
    return [part for each in value for part in flat(each)] if isinstance(value, (tuple, list)) else [value]


def agree(a: Any, b: Any) -> bool:
    return all(torch.allclose(x, y, atol=1e-5) for x, y in zip(flat(a), flat(b), strict=True))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_in_a_program_gives_what_it_gives(name: str) -> None:
    torch.manual_seed(0)
    make, shape = MODULES[name]
    module, x = make().eval(), torch.randn(*shape)
    made = torch.jit.script(module)
    assert agree(made(x), module(x))
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    flat(made(ours))[0].sum().backward()
    flat(module(theirs))[0].sum().backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-5)


def test_attention_with_masks() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(6, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 6)
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[1, 3:] = True
    causal = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    made = torch.jit.script(module)
    for options in ({}, {"key_padding_mask": padding}, {"attn_mask": causal}, {"average_attn_weights": False}):
        assert agree(made(x, x, x, **options), module(x, x, x, **options))


def activations(x):
    return [
        F.relu(x),
        F.relu6(x),
        F.leaky_relu(x),
        F.elu(x),
        F.selu(x),
        F.silu(x),
        F.mish(x),
        F.hardtanh(x),
        F.hardswish(x),
        F.gelu(x),
        F.softplus(x),
        F.softsign(x),
        F.logsigmoid(x),
        F.glu(x),
        F.softmax(x, dim=-1),
        F.log_softmax(x, dim=1),
    ]


def losses(x):
    classes = torch.tensor([1, 2, 3, 0])
    return [
        F.mse_loss(x, x * 2),
        F.l1_loss(x, x * 2, reduction="sum"),
        F.smooth_l1_loss(x, x * 3),
        F.cross_entropy(x, classes),
        F.nll_loss(x.log_softmax(1), classes),
        F.binary_cross_entropy_with_logits(x, torch.sigmoid(x)),
        F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"),
    ]


def layers(x):
    return [
        F.layer_norm(x, [6]),
        F.dropout(x, 0.5, training=False),
        F.normalize(x, dim=1),
        F.pad(x, (1, 1), value=2.0),
        F.embedding(torch.tensor([0, 1]), x),
        F.max_pool2d(x[None, None], 2),
        F.adaptive_avg_pool2d(x[None], 1),
        F.interpolate(x[None, None], scale_factor=[2.0, 2.0]),
        F.scaled_dot_product_attention(x[None], x[None], x[None]),
    ]


def others(x):
    a, b = torch.split(x, 2)
    return [
        torch.einsum("ij,kj->ik", x, x),
        torch.norm(x),
        torch.stack([a, b]).mean([0, 1]),
        torch.sort(x)[0],
        torch.linalg.norm(x),
        torch.fft.fft(x).abs(),
        torch.special.expit(x),
        x.topk(2)[0],
    ]


@pytest.mark.parametrize("function", [activations, losses, layers, others])
def test_functions_in_a_program_give_what_they_give(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    assert agree(torch.jit.script(function)(x), function(x))
