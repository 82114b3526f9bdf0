"""Programs about nn.Module: parameters, containers, modes, initialization, state."""

from collections import OrderedDict

import pytest
from implementation import torch

nn, F = torch.nn, torch.nn.functional


class MLP(nn.Module):
    def __init__(self, input_dim: int, hidden_dim: int, output_dim: int):
        super().__init__()
        self.fc1 = nn.Linear(input_dim, hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, output_dim)
        self.dropout = nn.Dropout(p=0.1)
        self.register_buffer("running_mean", torch.zeros(hidden_dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.fc1(x))
        x = self.dropout(x)
        return self.fc2(x)


class SimpleMLP(nn.Module):
    def __init__(self, input_dim, hidden_dim, output_dim):
        super().__init__()
        self.fc1 = nn.Linear(input_dim, hidden_dim)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(hidden_dim, output_dim)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))


class GateLayer(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features))
        self.gate_weight = nn.Parameter(torch.randn(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x):
        gate = torch.sigmoid(x @ self.gate_weight.t())
        return (x @ self.weight.t() + self.bias) * gate


def test_a_model_runs_and_prints():
    assert MLP(784, 256, 10)(torch.randn(32, 784)).shape == (32, 10)
    assert repr(SimpleMLP(128, 256, 10)) == (
        "SimpleMLP(\n"
        "  (fc1): Linear(in_features=128, out_features=256, bias=True)\n"
        "  (relu): ReLU()\n"
        "  (fc2): Linear(in_features=256, out_features=10, bias=True)\n"
        ")"
    )


def test_parameters_buffers_and_counts():
    model = MLP(6, 4, 2)
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == {
        "fc1.weight": (4, 6),
        "fc1.bias": (4,),
        "fc2.weight": (2, 4),
        "fc2.bias": (2,),
    }
    assert list(model.state_dict()) == ["running_mean", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 38
    assert [name for name, _ in model.named_modules()] == ["", "fc1", "fc2", "dropout"]


def test_frozen_parameters_stay_as_they_are():
    model = SimpleMLP(4, 8, 2)
    for param in model.fc1.parameters():
        param.requires_grad = False
    before = model.fc1.weight.clone(), model.fc2.weight.detach().clone()
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-3)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    assert model.fc1.weight.grad is None and torch.equal(model.fc1.weight, before[0])
    assert not torch.equal(model.fc2.weight, before[1])
    assert len(optimizer.param_groups[0]["params"]) == 2


def test_train_and_eval_switch_dropout_and_batch_norm():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    x = torch.randn(16, 4)
    model.train()
    assert not torch.equal(model(x), model(x))
    assert model[1].num_batches_tracked.item() == 2
    model.eval()
    assert torch.equal(model(x), model(x)) and not model[2].training
    assert model[1].num_batches_tracked.item() == 2


def test_containers():
    encoder = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 128), nn.ReLU())
    assert encoder(torch.randn(2, 784)).shape == (2, 128) and len(encoder) == 5 and encoder[3].out_features == 128
    named = nn.Sequential(OrderedDict([("fc1", nn.Linear(8, 4)), ("relu", nn.ReLU()), ("fc2", nn.Linear(4, 2))]))
    assert list(named.state_dict()) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert named.fc1.in_features == 8


def test_module_list_and_dict_register_and_a_python_list_does_not():
    class Dynamic(nn.Module):
        def __init__(self, num_layers):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(num_layers)])
            self.heads = nn.ModuleDict({"classifier": nn.Linear(16, 10), "regressor": nn.Linear(16, 1)})
            self.hidden = [nn.Linear(16, 16)]

        def forward(self, x, head_name="classifier"):
            for layer in self.layers:
                x = F.relu(layer(x))
            return self.heads[head_name](x)

    model = Dynamic(3)
    assert model(torch.randn(2, 16)).shape == (2, 10) and model(torch.randn(2, 16), "regressor").shape == (2, 1)
    names = [name for name, _ in model.named_parameters()]
    assert "layers.2.bias" in names and "heads.regressor.weight" in names and len(names) == 10


def test_transformer_stack():
    class Transformer(nn.Module):
        def __init__(self, num_layers, d_model):
            super().__init__()
            layers = [nn.TransformerEncoderLayer(d_model=d_model, nhead=8) for _ in range(num_layers)]
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Transformer(2, 32)
    output = model(torch.randn(5, 3, 32))
    output.sum().backward()
    assert output.shape == (5, 3, 32) and all(p.grad is not None for p in model.parameters())


def test_initialization_by_apply():
    def init_weights(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    model = nn.Sequential(nn.Embedding(50, 32), nn.LayerNorm(32), nn.Linear(32, 16))
    model.apply(init_weights)
    assert model[2].bias.abs().sum().item() == 0 and model[1].weight.sum().item() == 32
    assert model[2].weight.abs().max().item() <= (6 / 48) ** 0.5
    assert model[0].weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_initializers_draw_what_pytorch_draws():
    torch.manual_seed(0)
    linear, embedding = nn.Linear(4, 3), nn.Embedding(3, 2)
    torch.manual_seed(0)
    linear = nn.Linear(4, 3)
    nn.init.xavier_uniform_(linear.weight)
    expected = [0.03429568186402321, 0.36600926518440247, 0.5555131435394287, -0.6276515126228333]
    assert linear.weight[0].tolist() == pytest.approx(expected, rel=1e-6)
    embedding = nn.Embedding(3, 2)
    nn.init.normal_(embedding.weight, std=0.02)
    expected = [0.045256916, -0.018350586, -0.004502314, 0.046932764, -0.022176969, 0.032507054]
    assert embedding.weight.flatten().tolist() == pytest.approx(expected, rel=1e-5)
    nn.init.kaiming_normal_(linear.weight)
    expected = [0.8721003532409668, -0.12953172624111176, -0.9291562438011169, -1.1946167945861816]
    assert linear.weight[0].tolist() == pytest.approx(expected, rel=1e-5)


def test_own_layer():
    layer = GateLayer(4, 3)
    x = torch.randn(2, 4)
    output = layer(x)
    output.sum().backward()
    assert output.shape == (2, 3) and layer.gate_weight.grad.shape == (3, 4)
    torch.testing.assert_close(output, F.linear(x, layer.weight, layer.bias) * F.linear(x, layer.gate_weight).sigmoid())


def test_calling_runs_the_hooks_and_forward_does_not():
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_pre_hook(lambda module, args: seen.append("before"))
    layer.register_forward_hook(lambda module, args, output: seen.append("after"))
    layer.forward(torch.ones(1, 2))
    assert seen == []
    layer(torch.ones(1, 2))
    assert seen == ["before", "after"]


def test_moving_and_casting_a_model():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MLP(4, 3, 2).to(device)
    assert next(model.parameters()).device.type == device.type
    assert model.to(torch.float64).fc1.weight.dtype is torch.float64 and model.running_mean.dtype is torch.float64
    assert model.half().fc2.bias.dtype is torch.float16 and model.float().fc1.weight.dtype is torch.float32


@pytest.mark.parametrize("recurrent", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers(recurrent):
    layer = getattr(nn, recurrent)(8, 16, num_layers=2, batch_first=True, bidirectional=True)
    output, state = layer(torch.randn(3, 5, 8))
    assert output.shape == (3, 5, 32)
    state = state[0] if recurrent == "LSTM" else state
    assert state.shape == (4, 3, 16)
    output.sum().backward()
    assert layer.weight_ih_l0.grad is not None


@pytest.mark.parametrize(
    "layer",
    [nn.GELU(), nn.SiLU(), nn.Softmax(dim=1), nn.GroupNorm(2, 8), nn.Dropout2d(0.2), nn.Conv2d(8, 8, 3, padding=1)],
    ids=repr,
)
def test_image_layers_keep_the_shape(layer):
    assert layer(torch.randn(2, 8, 6, 6)).shape == (2, 8, 6, 6)
