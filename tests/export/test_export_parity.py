"""Exported programs beside PyTorch's: code, signature and the module's code of the same models. Skipped without PyTorch."""

import json
import subprocess

import pytest

MODELS = """
import json, sys, importlib
torch = importlib.import_module(NAME)
importlib.import_module(NAME + ".export")
nn, F, rand = torch.nn, torch.nn.functional, torch.rand

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 24); self.o = nn.Linear(8, 8, bias=False); self.ln = nn.LayerNorm(8)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.q(self.ln(x)).chunk(3, dim=-1)
        q, k, v = (y.view(b, t, 2, 4).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o(y.transpose(1, 2).reshape(b, t, c))

class Masked(nn.Module):
    def forward(self, q, k):
        a = (q @ k.transpose(-2, -1)) / 2.0
        a = a.masked_fill(torch.tril(torch.ones(3, 3)) == 0, float("-inf"))
        return torch.softmax(a, dim=-1), a.mean(), {"s": a.sum(dim=-1, keepdim=True)}

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.GroupNorm(2, 4); self.c = nn.ConvTranspose2d(4, 2, 2, 2); self.d = nn.Conv1d(4, 4, 3, groups=4)
        self.register_buffer("scale", torch.ones(4, 1, 1), persistent=False)
        self.k = torch.arange(4.0)
    def forward(self, x):
        x = x * self.scale + self.k
        return self.c(F.avg_pool2d(self.g(x), 2)), self.d(x[:, :, 0]), F.interpolate(x, scale_factor=2.0), F.pad(x, (1, 1))

class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(4, 3)
    def forward(self, x, y):
        z = self.f(x)
        return F.cross_entropy(z, y), F.mse_loss(x, x * 2), F.gelu(x), F.silu(x), F.log_softmax(x, -1), F.leaky_relu(x, 0.1)

class Parts(nn.Module):
    def forward(self, x):
        y = x[:, 1:3].clone(); y[0] = 1.0; y[:, 0] += 2
        z = torch.cat([x, y], dim=1).permute(1, 0).contiguous()
        w = x.max(0), x.norm(), x.split([1, 3])
        return z.to(torch.float64).float(), x.unsqueeze(0).expand(2, -1, -1), 1 - x, x ** 2, 1 / x, w

class Containers(nn.Module):
    def forward(self, d, *, scale=None):
        y = d["a"] * 2 + d["b"][0] - 1
        return {"out": y * scale, "l": [y.exp(), d["b"][1], None, 3]}

CASES = [
    (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2)), (rand(2, 4),), {}),
    (nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(True), nn.Flatten()), (rand(2, 3, 8, 8),), {}),
    (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Hardswish()).eval(), (rand(2, 3, 8, 8),), {}),
    (Attention(), (rand(2, 5, 8),), {}), (Masked(), (rand(2, 3, 4), rand(2, 3, 4)), {}), (Conv(), (rand(2, 4, 4, 4),), {}),
    (Losses(), (rand(2, 4), torch.tensor([0, 1])), {}), (Parts(), (rand(4, 5),), {}),
    (Containers(), ({"a": rand(2), "b": [rand(2), rand(2)]},), {"scale": rand(2)}),
    (nn.Embedding(10, 4), (torch.tensor([1, 2]),), {}),
]
made = []
for model, args, kwargs in CASES:
    program = torch.export.export(model, args, kwargs)
    made.append([program.graph_module.code, str(program.graph_signature), program.module().code, sorted(program.constants),
                 list(program.state_dict)])
"""


def test_programs_are_pytorchs(torch_python) -> None:
    own: dict = {"NAME": "flambeau"}
    exec(MODELS, own)
    answer = subprocess.run([torch_python, "-W", "ignore", "-c", f"NAME = 'torch'\n{MODELS}\nprint(json.dumps(made))"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True)  # fmt: skip
    if answer.returncode:
        pytest.fail(answer.stderr)
    for got, expected in zip(own["made"], json.loads(answer.stdout), strict=True):
        assert got == expected
