"""Statements of everyday programs, and the operators that a profiler shows for each; run by either implementation.

`python program.py` with PyTorch writes `recorded.json`: by statement, the events that stand in no other operator's, in the order
they began. `~X` is the engine's turn to node X; what a step of an optimizer is made of isn't listed.
"""

import json
import pathlib
import sys

RECORDED = pathlib.Path(__file__).with_name("recorded.json")
_EVALUATION = "autograd::engine::evaluate_function: "

#: By name: what is done before, unmeasured, and the statements that are measured, one after another.
PROGRAMS = {
    "mlp": (
        """net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
x, y = torch.randn(5, 8), torch.randint(0, 4, (5,))
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
adam = torch.optim.Adam(net.parameters())""",
        """sgd.zero_grad()
loss = F.cross_entropy(net(x), y)
loss.backward()
sgd.step()
adam.zero_grad()
F.mse_loss(net(x), torch.zeros(5, 4)).backward()
adam.step()
for p in net.parameters(): p.grad.mul_(0.5)
torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=False)""",
    ),
    "cnn": (
        """net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                    nn.Dropout(0.5), nn.Linear(128, 4))
x = torch.randn(2, 3, 8, 8)""",
        """out = net(x)
out.logsumexp(1).sum().backward()
net.eval()(x).argmax(1)""",
    ),
    "transformer": (
        """norm, wide, narrow, table = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16), nn.Embedding(10, 16)
ids = torch.randint(0, 10, (2, 5))
layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)""",
        """x = table(ids)
q, k, v = wide(norm(x)).chunk(3, dim=-1)
q, k, v = [t.view(2, 5, 2, 8).transpose(1, 2) for t in (q, k, v)]
a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
y = x + narrow(a.transpose(1, 2).contiguous().view(2, 5, 16))
F.gelu(y).pow(2).mean().backward()
layer(torch.randn(2, 5, 16))""",
    ),
    "recurrent": (
        "lstm, gru, rnn, cell, x = nn.LSTM(4, 5), nn.GRU(4, 5), nn.RNN(4, 5), nn.LSTMCell(4, 5), torch.randn(3, 2, 4)",
        """lstm(x)
gru(x)
rnn(x)
cell(x[0])""",
    ),
    "factories": (
        "a = torch.ones(3, 4)",
        """torch.zeros(3, 4)
torch.ones(3)
torch.empty(2, 2)
torch.full((2,), 3.0)
torch.arange(5)
torch.linspace(0, 1, 5)
torch.eye(3)
torch.rand(3)
torch.randn(3)
torch.randint(0, 5, (3,))
torch.randperm(5)
torch.tensor([1.0, 2.0])
torch.zeros_like(a), torch.ones_like(a), torch.empty_like(a), torch.full_like(a, 2.0), torch.rand_like(a), torch.randn_like(a)
a.new_zeros(2), a.new_ones(2), a.new_full((2,), 1.0), a.new_empty(2)
torch.tril(a), torch.logspace(0, 1, 3), torch.scalar_tensor(2.0), torch.empty_strided((2, 2), (2, 1))
torch.from_numpy(a.numpy())
torch.normal(0.0, 1.0, (2,)), torch.bernoulli(a)""",
    ),
    "copies": (
        "a, b, c = torch.randn(3, 4), torch.randn(4, 3), torch.zeros(3, 4)",
        """a.clone()
c.copy_(b.t())
c.fill_(1)
c.zero_()
a.to(torch.float64), a.double(), a.long(), a.half(), a.bool(), a.type(torch.int32), a.type_as(a.double())
a.to("cpu"), a.cpu()
a.contiguous(), a.t().contiguous()
a.detach()
c.normal_(), c.uniform_(), c.bernoulli_(), c.random_(), c.exponential_()
a[0, 0].item(), float(a[0, 0]), int(a[0, 0]), bool(a[0, 0])
a.numpy(), a.tolist()""",
    ),
    "indexing": (
        "a, b, at, mask = torch.randn(5, 6), torch.randn(5, 6), torch.tensor([0, 2]), torch.arange(30).view(5, 6) % 2 == 0",
        """a[0]
a[1:3]
a[:, 2]
a[..., None]
a[at]
a[mask]
a[at, at]
a[0, 1:3]
a[:, at]
b[0] = 1
b[at] = a[at]
b[mask] = 0
b[:, 1] = b[:, 2]
a.gather(1, at[None].expand(5, 2)), a.index_select(0, at), a.take(at), a.masked_select(mask), a.masked_fill(mask, 0.0)
torch.where(mask, a, b), mask.nonzero()
b.scatter_(0, at[None], 1.0), b.index_add_(0, at, a[:2]), b.index_copy_(0, at, a[:2]), b.index_fill_(0, at, 1.0)
b.scatter_add_(0, at[None], a[:1]), b.masked_fill_(mask, 3.0), a.scatter(0, at[None], 1.0)
a.scatter_reduce(0, at[None], a[:1], "sum"), b.put_(at, torch.ones(2))
a.narrow(0, 1, 2), a.select(0, 1), a.unbind(), a.diagonal()""",
    ),
    "shapes": (
        "a = torch.randn(2, 3, 4)",
        """a.view(6, 4), a.reshape(4, 6), a.transpose(0, 1).reshape(-1), a.permute(2, 0, 1), a.flatten(), a.ravel()
a.unsqueeze(0), a.squeeze(), a.expand(2, 2, 3, 4), a.repeat(1, 2, 1), a.split(1), a.chunk(2, -1), a.unfold(2, 2, 1)
torch.cat([a, a]), torch.stack([a, a]), torch.hstack([a, a]), torch.vstack([a, a]), a.tile(2), a.repeat_interleave(2)
a.flip(0), a.roll(1, 0), a.movedim(0, 1), a.swapaxes(0, 1), a.unflatten(2, (2, 2)), a.view_as(a), a.expand_as(a)
torch.broadcast_to(a, (2, 2, 3, 4)), torch.tensor_split(a, 2), torch.meshgrid(a[0, 0], a[0, 1], indexing="ij")""",
    ),
    "arithmetic": (
        "a, b, c = torch.rand(3, 3) + 0.1, torch.rand(3, 3) + 0.1, torch.zeros(3, 3)",
        """a + b, a - b, a * b, a / b, a**2, 2**a, 1 - a, 2 * a, 1 / a, -a, abs(a), a // b, a % b, a @ b
a > b, a == b, a != 0, ~(a > 0), (a > 0) | (b > 0), (a > 0) & (b > 0), torch.logical_and(a > 0, b > 0)
c += b
c.add_(b, alpha=2), c.clamp_(0, 1), c.sqrt_(), c.relu_(), torch.add(a, b, out=c)
a.sum(), a.mean(0), a.max(), a.max(1), a.argmax(), a.std(), a.var(0), a.norm(), a.prod(), a.cumsum(0), a.median(), a.min()
a.softmax(-1), a.log_softmax(-1), a.logsumexp(0), a.sort(), a.topk(2), a.any(), a.all(), a.amax(0), a.unique()
torch.maximum(a, b), torch.clamp(a, min=0), a.round(), a.sigmoid(), a.tanh(), a.exp(), a.log(), a.sqrt(), a.rsqrt()
torch.equal(a, b), torch.allclose(a, b), torch.isclose(a, b), torch.isnan(a), torch.isfinite(a)
torch.mm(a, b), torch.bmm(a[None], b[None]), torch.matmul(a, b[0]), torch.dot(a[0], b[0]), torch.outer(a[0], b[0])
torch.einsum("ij,jk->ik", a, b), torch.addmm(a, a, b), torch.lerp(a, b, 0.5), torch.addcmul(a, a, b), torch.cdist(a, b)
torch.linalg.norm(a), torch.linalg.inv(a), torch.linalg.solve(a, b), torch.linalg.svd(a)""",
    ),
    "functional": (
        "x, v, t, l = torch.randn(2, 3, 8, 8), torch.randn(4, 6), torch.rand(4, 6), torch.randint(0, 6, (4,))",
        """F.relu(v), F.gelu(v), F.silu(v), F.elu(v), F.selu(v), F.leaky_relu(v), F.softplus(v), F.sigmoid(v), F.tanh(v)
F.hardtanh(v), F.hardswish(v), F.hardsigmoid(v), F.mish(v), F.relu6(v)
F.logsigmoid(v), F.celu(v), F.glu(v), F.hardshrink(v), F.softshrink(v)
F.softsign(v), F.tanhshrink(v)
F.softmax(v, -1), F.log_softmax(v, -1), F.softmin(v, -1), F.dropout(v)
F.layer_norm(v, (6,)), F.batch_norm(x, None, None, training=True), F.group_norm(x, 3), F.instance_norm(x), F.rms_norm(v, (6,))
F.mse_loss(v, t), F.l1_loss(v, t), F.smooth_l1_loss(v, t), F.huber_loss(v, t)
F.cross_entropy(v, l), F.nll_loss(v, l), F.binary_cross_entropy(t, t), F.binary_cross_entropy_with_logits(v, t)
F.kl_div(v, t, reduction="sum"), F.cosine_similarity(v, t), F.margin_ranking_loss(v, t, torch.ones(4, 6))
F.conv1d(v[None], torch.ones(2, 4, 3)), F.conv_transpose2d(x, torch.ones(3, 2, 2, 2)), F.linear(v, torch.ones(2, 6))
F.max_pool2d(x, 2), F.max_pool2d(x, 2, return_indices=True), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)
F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="bilinear"), F.pad(x, (1, 1)), F.unfold(x, 2)
F.one_hot(l), F.embedding(l, torch.ones(6, 2)), F.grid_sample(x, torch.zeros(2, 4, 4, 2), align_corners=False)""",
    ),
    "gradients": (
        """a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True)
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2""",
        """(a @ b).relu().exp().sum().backward()
(a[0] * 2 + a.t()[1:3].sum()).mean().backward()
torch.autograd.grad((a**3).sum(), a)
torch.cat([a, b.t()]).softmax(-1).log().sum().backward()
Twice.apply(a).sum().backward()""",
    ),
    "blocks": (
        """a = torch.randn(3, 3, requires_grad=True)
from torch.utils.data import DataLoader, TensorDataset
loader = iter(DataLoader(TensorDataset(torch.randn(4, 3), torch.arange(4)), batch_size=2))
twice = torch.profiler.record_function("twice")(lambda x: x * 2)""",
        """with record_function("outer"):
    b = a * 2
    with record_function("inner"): b.sum().backward()
twice(a)
batch = next(loader)""",
    ),
}


def _statements(text):
    lines = []
    for line in text.splitlines():
        if line.startswith(" "):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return lines


def _shown(event):
    """The events that stand in no other operator's."""
    name = event.name
    yield "~" + name.removeprefix(_EVALUATION) if name.startswith(_EVALUATION) else name.replace(" ", "_")
    if not name.startswith(("aten::", _EVALUATION, "Optimizer.step", "enumerate", "Twice")):
        for child in event.cpu_children:
            yield from _shown(child)


def seen(torch, name):
    """By statement, the names of what it shows."""
    before, text = PROGRAMS[name]
    torch.manual_seed(0)
    scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "record_function": torch.profiler.record_function}
    exec(before.replace("from torch.", f"from {torch.__name__}."), scope)
    found = {}
    for statement in _statements(text):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            exec(statement, scope)
        found[statement] = " ".join(n for e in profile.events() if e.cpu_parent is None for n in _shown(e))
    return found


def write(path, found):
    path.write_text("{\n" + ",\n".join(f"{json.dumps(code)}: {json.dumps(names)}" for code, names in found.items()) + "\n}\n")


if __name__ == "__main__":
    import torch

    write(RECORDED, {code: names for name in sys.argv[1:] or PROGRAMS for code, names in seen(torch, name).items()})
