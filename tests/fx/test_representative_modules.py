"""The code of a dozen modules of the kinds that programs trace; the texts are those that PyTorch 2.13 gives."""

# ruff: noqa: E501 - lines of generated code

import collections
import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx, nn


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.drop = nn.Linear(4, 8), nn.Linear(8, 2), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.drop(F.relu(self.fc1(x))))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True))

    def forward(self, x):
        out = self.body(x)
        out += x
        return torch.flatten(F.adaptive_avg_pool2d(out, (1, 1)), 1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("mask", torch.tril(torch.ones(5, 5)))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(x).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask == 0, float("-inf"))
        return self.proj((F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, t, c))


class Fused(nn.Module):
    def forward(self, q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=True)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(3, 4)), nn.Parameter(torch.zeros(3))

    def forward(self, x):
        a, b = (x @ self.weight.t() + self.bias).chunk(2, dim=-1)
        return a * torch.sigmoid(b)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.lstm = nn.Embedding(9, 4), nn.LSTM(4, 5, batch_first=True)

    def forward(self, ids):
        out, (h, _) = self.lstm(self.emb(ids))
        return out[:, -1], h.squeeze(0)


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 2, stride=2)

    def forward(self, x):
        d = F.gelu(self.down(x))
        u = F.interpolate(self.up(F.max_pool2d(d, 2)), size=x.shape[-2:], mode="bilinear", align_corners=False)
        return torch.cat((d, u), dim=1)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(collections.OrderedDict([("Conv1x1", nn.Linear(4, 4)), ("2", nn.ReLU())]))
        self.add_module("1x1", nn.Linear(4, 4))

    def forward(self, input, relu, *, scale: float = 2.0):
        return getattr(self, "1x1")(self.inner(input)) * scale + torch.relu(relu), relu.relu()


class Containers(nn.Module):
    def forward(self, x, i: int = 2):
        return {"a": [x[0], x[..., None, 1:i]], "b": (x, (1, None)), "c": x.shape, 3: float("inf")}


class Operators(nn.Module):
    def forward(self, x, y):
        return [2 - x, x // y, 2**x, -x, abs(x), ~(x > 0), (x >= y) & (y != 1), 1 / x, x[y], x.T, y.dtype, x @ y, 3 % x]


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        y = x.clone().mul_(2).add_(x, alpha=3)
        y -= x
        return F.relu(y, inplace=True), self.count


class Losses(nn.Module):
    def forward(self, x, t):
        return F.cross_entropy(x, t, label_smoothing=0.1) + F.mse_loss(x, t) + F.normalize(x).std() + torch.norm(x, dim=1).mean()


class Factories(nn.Module):
    def forward(self, x):
        n = x.size(0)
        return torch.arange(n) + torch.zeros((n, 2)), torch.ones_like(x), x.new_zeros(n, 3), torch.full((2,), n), torch.eye(3)


MODULES = [Mlp, Residual, Attention, Fused, Gate, Recurrent, Unet, Named, Containers, Operators, InPlace, Losses, Factories]

CODES = {
    "Mlp": r"""def forward(self, x : torch.Tensor) -> torch.Tensor:
    fc1 = self.fc1(x);  x = None
    relu = torch.nn.functional.relu(fc1, inplace = False);  fc1 = None
    drop = self.drop(relu);  relu = None
    fc2 = self.fc2(drop);  drop = None
    return fc2""",
    "Residual": r"""def forward(self, x):
    body_0 = getattr(self.body, "0")(x)
    body_1 = getattr(self.body, "1")(body_0);  body_0 = None
    body_2 = getattr(self.body, "2")(body_1);  body_1 = None
    add = body_2 + x;  body_2 = x = None
    adaptive_avg_pool2d = torch.nn.functional.adaptive_avg_pool2d(add, (1, 1));  add = None
    flatten = torch.flatten(adaptive_avg_pool2d, 1);  adaptive_avg_pool2d = None
    return flatten""",
    "Attention": r"""torch.fx._symbolic_trace.wrap("math_sqrt")

def forward(self, x):
    size = x.size()
    getitem = size[0]
    getitem_1 = size[1]
    getitem_2 = size[2];  size = None
    qkv = self.qkv(x);  x = None
    floordiv = getitem_2 // 2
    view = qkv.view(getitem, getitem_1, 3, 2, floordiv);  qkv = floordiv = None
    permute = view.permute(2, 0, 3, 1, 4);  view = None
    unbind = permute.unbind(0);  permute = None
    getitem_3 = unbind[0]
    getitem_4 = unbind[1]
    getitem_5 = unbind[2];  unbind = None
    transpose = getitem_4.transpose(-2, -1)
    matmul = getitem_3 @ transpose;  getitem_3 = transpose = None
    size_1 = getitem_4.size(-1);  getitem_4 = None
    sqrt = math_sqrt(size_1);  size_1 = None
    truediv = 1.0 / sqrt;  sqrt = None
    mul = matmul * truediv;  matmul = truediv = None
    _tensor_constant0 = self._tensor_constant0
    masked_fill = mul.masked_fill(_tensor_constant0, -inf);  mul = _tensor_constant0 = None
    softmax = torch.nn.functional.softmax(masked_fill, dim = -1, _stacklevel = 3, dtype = None);  masked_fill = None
    matmul_1 = softmax @ getitem_5;  softmax = getitem_5 = None
    transpose_1 = matmul_1.transpose(1, 2);  matmul_1 = None
    reshape = transpose_1.reshape(getitem, getitem_1, getitem_2);  transpose_1 = getitem = getitem_1 = getitem_2 = None
    proj = self.proj(reshape);  reshape = None
    return proj""",
    "Fused": r"""def forward(self, q, k, v, mask = None):
    scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention(q, k, v, attn_mask = mask, is_causal = True);  q = k = v = mask = None
    return scaled_dot_product_attention""",
    "Gate": r"""def forward(self, x):
    weight = self.weight
    t = weight.t();  weight = None
    matmul = x @ t;  x = t = None
    bias = self.bias
    add = matmul + bias;  matmul = bias = None
    chunk = add.chunk(2, dim = -1);  add = None
    getitem = chunk[0]
    getitem_1 = chunk[1];  chunk = None
    sigmoid = torch.sigmoid(getitem_1);  getitem_1 = None
    mul = getitem * sigmoid;  getitem = sigmoid = None
    return mul""",
    "Recurrent": r"""def forward(self, ids):
    emb = self.emb(ids);  ids = None
    lstm = self.lstm(emb);  emb = None
    getitem = lstm[0]
    getitem_1 = lstm[1];  lstm = None
    getitem_2 = getitem_1[0]
    getitem_3 = getitem_1[1];  getitem_1 = getitem_3 = None
    getitem_4 = getitem[(slice(None, None, None), -1)];  getitem = None
    squeeze = getitem_2.squeeze(0);  getitem_2 = None
    return (getitem_4, squeeze)""",
    "Unet": r"""def forward(self, x):
    down = self.down(x)
    gelu = torch._C._nn.gelu(down);  down = None
    max_pool2d = torch.nn.functional.max_pool2d(gelu, 2, stride = None, padding = 0, dilation = 1, ceil_mode = False, return_indices = False)
    up = self.up(max_pool2d);  max_pool2d = None
    getattr_1 = x.shape;  x = None
    getitem = getattr_1[slice(-2, None, None)];  getattr_1 = None
    interpolate = torch.nn.functional.interpolate(up, size = getitem, scale_factor = None, mode = 'bilinear', align_corners = False, recompute_scale_factor = None, antialias = False);  up = getitem = None
    cat = torch.cat((gelu, interpolate), dim = 1);  gelu = interpolate = None
    return cat""",
    "Named": r"""def forward(self, input, relu, scale : float = 2.0):
    input_1 = input
    inner_conv1x1 = self.inner.Conv1x1(input_1);  input_1 = None
    inner_2 = getattr(self.inner, "2")(inner_conv1x1);  inner_conv1x1 = None
    _1x1 = getattr(self, "1x1")(inner_2);  inner_2 = None
    mul = _1x1 * scale;  _1x1 = scale = None
    relu_1 = torch.relu(relu)
    add = mul + relu_1;  mul = relu_1 = None
    relu_2 = relu.relu();  relu = None
    return (add, relu_2)""",
    "Containers": r"""def forward(self, x, i : int = 2):
    getitem = x[0]
    getitem_1 = x[(Ellipsis, None, slice(1, i, None))];  i = None
    getattr_1 = x.shape
    return {'a': [getitem, getitem_1], 'b': (x, (1, None)), 'c': getattr_1, 3: inf}""",
    "Operators": r"""def forward(self, x, y):
    sub = 2 - x
    floordiv = x // y
    pow_1 = 2 ** x
    neg = -x
    abs_1 = _operator_abs(x)
    gt = x > 0
    invert = ~gt;  gt = None
    ge = x >= y
    ne = y != 1
    and_ = ge & ne;  ge = ne = None
    truediv = 1 / x
    getitem = x[y]
    matmul = x @ y
    mod = 3 % x
    getattr_1 = x.T;  x = None
    getattr_2 = y.dtype;  y = None
    return [sub, floordiv, pow_1, neg, abs_1, invert, and_, truediv, getitem, getattr_1, getattr_2, matmul, mod]""",
    "InPlace": r"""def forward(self, x):
    clone = x.clone()
    mul_ = clone.mul_(2);  clone = None
    add_ = mul_.add_(x, alpha = 3);  mul_ = None
    sub = add_ - x;  add_ = x = None
    relu = torch.nn.functional.relu(sub, inplace = True);  sub = None
    count = self.count
    return (relu, count)""",
    "Losses": r"""def forward(self, x, t):
    cross_entropy = torch.nn.functional.cross_entropy(x, t, weight = None, size_average = None, ignore_index = -100, reduce = None, reduction = 'mean', label_smoothing = 0.1)
    mse_loss = torch.nn.functional.mse_loss(x, t, size_average = None, reduce = None, reduction = 'mean', weight = None);  t = None
    add = cross_entropy + mse_loss;  cross_entropy = mse_loss = None
    normalize = torch.nn.functional.normalize(x, p = 2.0, dim = 1, eps = 1e-12, out = None)
    std = normalize.std();  normalize = None
    add_1 = add + std;  add = std = None
    norm = torch.functional.norm(x, p = 'fro', dim = 1, keepdim = False, out = None, dtype = None);  x = None
    mean = norm.mean();  norm = None
    add_2 = add_1 + mean;  add_1 = mean = None
    return add_2""",
    "Factories": r"""def forward(self, x):
    size = x.size(0)
    arange = torch.arange(size)
    zeros = torch.zeros((size, 2))
    add = arange + zeros;  arange = zeros = None
    ones_like = torch.ones_like(x)
    new_zeros = x.new_zeros(size, 3);  x = None
    full = torch.full((2,), size);  size = None
    _tensor_constant0 = self._tensor_constant0
    return (add, ones_like, new_zeros, full, _tensor_constant0)""",
}  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_the_code_of(module) -> None:
    traced = fx.symbolic_trace(module())
    assert traced.code.strip() == CODES[module.__name__].strip()
    traced.graph.lint()
    assert fx.GraphModule(traced, traced.graph).code == traced.code
