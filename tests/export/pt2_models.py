"""The models whose archives go both ways between PyTorch and this package: `models(torch)` makes them with either.

`python -c "import pt2_models; pt2_models.main()" NAME write=FOLDER read=FOLDER ...` saves each of them and its results to a
folder, loads what the other side has saved to one, and prints as JSON what failed and how far the results are apart. NAME: torch
or flambeau.
"""

import collections
import dataclasses
import importlib
import json
import sys
import traceback

Pair = collections.namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Point:
    """A dataclass that programs take and give."""

    x: object
    y: object


def models(torch):
    """Name -> (module, args, kwargs), the same for either implementation."""
    nn, F = torch.nn, torch.nn.functional
    importlib.import_module(torch.__name__ + ".export")
    pytree = importlib.import_module(torch.__name__ + ".utils._pytree")
    if Pair not in pytree.SUPPORTED_SERIALIZED_TYPES:
        pytree._register_namedtuple(Pair, serialized_type_name="pt2_models.Pair")
    torch.manual_seed(0)

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
            self.pool, self.fc = nn.MaxPool2d(2), nn.Linear(6, 5)

        def forward(self, x):
            x = self.pool(F.relu(self.bn(self.conv(x))))
            return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    class Block(nn.Module):
        def __init__(self, inner, outer, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
            self.conv2, self.bn2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
            self.relu, self.down = nn.ReLU(inplace=True), None
            if stride != 1 or inner != outer:
                self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y += x if self.down is None else self.down(x)
            return self.relu(y)

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            stem = nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)
            self.stem = nn.Sequential(*stem)
            self.layers = nn.Sequential(
                *[Block(a, b, s) for a, b, s in [(4, 4, 1), (4, 4, 1), (4, 8, 2), (8, 8, 1), (8, 16, 2), (16, 16, 1)]]
            )
            self.fc = nn.Linear(16, 10)

        def forward(self, x):
            x = self.layers(self.stem(x))
            return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))

    class GPTBlock(nn.Module):
        def __init__(self, c=16, heads=2, length=8):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(20, c), nn.Embedding(length, c)
            self.ln1, self.ln2, self.heads = nn.LayerNorm(c), nn.LayerNorm(c), heads
            self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
            self.up, self.out, self.head = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Linear(c, 20, bias=False)
            self.head.weight = self.wte.weight
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length), persistent=False)

        def forward(self, ids):
            b, t = ids.size()
            x = self.wte(ids) + self.wpe(torch.arange(t, device=ids.device))
            q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(x.shape[-1], dim=2))
            a = (q @ k.transpose(-2, -1)) * (k.size(-1) ** -0.5)
            a = F.softmax(a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1)
            x = x + self.proj((a @ v).transpose(1, 2).contiguous().view(b, t, -1))
            x = x + self.out(F.gelu(self.up(self.ln2(x)), approximate="tanh"))
            return self.head(x)

    class Bert(nn.Module):
        def __init__(self, c=16):
            super().__init__()
            self.words, self.places, self.kinds = nn.Embedding(30, c, padding_idx=0), nn.Embedding(8, c), nn.Embedding(2, c)
            self.ln, self.drop = nn.LayerNorm(c, eps=1e-12), nn.Dropout(0.1)
            self.q, self.k, self.v, self.o = (nn.Linear(c, c) for _ in range(4))
            self.ln1, self.ln2, self.f1, self.f2 = nn.LayerNorm(c), nn.LayerNorm(c), nn.Linear(c, 32), nn.Linear(32, c)
            self.pooler = nn.Linear(c, c)
            self.register_buffer("position_ids", torch.arange(8).expand((1, -1)), persistent=False)

        def forward(self, ids, attention_mask=None, kinds=None):
            x = self.words(ids) + self.places(self.position_ids[:, : ids.size(1)]) + self.kinds(kinds)
            x = self.drop(self.ln(x))
            mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
            b, t, c = x.shape
            q, k, v = (f(x).view(b, t, 4, c // 4).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
            a = torch.matmul(q, k.transpose(-1, -2)) / 2.0 + mask
            y = torch.matmul(nn.functional.softmax(a, dim=-1), v).permute(0, 2, 1, 3).reshape(b, t, c)
            x = self.ln1(x + self.drop(self.o(y)))
            x = self.ln2(x + self.f2(F.gelu(self.f1(x))))
            return {"last_hidden_state": x, "pooler_output": torch.tanh(self.pooler(x[:, 0]))}

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 6, num_layers=2, batch_first=True, bidirectional=True)
            self.gru = nn.GRU(12, 5, batch_first=True)

        def forward(self, x):
            y, (h, c) = self.lstm(x)
            z, last = self.gru(y)
            return z, h, c, last

    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.bag = nn.Embedding(10, 4), nn.EmbeddingBag(12, 4, mode="mean")

        def forward(self, ids, offsets):
            return self.table(ids).sum(0), self.bag(ids, offsets)

    class Resize(nn.Module):
        def forward(self, x):
            a = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
            b = F.interpolate(x, size=(3, 5), mode="nearest")
            c = F.avg_pool2d(F.pad(a, (1, 1, 0, 2), mode="reflect"), 2, ceil_mode=True)
            value, index = F.max_pool2d(x, 2, return_indices=True)
            return a, b, c, value, index, F.adaptive_max_pool2d(x, 2)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))
            self.register_buffer("steps", torch.tensor(0), persistent=False)

        def forward(self, x):
            self.seen.mul_(0.5).add_(x.mean(0))
            self.steps += 1
            y = x.clone()
            y[:, 0] = 1.0
            return y * self.seen, self.steps.to(torch.float32)

    class Trees(nn.Module):
        def forward(self, d, pair, *, scale, names=None):
            y = d["a"] * 2 + d["b"][0] - pair.first
            return {"out": y * scale, "l": [y.exp(), d["b"][1], None, 3]}, Pair(pair.second, (y.sum(),))

    class Constants(nn.Module):
        def __init__(self):
            super().__init__()
            self.k = torch.arange(4.0)

        def forward(self, x, n, f, s, none=None):
            if s == "add":
                x = x + n * f
            return x * self.k + torch.tensor([1.0, 2.0, 3.0, 4.0]), n, f, none, True

    class Upconv(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1, groups=1)
            self.d = nn.Conv1d(4, 4, 3, groups=4, padding="same")

        def forward(self, x):
            return self.c(x), self.d(x[:, :, 0])

    class Groups(nn.Module):
        def __init__(self):
            super().__init__()
            self.g, self.i = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)
            self.act = nn.PReLU(4)

        def forward(self, x):
            return self.act(self.g(x)), self.i(x), F.silu(x), F.glu(x, dim=1)

    class Spectrum(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, dtype=torch.complex64))

        def forward(self, x):
            f = torch.fft.rfft(x, dim=-1) * self.w
            return torch.fft.irfft(f, n=8, dim=-1), f.abs(), torch.view_as_real(f) * 2, f

    class Writes(nn.Module):
        def forward(self, x, index, value):
            a = torch.index_put(x, (index,), value, accumulate=True)
            b = torch.zeros_like(x).scatter_add(0, index.unsqueeze(1).expand(-1, x.shape[1]), value)
            c = x[index][:, None, :2]
            return a, b, c, x.gather(1, index.unsqueeze(0)), torch.where(x > 0.5, x, -x), tuple(x.topk(2))

    class Products(nn.Module):
        def forward(self, a, b):
            return torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij,bij->b", a, a), torch.bmm(a, b), a.mT @ a

    class Attention(nn.Module):
        def forward(self, q, k, v, mask):
            return (
                F.scaled_dot_product_attention(q, k, v, is_causal=True),
                F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.5),
            )

    class Mixed(nn.Module):
        """Weights of many types and layouts, some of which share memory."""

        def __init__(self):
            super().__init__()
            self.brief = nn.Parameter(torch.randn(3, 4).to(torch.bfloat16))
            self.turned = nn.Parameter(torch.randn(4, 3).t())
            base = torch.randn(6)
            self.register_buffer("whole", base)
            self.register_buffer("part", base[2:5])
            self.register_buffer("flags", torch.tensor([True, False, True]))
            self.register_buffer("counts", torch.tensor([1, 2, 3], dtype=torch.int16))
            self.register_buffer("wave", torch.randn(3, dtype=torch.complex128))
            self.register_buffer("empty", torch.zeros(0, 3))
            self.register_buffer("steps", torch.randn(2, 3), persistent=False)

        def forward(self, x):
            y = x @ self.brief.float().t() + self.whole[:3] * self.part
            z = torch.where(self.flags, y, self.counts.to(y.dtype))
            return z, x[:, :3] @ self.turned[:, :3].t(), (self.wave * z[0]).real, torch.cat([self.empty, self.steps])

    class Dataclasses(nn.Module):
        def forward(self, p):
            return Point(p.x + p.y, [p.x * p.y])

    rand, ids = torch.rand, torch.tensor
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    found = {
        "mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).eval(), (rand(2, 4),), {}),
        "cnn": (CNN(), (rand(2, 3, 8, 8),), {}),
        "resnet": (ResNet().eval(), (rand(1, 3, 32, 32),), {}),
        "gpt": (GPTBlock(), (ids([[1, 2, 3, 4, 5], [5, 6, 7, 8, 19]]),), {}),
        "bert": (Bert().eval(), (ids([[1, 2, 3], [4, 5, 0]]),),
                 {"attention_mask": ids([[1, 1, 1], [1, 1, 0]]), "kinds": ids([[0, 0, 1], [0, 1, 1]])}),
        "recurrent": (Recurrent(), (rand(2, 5, 4),), {}),
        "bags": (Bags(), (ids([1, 2, 3, 4, 5]), ids([0, 2])), {}),
        "encoder": (encoder.eval(), (rand(2, 5, 8),), {}),
        "resize": (Resize(), (rand(1, 2, 6, 6),), {}),
        "counter": (Counter(), (rand(2, 3),), {}),
        "trees": (Trees(), ({"a": rand(2), "b": [rand(2), rand(2)]}, Pair(rand(2), rand(3))), {"scale": rand(2), "names": None}),
        "constants": (Constants(), (rand(4), 3, 0.5, "add"), {"none": None}),
        "upconv": (Upconv(), (rand(1, 4, 4, 4),), {}),
        "groups": (Groups(), (rand(2, 4, 3, 3),), {}),
        "spectrum": (Spectrum(), (rand(3, 8),), {}),
        "writes": (Writes(), (rand(4, 5), ids([0, 2]), rand(2, 5)), {}),
        "products": (Products(), (rand(2, 3, 4), rand(2, 4, 5)), {}),
        "attention": (Attention(), (rand(1, 2, 4, 8), rand(1, 2, 4, 8), rand(1, 2, 4, 8), rand(1, 1, 4, 4) > 0.3), {}),
        "mixed": (Mixed(), (rand(2, 4),), {}),
        "dataclass": (Dataclasses(), (Point(rand(2), rand(2)),), {}),
    }  # fmt: skip
    if Point not in pytree.SUPPORTED_NODES:
        torch.export.register_dataclass(Point, serialized_type_name="pt2_models.Point")
    return found


def dynamic_models(torch):
    """The models, with dynamic sizes where they take any: name -> (module, args, kwargs, dynamic_shapes, args and kwargs of
    another size)."""
    rand, ids, Dim = torch.rand, torch.tensor, importlib.import_module(torch.__name__ + ".export").Dim
    given, batch, length = models(torch), Dim("batch", min=1, max=64), Dim("length", min=2, max=7)
    mask = {"attention_mask": ids([[1] * 4] * 3), "kinds": ids([[0] * 4] * 3)}
    wanted = {
        "mlp": (({0: batch},), (rand(5, 4),), {}),
        "cnn": (({0: batch, 2: Dim.AUTO},), (rand(3, 3, 10, 8),), {}),
        "resnet": (({0: Dim.AUTO},), (rand(3, 3, 32, 32),), {}),
        "gpt": (({0: batch, 1: length},), (ids([[1, 2, 3], [2, 3, 4], [5, 6, 7]]),), {}),
        "bert": ({"ids": {0: batch, 1: length}, "attention_mask": {0: batch, 1: length}, "kinds": {0: batch, 1: length}},
                 (ids([[1, 2, 3, 4]] * 3),), mask),
        "encoder": (({0: batch, 1: length},), (rand(3, 4, 8),), {}),
        "counter": (({0: batch},), (rand(4, 3),), {}),
        "trees": ({"d": {"a": {0: Dim.AUTO}, "b": [{0: Dim.AUTO}, {0: Dim.AUTO}]}, "pair": Pair({0: Dim.AUTO}, {0: Dim.AUTO}),
                   "scale": {0: Dim.AUTO}, "names": None},
                  ({"a": rand(5), "b": [rand(5), rand(4)]}, Pair(rand(5), rand(7))), {"scale": rand(5), "names": None}),
        "upconv": (({0: batch, 3: Dim.AUTO},), (rand(2, 4, 4, 6),), {}),
        "groups": (({0: batch},), (rand(3, 4, 3, 3),), {}),
        "spectrum": (({0: batch},), (rand(2, 8),), {}),
        "writes": (({0: Dim.AUTO}, {0: Dim.AUTO}, {0: Dim.AUTO}), (rand(6, 5), ids([0, 2, 3]), rand(3, 5)), {}),
        "products": (({0: batch, 1: Dim.AUTO, 2: length}, {0: batch, 1: length}), (rand(3, 4, 2), rand(3, 2, 5)), {}),
        "attention": (({0: batch}, {0: batch}, {0: batch}, None), (*[rand(3, 2, 4, 8) for _ in range(3)], None), {}),
        "mixed": (({0: batch},), (rand(3, 4),), {}),
        "recurrent": (({0: batch},), (rand(3, 5, 4),), {}),
        "bags": (({0: Dim.AUTO}, {0: Dim.AUTO}), (ids([1, 2, 3, 4, 5, 6]), ids([0, 2, 4])), {}),
        "resize": (({0: batch, 2: Dim.AUTO},), (rand(3, 2, 8, 6),), {}),
        "dataclass": (([{0: Dim.AUTO}, {0: Dim.AUTO}],), (Point(rand(3), rand(3)),), {}),
    }  # fmt: skip
    made = dict(given)
    for name, (shapes, args, kwargs) in wanted.items():
        model, first, named = given[name]
        args = tuple(old if new is None else new for old, new in zip(first, args))
        batches = {0: 2} if name in ("attention", "upconv", "resnet", "resize") else {}  # sizes of 1 are constants
        first = tuple(x.repeat(2, *[1] * (x.dim() - 1)) if batches and i < 3 else x for i, x in enumerate(first))
        made[name] = model, first, named, shapes, args, kwargs
    return made


def inner_graphs(torch):
    """Models whose programs have graphs within the graph, which only PyTorch writes: name -> (module, args, kwargs)."""
    nn = torch.nn
    operators = importlib.import_module(torch.__name__ + "._higher_order_ops")

    class Modes(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.f(x)
            with torch.no_grad():
                z = y.float() + 1
            return z * self.f(x)

    class Loops(nn.Module):
        def forward(self, x):
            steps, y = operators.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x))
            both = operators.map(lambda a, b: a + b, x, y)
            last, rows = operators.scan(lambda c, a: (c + a, c * a), torch.zeros(2), x)
            return torch.cond(x.sum() > 0, lambda a: (a.sin(), a + 1), lambda a: (a.cos(), a - 1), (y,)), steps, both, last, rows

    return {"modes": (Modes(), (torch.rand(2, 3),), {}), "loops": (Loops(), (torch.rand(2, 2),), {})}


def flat(torch, value):
    """The leaves of a result."""
    return importlib.import_module(torch.__name__ + ".utils._pytree").tree_leaves(value)


def apart(torch, made, expected):
    """The largest difference of two lists of leaves; inf for other shapes, dtypes or constants."""
    if len(made) != len(expected):
        return float("inf")
    worst = 0.0
    for a, b in zip(made, expected):
        if not isinstance(b, torch.Tensor):
            worst = max(worst, 0.0 if a == b else float("inf"))
        elif not isinstance(a, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        elif b.numel():
            kind = torch.complex128 if b.is_complex() else torch.float64
            worst = max(worst, (a.detach().to(kind) - b.detach().to(kind)).abs().max().item())
    return worst


def text(program):
    """What is printed of a program, and its code."""
    return f"{program}\n{program.module().code}"


def write(torch, folder, given=dynamic_models):
    """Save the models, their inputs and their results; {name: error or None}."""
    said = {}
    for name, (model, args, kwargs, *sizes) in given(torch).items():
        try:
            program = torch.export.export(model, args, kwargs, dynamic_shapes=sizes[0] if sizes else None)
            args, kwargs = sizes[1:] or (args, kwargs)
            torch.export.save(program, f"{folder}/{name}.pt2", extra_files={"name.txt": name})
            with open(f"{folder}/{name}.txt", "w") as file:
                file.write(text(torch.export.load(f"{folder}/{name}.pt2")))  # a file doesn't tell tuples from lists
            torch.save([x for x in flat(torch, (args, kwargs)) if isinstance(x, torch.Tensor)], f"{folder}/{name}.inputs")
            torch.save(
                [x.detach() if isinstance(x, torch.Tensor) else x for x in flat(torch, program.module()(*args, **kwargs))],
                f"{folder}/{name}.results",
            )
            said[name] = None
        except Exception:
            said[name] = traceback.format_exc()
    return said


def read(torch, folder, given=dynamic_models):
    """Load what was saved, and save it beside it; {name: distance of its results or error}."""
    said = {}
    for name, (_, args, kwargs, *_) in given(torch).items():
        try:
            files = {"name.txt": ""}
            program = torch.export.load(f"{folder}/{name}.pt2", extra_files=files)
            assert files == {"name.txt": name}, files
            inputs = iter(torch.load(f"{folder}/{name}.inputs"))
            pytree = importlib.import_module(torch.__name__ + ".utils._pytree")
            args, kwargs = pytree.tree_map(lambda x: next(inputs) if isinstance(x, torch.Tensor) else x, (args, kwargs))
            torch.export.save(program, f"{folder}/again-{name}.pt2", extra_files=files)
            with open(f"{folder}/{name}.txt") as file:
                assert text(program) == file.read(), text(program)
            made = flat(torch, program.module()(*args, **kwargs))
            said[name] = apart(torch, made, torch.load(f"{folder}/{name}.results"))
        except Exception:
            said[name] = traceback.format_exc()
    return said


def main():
    """What the command line says."""
    package = importlib.import_module(sys.argv[1])
    steps = [step.split("=", 1) for step in sys.argv[2:]]
    done = []
    for what, folder in steps:
        what, _, which = what.partition("_")
        given = {"": dynamic_models, "static": models, "inner": inner_graphs}[which]
        done.append({"write": write, "read": read}[what](package, folder, given))
    print(json.dumps(done))
