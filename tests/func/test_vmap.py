"""vmap: the same numbers as a loop over the examples, for operators of every kind; its errors and its random numbers."""

from __future__ import annotations

import importlib
import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.func import vmap

torch.manual_seed(0)
X, Y, M, W = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4, 5), torch.randn(5, 4)
IMAGES, KERNEL, SQUARE = torch.randn(3, 2, 4, 6, 6), torch.randn(8, 4, 3, 3), torch.randn(3, 4, 4)
CLASSES, PLACES = torch.randint(0, 4, (3, 2)), torch.randint(0, 5, (3, 4))


def overwritten(a):
    b = a.clone()
    b[0] = 1
    b[1:, 2] *= 2
    b[torch.tensor([1, 2])] = a[0]
    return b


def put(a, i):
    b = a.clone()
    b[i] = 5.0
    return b


CASES = {
    "add": (torch.add, X, Y),
    "shared operand": (lambda a: a + Y[0], X),
    "promotion of one number": (torch.mul, X[:, 0].double(), X),
    "sum": (lambda a: a.sum(), M),
    "sum of a number": (lambda a: a.sum(), X[:, 0]),
    "mean": (lambda a: a.mean(-1, keepdim=True), M),
    "max": (lambda a: a.max(), M),
    "argmax": (lambda a: a.argmax(), M),
    "max along": (lambda a: a.max(1).values, M),
    "var": (lambda a: a.var(True), M),
    "std": (lambda a: a.std(0), M),
    "prod": (lambda a: a.prod(), M),
    "norm": (lambda a: a.norm(), M),
    "softmax": (lambda a: a.softmax(0), M),
    "cumsum": (lambda a: a.cumsum(0), M),
    "logsumexp": (lambda a: a.logsumexp(0), M),
    "sort": (lambda a: a.sort(0).values, M),
    "topk": (lambda a: a.topk(2).values, M),
    "roll": (lambda a: a.roll(1, 0), M),
    "dot": (torch.dot, X, Y),
    "mm": (lambda a: a @ W, M),
    "mv": (torch.mv, M.mT, torch.randn(3, 4)),
    "outer": (torch.outer, X, Y),
    "matmul": (torch.matmul, M, torch.randn(3, 5, 2)),
    "vector matmul": (lambda a, b: a @ b, X, M),
    "einsum": (lambda a, b: torch.einsum("ij,i->j", a, b), M, X),
    "linear": (lambda a: F.linear(a, W, torch.ones(5)), X),
    "linear of own weights": (F.linear, torch.randn(3, 2, 4), torch.randn(3, 5, 4), torch.randn(3, 5)),
    "conv2d": (lambda a: F.conv2d(a, KERNEL, torch.ones(8), padding=1), IMAGES),
    "conv2d of one image": (lambda a: F.conv2d(a, KERNEL, padding="same"), IMAGES[:, 0]),
    "conv2d of own weights": (
        lambda a, w, b: F.conv2d(a, w, b, stride=2, groups=2),
        IMAGES,
        torch.randn(3, 8, 2, 3, 3),
        torch.randn(3, 8),
    ),
    "conv2d of a shared image": (lambda w: F.conv2d(IMAGES[0], w), torch.randn(3, 8, 4, 3, 3)),
    "conv_transpose2d": (F.conv_transpose2d, IMAGES, torch.randn(3, 4, 8, 3, 3)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 2), IMAGES),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 2), IMAGES[:, 0]),
    "interpolate": (lambda a: F.interpolate(a, scale_factor=2), IMAGES),
    "cross_entropy": (F.cross_entropy, M, PLACES),
    "cross_entropy of one": (F.cross_entropy, X, CLASSES[:, 0]),
    "cross_entropy with all": (
        lambda a, t: F.cross_entropy(a, t, torch.arange(5.0) + 1, label_smoothing=0.1, ignore_index=2),
        M,
        PLACES,
    ),
    "mse_loss": (F.mse_loss, X, Y),
    "bce": (F.binary_cross_entropy, X.sigmoid(), Y.sigmoid()),
    "layer_norm": (lambda a: F.layer_norm(a, (5,), torch.ones(5) * 2, torch.ones(5)), M),
    "layer_norm of own weights": (lambda a, w: F.layer_norm(a, (5,), w), M, torch.randn(3, 5)),
    "group_norm": (lambda a: F.group_norm(a, 2, torch.ones(4) * 2), IMAGES),
    "batch_norm in evaluation": (
        lambda a: F.batch_norm(a, torch.ones(4), torch.ones(4) * 2, torch.ones(4), torch.zeros(4)),
        IMAGES,
    ),
    "batch_norm in training": (lambda a: F.batch_norm(a, None, None, training=True), IMAGES),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), torch.randn(3, 2, 4, 5)),
    "embedding": (lambda i: F.embedding(i, W), CLASSES),
    "embedding of own weights": (lambda w, i: F.embedding(i, w), M, CLASSES),
    "index": (lambda a: a[:, 1:3], M),
    "index by a number each": (lambda a, i: a[i], M, torch.tensor([0, 1, 2])),
    "index by tensors apart": (lambda a, i: a[i, :, i], torch.randn(3, 4, 2, 4), CLASSES),
    "index of a constant": (lambda i: W[i], CLASSES),
    "index by a mask": (lambda a: a[torch.tensor([True, False, True, True])], M),
    "assignment": (overwritten, M),
    "assignment at a number each": (put, X, torch.tensor([1, 2, 0])),
    "where": (lambda a, b: torch.where(a > 0, a, b), X, Y),
    "masked_fill": (lambda a: a.masked_fill(a > 0, 0), X),
    "cat": (lambda a: torch.cat([a, W], 1), torch.randn(3, 5, 2)),
    "stack": (lambda a, b: torch.stack([a, b], -1), X, Y),
    "gather": (lambda a, i: a.gather(0, i), X, CLASSES),
    "scatter": (lambda a, i: torch.zeros(4).scatter_add(0, i, a), X, PLACES % 4),
    "index_put of a constant": (lambda i: torch.zeros(4).index_put((i,), torch.ones(2)), CLASSES),
    "index_fill of a constant": (lambda i: torch.zeros(4).index_fill(0, i, 2.0), CLASSES),
    "index_add": (lambda a, i: torch.zeros(5).index_add(0, i, a), X, PLACES),
    "take": (lambda a, i: a.take(i), M, CLASSES),
    "reshape": (lambda a: a.T.reshape(-1), M),
    "flatten": (lambda a: a.flatten(), IMAGES),
    "split": (lambda a: a.split(2)[1], M),
    "unbind": (lambda a: list(a)[1], M),
    "expand": (lambda a: a.expand(2, 4), X),
    "unfold": (lambda a: a.unfold(0, 2, 1), M),
    "diagonal": (lambda a: a.diagonal(), M),
    "in place": (lambda a: a.clone().add_(1).mul_(a), X),
    "pow": (lambda a: a**2, X),
    "inverse": (torch.linalg.inv, SQUARE),
    "solve": (torch.linalg.solve, SQUARE, X),
    "svdvals": (torch.linalg.svdvals, M),
    "fft": (lambda a: torch.fft.fft(a).abs(), M),
    "zeros_like": (lambda a: torch.zeros_like(a) + a, X),
    "imag": (lambda a: torch.complex(a, a).imag, X),
    "nested": (lambda a: vmap(lambda b: b.sum() * a.sum())(a), M),
    "real Python": (lambda a: sum(x * x for x in a), X),
}


@pytest.mark.parametrize("name", CASES)
def test_vmap_is_a_loop(name):
    function, *given = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = vmap(function)(*given)
    torch.testing.assert_close(made, torch.stack([function(*[x[i] for x in given]) for i in range(3)]))


def test_what_has_no_rule_runs_for_each_example():
    with pytest.warns(UserWarning, match="There is a performance drop because"):
        made = vmap(lambda a: a.put(torch.tensor([0]), torch.tensor([7.0])))(X)
    torch.testing.assert_close(made[:, 0], torch.full((3,), 7.0))
    torch.testing.assert_close(made[:, 1:], X[:, 1:])


def test_dimensions_structures_and_chunks():
    torch.testing.assert_close(vmap(torch.sin, in_dims=1, out_dims=1)(X), X.sin())
    torch.testing.assert_close(vmap(torch.sin, in_dims=-1)(X), X.T.sin())
    made = vmap(
        lambda d, c: {"a": d["x"] * d["y"][0] + c, "b": c}, in_dims=({"x": 0, "y": [1]}, None), out_dims={"a": 0, "b": None}
    )({"x": X, "y": [Y.T]}, torch.ones(4))
    torch.testing.assert_close(made["a"], X * Y + 1)
    assert made["b"].shape == (4,)
    torch.testing.assert_close(vmap(lambda a: (a, a.sum()), chunk_size=2)(X)[1], X.sum(1))
    assert vmap(lambda a: torch.ones(2))(X).shape == (3, 2)
    assert vmap(lambda a: a * 2)(torch.ones(0, 3)).shape == (0, 3)
    assert torch.vmap is vmap


ITEM = r"vmap: It looks like you're calling .item\(\) on a Tensor"
RANDOM = "vmap: called random operation while in randomness error mode"
TARGET = "vmap: inplace arithmetic"
ERRORS = [
    (
        lambda: vmap(torch.sin)(3),
        ValueError,
        r"vmap\(sin, in_dims=0, ...\)\(<inputs>\): Got in_dim=0 for an input but the input is of type",
    ),
    (lambda: vmap(torch.sin, in_dims="a")(X), ValueError, "expected `in_dims` to be int or a"),
    (lambda: vmap(torch.add, in_dims=(0,))(X, X), ValueError, "in_dims is not compatible with the structure of `inputs`"),
    (lambda: vmap(torch.add, in_dims=(None, None))(X, X), ValueError, "vmap: Expected at least one Tensor to vmap over"),
    (
        lambda: vmap(torch.sin, in_dims=2)(X),
        ValueError,
        "Got in_dim=2 for some input, but that input is a Tensor of dimensionality 2",
    ),
    (lambda: vmap(torch.add, in_dims=(0, 1))(X, X), ValueError, r"got sizes \[3, 4\] for the mapped dimension"),
    (lambda: vmap(lambda: X)(), ValueError, "got no inputs"),
    (lambda: vmap(lambda x: 3)(X), ValueError, r"`<lambda>` must only return Tensors, got type <class 'int'>"),
    (lambda: vmap(lambda x: x, out_dims=(0, 0))(X), ValueError, "out_dims is not compatible with the structure of `outputs`"),
    (lambda: vmap(lambda x: x, out_dims=None)(X), ValueError, "can not return a BatchedTensor when out_dim is None"),
    (lambda: vmap(lambda x: x, out_dims=5)(X), IndexError, r"expected to be in range of \[-2, 1\], but got 5"),
    (lambda: vmap(lambda x: x, randomness="foo")(X), RuntimeError, "Only allowed values for randomness"),
    (lambda: vmap(lambda x: x, chunk_size=0)(X), ValueError, "chunk_size should be None or greater than 0"),
    (lambda: vmap(lambda x: x + torch.rand(4))(X), RuntimeError, RANDOM),
    (lambda: vmap(F.dropout)(X), RuntimeError, RANDOM),
    (lambda: vmap(torch.rand_like)(X), RuntimeError, RANDOM),
    (lambda: vmap(lambda x: x.sum().item())(X), RuntimeError, ITEM),
    (lambda: vmap(lambda x: float(x.sum()))(X), RuntimeError, ITEM),
    (lambda: vmap(lambda x: x if x.sum() > 0 else -x)(X), RuntimeError, "data-dependent control flow"),
    (lambda: vmap(lambda x: x.numpy())(X), RuntimeError, "doesn't have storage"),
    (lambda: vmap(lambda x: x.nonzero())(X), RuntimeError, "output dynamic shape. Attempted to vmap over aten::nonzero"),
    (lambda: vmap(lambda x: x[x > 0])(X), RuntimeError, "Attempting to batch over indexing with a boolean mask"),
    (
        lambda: vmap(lambda x: torch.zeros(4).add_(x))(X),
        RuntimeError,
        r"output with shape \[4\] doesn't match the broadcast shape \[3, 4\]",
    ),
    (lambda: vmap(lambda x: torch.zeros(4).copy_(x))(X), RuntimeError, TARGET),
    (lambda: vmap(lambda x: torch.zeros(4).mul_(x.sum()))(X), RuntimeError, TARGET),
    (
        lambda: vmap(lambda x: torch.sin(x, out=torch.empty(4)))(X),
        RuntimeError,
        "Batching rule not implemented for aten::sin.out",
    ),
    (lambda: vmap(lambda x: x.requires_grad_())(X), RuntimeError, "You are attempting to call Tensor.requires_grad_"),
]


@pytest.mark.parametrize("call, kind, words", ERRORS)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_a_tensor_that_outlives_its_vmap_is_refused():
    kept = []
    vmap(lambda x: kept.append(x) or x)(X)
    with pytest.raises(RuntimeError, match="a tensor of a transform that has ended"):
        kept[0] + 1


def test_reading_memory_past_the_interception_fails():
    def read(x):
        from flambeau.core.tensor.create import array_of

        return torch.from_numpy(array_of(x))

    with pytest.raises(RuntimeError, match="device meta"):
        vmap(read)(X)


def test_random_numbers():
    torch.manual_seed(3)
    expected = torch.rand(3, 2)
    torch.manual_seed(3)
    torch.testing.assert_close(vmap(lambda x: torch.rand(2), randomness="different")(X), expected)
    torch.manual_seed(3)
    torch.testing.assert_close(vmap(lambda x: torch.rand(2), randomness="same")(X), expected.reshape(-1)[:2].expand(3, 2))
    ones = torch.ones(3, 64)
    same = vmap(lambda x: F.dropout(x, 0.5), randomness="same")(ones)
    different = vmap(lambda x: F.dropout(x, 0.5), randomness="different")(ones)
    assert torch.equal(same[0], same[1]) and not torch.equal(different[0], different[1])
    assert set(different.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(*vmap(lambda x: torch.randn_like(x), randomness="different")(ones)[:2])
    nested = vmap(lambda x: vmap(lambda y: torch.rand(2), randomness="different")(x), randomness="different")(X)
    assert nested.shape == (3, 4, 2) and nested.unique().numel() == 24


def test_a_wrong_call_by_keywords_alone_keeps_its_words():
    with pytest.raises(RuntimeError, match="Padding length must be divisible by 2"):
        vmap(lambda a: torch.nn.functional.pad(input=a, pad=(1,)))(torch.ones(2, 3))


def test_random_operators_with_parameters_in_tensors() -> None:
    x = torch.ones(2, 3)
    for operator in (torch._standard_gamma, torch.poisson, torch._sample_dirichlet):
        made = vmap(operator, randomness="different")(x)
        assert made.shape == (2, 3)
        assert vmap(lambda t, _: operator(t), (None, 0), randomness="different")(x, x).shape == (2, 2, 3)
        with pytest.raises(RuntimeError, match="does not currently support same randomness with a batched tensor"):
            vmap(operator, randomness="same")(x)
    with pytest.raises(RuntimeError, match="inplace bernoulli"):
        vmap(lambda a, p: a.bernoulli_(p), (None, 0), randomness="different")(torch.ones(3), torch.rand(2, 3))
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor"):
        vmap(lambda a, p: a.bernoulli_(p), randomness="same")(torch.ones(2, 3), torch.rand(2, 3))
    for draw in (lambda a: torch.rand(3, out=a), lambda a: torch.normal(0.0, 1.0, (3,), out=a),
                 lambda a: torch.randperm(3, out=a)):  # fmt: skip
        before = x.clone()
        with pytest.raises(RuntimeError, match="calling out variants of random operations"):
            vmap(draw, randomness="different")(x)
        assert torch.equal(x, before)


def test_memory_of_examples() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    made = vmap(lambda a: a.as_strided((2,), (1,), a.storage_offset() + 1))(x[1:])
    assert made.tolist() == [[5.0, 6.0], [9.0, 10.0]]
    with pytest.raises(RuntimeError, match=r"some memory in range \[0, 5\], but `tensor` can only access"):
        vmap(lambda a: a.as_strided((3,), (2,), 0))(x)  # would reach into the next example
    assert vmap(lambda a: a.new_empty_strided((2, 3), (7, 2)))(x).stride() == (12, 7, 2)
    assert torch.equal(vmap(lambda a: a.new_empty_strided((4,), (1,)).copy_(a))(x), x)
    with pytest.raises(RuntimeError, match=r"mutating directly with `.data` under vmap"):
        vmap(lambda a: setattr(a, "data", torch.ones(4)))(x)


def test_in_place_functions_without_a_method() -> None:
    x = torch.linspace(-2, 2, 6).reshape(2, 3)
    assert torch.equal(vmap(lambda a: torch.nn.functional.celu(a, inplace=True))(x.clone()), torch.nn.functional.celu(x))


def test_distributions_are_validated_for_all_examples() -> None:
    normal = torch.distributions.Normal
    assert vmap(lambda m: normal(m, 1.0).log_prob(torch.tensor(0.0)))(torch.zeros(3)).shape == (3,)
    with pytest.raises(ValueError, match="found invalid values"):
        vmap(lambda s: normal(0.0, s).log_prob(torch.tensor(0.0)))(torch.tensor([[1.0], [-1.0]]))


def test_shapes_that_take_a_copy() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    for reshape in (lambda a: torch.reshape(a, (8,)), lambda a: a.flatten(), lambda a: torch.ravel(a)):
        made = vmap(reshape, 1)(x)
        assert made.device.type == "cpu" and torch.equal(made, x.movedim(1, 0).reshape(3, 8))
    tangents = torch.func.jvp(lambda a: torch.reshape(a, (8,)) ** 2, (x[:, 0],), (x[:, 1],))[1]
    assert torch.equal(tangents, (2 * x[:, 0] * x[:, 1]).reshape(8))


def test_tangents_of_the_median_of_all_elements() -> None:
    jacobian = torch.func.jacfwd(torch.median)(torch.tensor([[3.0, 1.0, 2.0]]))
    assert jacobian.tolist() == [[0, 0, 1]]
    assert vmap(torch.nanmedian)(torch.tensor([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])).tolist() == [2, 5]


def test_programs_may_put_their_own_steps_in_the_place_of_vmaps(monkeypatch):
    steps = importlib.import_module("flambeau._functorch.vmap")
    seen = []

    def unwrap(outputs, out_dims, level, size, func):
        seen.append((level, size))
        return steps._maybe_remove_batch_dim(steps._get_name(func), outputs, level, size, out_dims)

    created = steps._create_batched_inputs
    monkeypatch.setattr(steps, "_unwrap_batched", unwrap)
    monkeypatch.setattr(steps, "_create_batched_inputs", lambda dims, given, *rest: created(dims, [given[0] * 2], *rest))
    assert torch.vmap(lambda x: x + 1, out_dims=-1)(torch.arange(3.0)).tolist() == [1, 3, 5] and seen == [(1, 3)]
    monkeypatch.undo()
    assert torch.vmap(lambda x: x + 1)(torch.arange(3.0)).tolist() == [1, 2, 3] and len(seen) == 1
