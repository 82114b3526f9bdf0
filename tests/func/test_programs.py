"""What people use func for: gradients of each sample, ensembles, Hessians of networks, custom Functions."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)

close = torch.testing.assert_close
torch.manual_seed(0)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(5, 4)),
    "cnn": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)),
        torch.randn(5, 1, 6, 6),
    ),
    "norms": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, stride=2),
            nn.GroupNorm(2, 4),
            nn.GELU(),
            nn.AvgPool2d(2),
            nn.Conv2d(4, 4, 1, groups=2),
            nn.Flatten(),
            nn.LayerNorm(4),
            nn.Linear(4, 3),
        ),
        torch.randn(5, 1, 6, 6),
    ),
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3)).eval(),
        torch.randn(5, 1, 6, 6),
    ),
    "embedding": (lambda: nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 3)), torch.randint(0, 7, (5, 3))),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(24, 3)
        ),
        torch.randn(5, 3, 8),
    ),
    "lstm": (Recurrent, torch.randn(5, 3, 4)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_each_sample(name):
    make, x = NETWORKS[name]
    model, y = make(), torch.randint(0, 3, (5,))
    parameters = {k: v.detach() for k, v in model.named_parameters()}
    buffers = dict(model.named_buffers())

    def loss(p, sample, target):
        return F.cross_entropy(functional_call(model, (p, buffers), (sample.unsqueeze(0),)), target.unsqueeze(0))

    made = vmap(grad(loss), (None, 0, 0))(parameters, x, y)
    for i in range(5):
        model.zero_grad()
        F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        for k, p in model.named_parameters():
            close(made[k][i], p.grad, atol=2e-5, rtol=1e-4)


def test_an_ensemble():
    models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert all(p.requires_grad and p.is_leaf for p in parameters.values())
    x = torch.randn(6, 4)

    def run(p, b, x):
        return functional_call(models[0], (p, b), (x,))

    made = vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)
    close(made, torch.stack([m(x) for m in models]))
    made.sum().backward()
    models[1](x).sum().backward()
    close(parameters["0.weight"].grad[1], models[1][0].weight.grad)


def test_the_hessian_of_a_network():
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    x, y = torch.randn(6, 2, dtype=torch.float64), torch.randn(6, 1, dtype=torch.float64)
    parameters = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p):
        return F.mse_loss(functional_call(model, p, (x,)), y)

    blocks = hessian(loss)(parameters)
    first = grad(loss)
    for a in parameters:
        for b in parameters:
            moved = dict(parameters)
            unit = torch.zeros_like(parameters[b])
            unit.view(-1)[0] = 1e-5
            moved[b] = parameters[b] + unit
            ahead = first(moved)[a]
            moved[b] = parameters[b] - unit
            behind = first(moved)[a]
            close(blocks[a][b].reshape(*parameters[a].shape, -1)[..., 0], (ahead - behind) / 2e-5, atol=1e-8, rtol=1e-5)


def test_functional_call():
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    close(functional_call(layer, ({"weight": torch.ones(2, 2)}, {"bias": torch.ones(2)}), x), torch.full((1, 2), 3.0))
    assert functional_call(layer, {"other": x}, x).shape == (1, 2) and not hasattr(layer, "other")
    for given, kind, words in [
        (3, ValueError, "Expected parameter_and_buffer_dicts to be a dict"),
        ((3,), ValueError, "Expected all elements"),
        ({"weight": 3}, TypeError, "3 is not an instance of"),
        (({"weight": x}, {"weight": x}), ValueError, r"\['weight'\] appeared in multiple dictionaries"),
    ]:
        with pytest.raises(kind, match=words):
            functional_call(layer, given, x)
    for given, words in [
        ([], "Expected at least one model"),
        ([layer, nn.Linear(2, 2).eval()], "same training/eval mode"),
        ([layer, nn.ReLU()], "of the same class"),
    ]:
        with pytest.raises(RuntimeError, match=words):
            stack_module_state(given)


def test_batch_norm_that_vmap_can_take():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    images = torch.randn(3, 4, 1, 5, 5)
    with pytest.raises(RuntimeError, match="Batch norm got a batched tensor as input while the running_mean"):
        vmap(model)(images)
    replace_all_batch_norm_modules_(model)
    close(vmap(model)(images), torch.stack([model(x) for x in images]))


class Sine(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0].cos()


class SineByHand(Sine):
    generate_vmap_rule = False
    seen: list = []

    @staticmethod
    def vmap(info, in_dims, x):
        SineByHand.seen.append((info.batch_size, info.randomness, in_dims))
        return SineByHand.apply(x), in_dims[0]


@pytest.mark.parametrize("kind", [Sine, SineByHand])
def test_functions_under_transforms(kind):
    x, rows = torch.randn(3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    close(vmap(kind.apply)(rows), rows.sin())
    close(vmap(grad(lambda v: kind.apply(v).sum()))(rows), rows.cos())
    close(grad(lambda v: vmap(kind.apply)(v).sum())(rows), rows.cos())
    close(grad(lambda v: grad(lambda u: kind.apply(u).sum())(v).sum())(x), -x.sin())
    close(jvp(kind.apply, (x,), (x,))[1], x * x.cos())
    close(jacfwd(kind.apply)(x), torch.diag(x.cos()))
    close(jacrev(kind.apply)(x), torch.diag(x.cos()))
    assert kind is Sine or (4, "error", (0,)) in SineByHand.seen


def test_functions_that_have_no_rule():
    class Plain(Sine):
        generate_vmap_rule = False

    with pytest.raises(RuntimeError, match="You tried to vmap over Plain, but it does not have vmap support"):
        vmap(Plain.apply)(torch.ones(2))
