"""Calls of over 200 operators, each forward and backward, and a training step: what a mode below autograd sees of them.

Runs under either implementation; `python dispatched_program.py` under PyTorch writes what its
dispatcher hands to a mode.
"""

import json
import pathlib

RECORDED = pathlib.Path(__file__).with_name("recorded.json")

#: One call a line, of what `scope` has.
CALLS = """
x + y
x + 1
2 + x
x - y
x * y
x / y
x ** 2
x ** 0.5
x ** y
2 ** x
-x
abs(x)
torch.add(x, y, alpha=2)
torch.sub(x, y, alpha=3)
torch.rsub(x, y)
torch.addcmul(x, y, y, value=2)
torch.addcdiv(x, y, y)
torch.lerp(x, y, 0.3)
torch.lerp(x, y, x)
x.exp()
x.exp2()
x.expm1()
x.log()
x.log2()
x.log10()
x.log1p()
x.sqrt()
x.rsqrt()
x.square()
x.reciprocal()
x.sin()
x.cos()
x.tan()
x.asin()
x.acos()
x.atan()
x.sinh()
x.cosh()
x.tanh()
x.asinh()
torch.acosh(x + 1.5)
x.atanh()
x.erf()
x.erfc()
x.erfinv()
x.lgamma()
x.digamma()
x.sigmoid()
torch.logit(x)
x.sign()
x.floor()
x.ceil()
x.round()
x.trunc()
x.frac()
x.neg()
torch.atan2(x, y)
torch.hypot(x, y)
torch.fmod(x, 0.3)
torch.remainder(x, 0.3)
torch.maximum(x, y)
torch.minimum(x, y)
torch.fmax(x, y)
torch.logaddexp(x, y)
torch.logaddexp2(x, y)
torch.xlogy(x, y)
torch.copysign(x, y)
torch.clamp(x, 0.2, 0.8)
torch.clamp(x, min=0.2)
torch.clamp_max(x, 0.5)
torch.clamp(x, y, y + 1)
torch.where(mask, x, y)
torch.where(mask, x, 0.0)
x.masked_fill(mask, 0.5)
torch.nan_to_num(x)
torch.sinc(x)
torch.deg2rad(x)
x == y
x < 0.5
x.ne(y)
torch.logical_and(mask, mask)
torch.isnan(x)
torch.isfinite(x)
torch.isclose(x, y)
x.sum()
x.sum(1)
x.sum(0, keepdim=True)
x.mean()
x.mean(1)
x.mean((0, 1), keepdim=True)
x.prod()
x.prod(1)
x.var()
x.var(1)
x.std()
x.std(1, keepdim=True)
torch.var_mean(x, 1)[0]
x.amax(1)
x.amin(0)
x.max()
x.max(1)[0]
x.min(1)[0]
x.argmax()
x.argmin(1)
x.logsumexp(1)
x.cumsum(1)
x.cumprod(1)
x.cummax(1)[0]
x.logcumsumexp(1)
x.norm()
x.norm(dim=1)
x.norm(1)
torch.linalg.vector_norm(x, 3)
x.nansum()
x.count_nonzero()
x.median()
x.median(1)[0]
x.sort(1)[0]
x.topk(2)[0]
x.kthvalue(1)[0]
x.argsort()
torch.any(mask)
torch.all(mask, 1)
x.all()
x.softmax(1)
x.log_softmax(1)
F.softmin(x, 1)
F.relu(x)
F.relu6(x)
F.leaky_relu(x)
F.elu(x)
F.selu(x)
F.celu(x)
F.gelu(x)
F.gelu(x, approximate="tanh")
F.silu(x)
F.mish(x)
F.softplus(x)
F.hardtanh(x)
F.hardsigmoid(x)
F.hardswish(x)
F.hardshrink(x)
F.softshrink(x)
F.logsigmoid(x)
F.softsign(x)
F.tanhshrink(x)
F.threshold(x, 0.5, 0.0)
F.prelu(x, v)
F.glu(image)
x @ m
x @ v
v @ v
m @ x.t()
b @ c
b @ v
b @ m
torch.mm(x, m)
torch.bmm(b, c)
torch.mv(m, v)
torch.dot(v, v)
torch.outer(v, v)
torch.addmm(x, x, m)
torch.addmm(x, x, m, beta=2, alpha=3)
torch.addmv(v, m, v)
torch.baddbmm(c, b, c)
torch.addr(m, v, v)
F.linear(x, m)
F.linear(x, m, v)
F.linear(b, m, v)
F.bilinear(x, y, b)
torch.einsum("ij,jk->ik", x, m)
torch.tensordot(b, m, 1)
torch.inner(x, m)
torch.linalg.det(m)
torch.linalg.inv(m)
torch.linalg.solve(m, v)
torch.linalg.cholesky(spd)
torch.linalg.qr(m)[1]
torch.linalg.svdvals(m)
torch.linalg.eigvalsh(spd)
torch.trace(m)
torch.cross(m, m + 1, dim=1)
torch.kron(x, m)
torch.cdist(x, m)
x.t()
x.T
b.mT
x.transpose(0, 1)
b.permute(2, 0, 1)
x.view(3, 2)
x.reshape(6)
x.t().reshape(6)
x.flatten()
x.unsqueeze(1)
x[:, :1].squeeze(1)
x[:1].squeeze()
x.expand(2, 2, 3)
x.repeat(2, 1)
x.tile(2)
x.repeat_interleave(2, 0)
x[0]
x[:, 1:]
x[..., ::2]
x[None]
x[index]
x[:, index]
x[mask]
x.select(1, 0)
x.narrow(1, 0, 2)
x.index_select(0, index)
x.gather(1, places)
x.take(places)
x.scatter(1, places, y)
x.scatter_add(1, places, y)
x.index_add(0, index, y[index])
x.index_copy(0, index[:1], y[:1])
x.index_fill(0, index, 0.5)
x.index_put((index,), y[index])
x.masked_select(mask)
x.masked_scatter(mask, y)
x.split(1)[0]
x.split([1, 2], 1)[1]
x.chunk(3, 1)[0]
x.unbind()[0]
x.unfold(1, 2, 1)
m.diagonal()
m.diag()
v.diag_embed()
x.flip(1)
x.roll(1, 0)
torch.rot90(x)
m.tril()
m.triu(1)
torch.cat([x, y])
torch.stack([x, y], 1)
torch.hstack([x, y])
torch.vstack([x, y])
torch.block_diag(x, y)
torch.meshgrid(v, v, indexing="ij")[0]
x.movedim(0, 1)
x.contiguous()
x.t().contiguous()
x.clone()
x.detach()
x.double()
x.to(torch.float64)
x.half()
x.type_as(x.double())
x.as_strided((2, 2), (1, 1))
x.pow(3)
torch.complex(x, y).abs()
torch.view_as_real(torch.complex(x, y))
torch.view_as_complex(x.view(3, 2))
torch.fft.fft(x).abs()
torch.fft.rfft(x).abs()
F.pad(x, (1, 1))
F.pad(image, (1, 1, 1, 1), mode="reflect")
F.pad(image, (1, 1, 1, 1), mode="replicate")
F.pad(image, (1, 1, 1, 1), mode="circular")
F.layer_norm(x, (3,))
F.layer_norm(x, (3,), v, v)
F.group_norm(image, 2)
F.instance_norm(image)
F.batch_norm(image, None, None, training=True)
F.batch_norm(x, v.detach(), v.detach() + 1, v, v)
F.rms_norm(x, (3,))
F.normalize(x)
F.local_response_norm(image, 2)
F.conv1d(signal, kernel1)
F.conv2d(image, kernel)
F.conv2d(image, kernel, bias, padding=1)
F.conv2d(image, kernel, stride=2)
F.conv_transpose2d(image, kernel)
F.max_pool1d(signal, 2)
F.max_pool2d(image, 2)
F.avg_pool1d(signal, 2)
F.avg_pool2d(image, 2)
F.lp_pool2d(image, 2, 2)
F.adaptive_avg_pool2d(image, 1)
F.adaptive_avg_pool2d(image, 3)
F.adaptive_avg_pool1d(signal, 2)
F.adaptive_max_pool2d(image, 2)
F.interpolate(image, scale_factor=2)
F.interpolate(image, scale_factor=2, mode="bilinear")
F.interpolate(image, size=(4, 4), mode="bicubic")
F.pixel_shuffle(torch.cat([image, image], 1), 2)
F.unfold(image, 2)
F.fold(F.unfold(image, 2), (6, 6), 2)
F.grid_sample(image, grid)
F.affine_grid(theta, (1, 2, 4, 4))
F.embedding(places, m)
F.embedding_bag(places, m)
F.one_hot(places, 3)
F.dropout(x)
F.dropout(x, training=False)
F.dropout2d(image)
F.alpha_dropout(x)
F.mse_loss(x, y)
F.l1_loss(x, y)
F.smooth_l1_loss(x, y)
F.huber_loss(x, y)
F.cross_entropy(x, target)
F.cross_entropy(x, target, label_smoothing=0.1)
F.nll_loss(x, target)
F.kl_div(x, y)
F.binary_cross_entropy(x, y.detach())
F.binary_cross_entropy_with_logits(x, y.detach())
F.hinge_embedding_loss(x, sign)
F.margin_ranking_loss(x, y, sign)
F.cosine_embedding_loss(x, y, sign[:, 0])
F.triplet_margin_loss(x, y, x + 1)
F.soft_margin_loss(x, sign)
F.multi_margin_loss(x, target)
F.poisson_nll_loss(x, y)
F.gaussian_nll_loss(x, y, y.detach())
F.cosine_similarity(x, y)
F.pairwise_distance(x, y)
F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
(x * 1).add_(y)
(x * 1).mul_(y)
(x * 1).sub_(1)
(x * 1).div_(y)
(x * 1).exp_()
(x * 1).relu_()
(x * 1).clamp_(0.1, 0.9)
(x * 1).zero_()
(x * 1).fill_(2)
(x * 1).copy_(y)
(x * 1).masked_fill_(mask, 0.5)
(x * 1).t_()
(x * 1).squeeze_()
(x * 1).scatter_(1, places, y)
(x * 1).index_add_(0, index, y[index])
(x * 1).tanh_()
(x * 1).sigmoid_()
(x * 1).pow_(2)
torch.zeros(2)
torch.ones(2, 3)
torch.empty(2)
torch.full((2,), 3.0)
torch.arange(3)
torch.linspace(0, 1, 3)
torch.eye(3)
torch.zeros_like(x)
torch.ones_like(x)
torch.full_like(x, 2)
torch.empty_like(x)
torch.rand(2)
torch.randn(2)
torch.randint(3, (2,))
torch.randperm(3)
torch.rand_like(x)
torch.bernoulli(x.detach())
torch.multinomial(x.detach(), 1)
torch.normal(0.0, 1.0, (2,))
torch.tensor([1.0])
torch.as_tensor([1.0])
torch.tril_indices(3, 3)
x.new_zeros(2)
x.new_ones(2)
x.new_full((2,), 1.0)
x.new_empty(2)
x.new_tensor([1.0])
x.nonzero()
torch.where(mask)
mask.nonzero(as_tuple=True)
torch.unique(places)
torch.bincount(places[0])
torch.histc(x.detach())
torch.searchsorted(v.detach(), x.detach())
torch.bucketize(x.detach(), v.detach())
torch.equal(x, y)
torch.allclose(x, y)
x.sum().item()
bool(x.sum() > 0)
x.tolist()
layer(x)
norm(x)
encoder(b)
lstm(b)[0]
gru(b)[0]
""".strip().splitlines()  # fmt: skip

OPTIMIZERS = [
    "SGD",
    "SGD momentum",
    "Adam",
    "AdamW",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "Rprop",
    "ASGD",
]


def scope(torch):
    """What the calls use."""
    torch.manual_seed(0)
    given = {"torch": torch, "F": torch.nn.functional}

    def leaf(*shape):
        return (torch.rand(shape) * 0.8 + 0.1).requires_grad_()

    given |= {"x": leaf(2, 3), "y": leaf(2, 3), "m": leaf(3, 3), "v": leaf(3), "b": leaf(2, 3, 3)}
    given["c"] = leaf(2, 3, 3)
    given |= {
        "image": leaf(1, 2, 6, 6),
        "signal": leaf(1, 2, 8),
        "kernel": leaf(2, 2, 3, 3),
        "kernel1": leaf(2, 2, 3),
        "bias": leaf(2),
        "grid": leaf(1, 3, 3, 2),
        "theta": leaf(1, 2, 3),
        "q": leaf(1, 2, 4, 8),
    }
    given["mask"] = torch.tensor([[True, False, True], [False, True, False]])
    given["index"] = torch.tensor([0, 1])
    given["places"] = torch.tensor([[0, 1, 2], [2, 1, 0]])
    given["target"] = torch.tensor([0, 2])
    given["sign"] = torch.tensor([[1.0, -1, 1], [-1, 1, -1]])
    given["spd"] = (torch.eye(3) * 3 + torch.rand(3, 3)).requires_grad_()
    given["layer"] = torch.nn.Linear(3, 2)
    given["norm"] = torch.nn.LayerNorm(3)
    given["encoder"] = torch.nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0, batch_first=True)
    given["lstm"] = torch.nn.LSTM(3, 2, batch_first=True)
    given["gru"] = torch.nn.GRU(3, 2, batch_first=True)
    return given


def recorder(torch):
    """A mode that keeps the names of the operators it sees."""
    from importlib import import_module

    base = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode

    class Names(base):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func).removeprefix("aten."))
            return func(*args, **(kwargs or {}))

    return Names()


def seen(torch, code):
    """(operators of the call, operators of its backward pass)."""
    given = scope(torch)
    with recorder(torch) as forward:
        result = eval(code, given)
    if not isinstance(result, torch.Tensor) or not result.requires_grad:
        return forward.names, []
    weight = torch.ones_like(result.detach())
    with recorder(torch) as backward:
        result.backward(weight)
    return forward.names, backward.names


def steps(torch, name):
    """The operators of two steps of an optimizer."""
    kind, *momentum = name.split()
    layer = scope(torch)["layer"]
    optimizer = getattr(torch.optim, kind)(layer.parameters(), lr=0.1, **({"momentum": 0.9} if momentum else {}))
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    with recorder(torch) as log:
        optimizer.step()
        optimizer.step()
    return log.names


def record():
    import torch

    found = {code: seen(torch, code) for code in CALLS}
    found |= {f"optimizer {name}": (steps(torch, name), []) for name in OPTIMIZERS}
    lines = [f"{json.dumps(code)}: {json.dumps([' '.join(part) for part in names])}" for code, names in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    record()
