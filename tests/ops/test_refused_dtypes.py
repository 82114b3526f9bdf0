"""Calls that PyTorch refuses for their dtype, and which of several mistakes of a call is named."""

import pytest

import flambeau as torch

F = torch.nn.functional


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(dtype=torch.int64),
        lambda x: x.prod(0, dtype=torch.int64),
        lambda x: x.cumsum(0, dtype=torch.int64),
        lambda x: torch.nansum(x, dtype=torch.int64),
        lambda x: torch.arange(3).masked_fill(torch.tensor([True, False, True]), x[0, 0]),
    ],
)
def test_results_of_whole_numbers_are_not_recorded(call):
    x = torch.ones(2, 3, requires_grad=True)
    for _ in range(2):  # the second call finds its plan
        with pytest.raises(RuntimeError, match="Autograd not support dtype: Long"):
            call(x)
    with torch.no_grad():
        assert call(x).dtype is torch.int64


def test_whole_numbers_that_are_written_to_stay_in_the_graph():
    x = torch.ones(2, 3, requires_grad=True)
    counts = torch.arange(3)
    assert counts.index_fill_(0, torch.tensor([0]), x[0, 0]).requires_grad
    assert counts.tolist() == [1, 1, 2]
    with pytest.raises(RuntimeError, match="Autograd not support dtype: Long"):
        counts[torch.tensor([0])]


@pytest.mark.parametrize(
    "name, call",
    [
        ("silu", F.silu),
        ("nan_to_num", torch.nan_to_num),
        ("slice_scatter", lambda z: torch.slice_scatter(z, z[:1], 0, 0, 1)),
        ("select_scatter", lambda z: torch.select_scatter(z, z[0], 0, 0)),
        ("scatter_reduce", lambda z: z.scatter_reduce(0, torch.zeros(1, 1, dtype=torch.int64), z, "sum")),
        ("soft_margin_loss", lambda z: F.soft_margin_loss(z, z.detach())),
    ],
)
def test_complex_results_without_a_gradient_are_not_recorded(name, call):
    z = torch.ones(2, 2, dtype=torch.complex64)
    assert call(z).dtype is torch.complex64
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"^{name} does not support automatic differentiation for outputs with complex"):
            call(z.requires_grad_())


@pytest.mark.parametrize(
    "name", ["ndtri", "erfcx", "log_ndtr", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "bessel_j0"]
)
@pytest.mark.parametrize("dtype, title", [(torch.float16, "Half"), (torch.bfloat16, "BFloat16")])
def test_special_functions_of_wide_floats(name, dtype, title):
    function = getattr(torch.special, name)
    with pytest.raises(NotImplementedError, match=f"\"{name}_cpu\" not implemented for '{title}'"):
        function(torch.ones(2, dtype=dtype))
    assert function(torch.full((2,), 0.5)).dtype is torch.float32


def test_modified_bessel_functions():
    x = torch.tensor([0.0, 1.0, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.allclose(torch.special.modified_bessel_i0(x), torch.special.i0(x))
    assert torch.allclose(torch.special.modified_bessel_i1(x), torch.special.i1(x))
    assert torch.special.i1(x).requires_grad


@pytest.mark.parametrize(
    "error, words, call",
    [
        (NotImplementedError, '"prelu_cpu" not', lambda b, z: F.prelu(b, b[0, :1])),
        (RuntimeError, "Subtraction, the `-` operator, with a bool", lambda b, z: F.tanhshrink(b)),
        (RuntimeError, "Subtraction, the `-` operator, with a bool", lambda b, z: F.poisson_nll_loss(b, b)),
        (RuntimeError, "Negation, the `-` operator, on a bool", lambda b, z: F.soft_margin_loss(b, b)),
        (RuntimeError, "with two bool tensors", lambda b, z: F.hinge_embedding_loss(b, b)),
        (NotImplementedError, '"binary_cross_entropy" not', lambda b, z: F.binary_cross_entropy(b, b)),
        (
            NotImplementedError,
            "\"log_sigmoid_cpu\" not implemented for 'Int'",
            lambda b, z: F.multilabel_soft_margin_loss(b.int(), b.float()),
        ),
        (
            RuntimeError,
            "result type Float can't be cast to the desired output type Int",
            lambda b, z: F.soft_margin_loss(b.int(), b.int()),
        ),
        (NotImplementedError, '"dot" not', lambda b, z: torch.dot(b[0, :0], b[0, :0])),
        (NotImplementedError, '"cross" not', lambda b, z: torch.linalg.cross(b, b)),
        (NotImplementedError, '"trace" not', lambda b, z: torch.trace(b[0])),
        (NotImplementedError, '"cumsum_out_cpu" not', lambda b, z: b.cumsum_(0)),
        (NotImplementedError, '"reflection_pad1d" not', lambda b, z: F.pad(b, (1, 1), mode="reflect")),
        (NotImplementedError, '"linspace_cpu" not', lambda b, z: torch.histc(b)),
        (RuntimeError, "value cannot be converted to type uint8_t", lambda b, z: torch.histc(b.to(torch.uint8), 4, -2, 2)),
        (RuntimeError, "doesn't handle types other than float and double", lambda b, z: torch.linalg.matrix_rank(b.int())),
        (RuntimeError, r"norm\(\): input dtype", lambda b, z: torch.dist(b.int(), b.int())),
        (RuntimeError, "selected number k", lambda b, z: torch.kthvalue(z, 9)),
        (RuntimeError, "selected index k", lambda b, z: torch.topk(z, 9)),
        (IndexError, "Dimension out of range", lambda b, z: torch.sort(z, 9)),
        (IndexError, "Dimension out of range", lambda b, z: torch.cummax(z, 9)),
        (IndexError, "Dimension out of range", lambda b, z: torch.logcumsumexp(b, 9)),
        (IndexError, "Dimension out of range", lambda b, z: torch.trapezoid(b, dim=9)),
        (IndexError, "non-zero size", lambda b, z: torch.median(b[:, :0], 1)),
        (RuntimeError, "Expected A and B to have the same dtype", lambda b, z: torch.linalg.solve(b[0].float(), b.double())),
        (RuntimeError, "must be non-empty", lambda b, z: torch.nanquantile(b[:0], 0.5)),
    ],
)
def test_which_mistake_is_named(error, words, call):
    with pytest.raises(error, match=words):
        call(torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.complex64))


def test_complex_targets_of_real_scores():
    scores, targets = torch.tensor([[0.5, -1.0]]), torch.tensor([[1 + 1j, 0.5j]])
    sigmoid = torch.sigmoid(scores)
    expected = -(targets * sigmoid.log() + (1 - targets) * (1 - sigmoid).log())
    assert torch.allclose(F.binary_cross_entropy_with_logits(scores, targets, reduction="none"), expected)
    assert torch.allclose(F.multilabel_soft_margin_loss(scores, targets), expected.mean())


def test_the_step_of_a_stable_sort_has_its_overload():
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    assert type(torch.sort(x).values.grad_fn).__name__ == "SortBackward0"
    assert type(torch.sort(x, stable=False).values.grad_fn).__name__ == "SortBackward1"


def test_out_that_is_read_is_refused_before_anything_else():
    words = "refer to a single memory location"
    x, none = torch.ones(3, 4), torch.ones(2, 0)
    for call in (
        lambda: torch.rsqrt(x, out=x.t()),
        lambda: torch.cat([none], 0, out=none),
        lambda: torch.index_select(none, 0, torch.tensor([0]), out=none),
        lambda: torch.add(x[0, 1:], 1, out=x[0, :-1]),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(TypeError, match="can't be cast"):
        torch.cat([torch.ones(2, dtype=torch.bool), x[0]], 0, out=torch.ones(2, dtype=torch.bool))


@pytest.mark.parametrize(
    "error, words, call",
    [
        (RuntimeError, "zero-dimensional tensor", lambda: torch.cat([torch.ones(())], -1)),
        (IndexError, "Dimension out of range", lambda: torch.cat([torch.ones(2)], -9)),
        (IndexError, "index is out of bounds for dimension with size 0", lambda: torch.ones(0, 2, 0)[torch.tensor([[0]])]),
        (
            IndexError,
            "index is out of bounds for dimension with size 0",
            lambda: torch.ones(0, 3).index_put((torch.tensor([0]),), torch.ones(0, 3)),
        ),
        (RuntimeError, "self indexing axis dim should be positive", lambda: F.embedding(torch.tensor([0]), torch.ones(0, 3))),
        (IndexError, "Dimension specified as 0", lambda: torch.mv(torch.ones(()), torch.ones(1))),
    ],
)
def test_mistakes_in_sizes(error, words, call):
    with pytest.raises(error, match=words):
        call()
    assert torch.ones(0, 3).roll(1, -9).shape == (0, 3)  # of nothing, nothing is looked at


TRUE, I, WHOLE = torch.ones(2, 2, dtype=torch.bool), torch.full((2, 2), 1j), torch.ones(2, 2, dtype=torch.int64)
FIRST = torch.zeros(1, dtype=torch.int64)


@pytest.mark.parametrize(
    "kernel, title, call",
    [
        ("addmm_impl_cpu_", "Bool", lambda: F.linear(TRUE, TRUE)),
        ("addmm_impl_cpu_", "Bool", lambda: F.linear(TRUE, TRUE, TRUE[0])),
        ("addcmul_cpu_out", "Bool", lambda: torch.addcmul(TRUE, TRUE, TRUE)),
        ("nansum_cpu", "ComplexFloat", lambda: torch.nansum(torch.ones(2), dtype=torch.complex64)),
        ("im2col_out_cpu", "Long", lambda: F.unfold(WHOLE[None], 1)),
        ("col2im_out_cpu", "Long", lambda: F.fold(WHOLE, (2, 1), 1)),
        ("avg_pool3d_out_frame", "Half", lambda: F.avg_pool3d(torch.ones(1, 1, 2, 2, 2).half(), 1)),
        ("avg_pool3d_out_frame", "Half", lambda: F.local_response_norm(torch.ones(1, 2, 2, 2).half(), 2)),
        ("avg_pool2d", "Int", lambda: F.local_response_norm(torch.ones(1, 2, 2).int(), 2)),
        ("scatter_gather_tensor_cpu_reduce_amin", "ComplexFloat", lambda: I[0].scatter_reduce(0, FIRST, I[1], "amin")),
        ("scatter_gather_tensor_cpu_reduce_mean", "Bool", lambda: TRUE[0].scatter_reduce(0, FIRST, TRUE[1], "mean")),
        ("index_func_", "ComplexFloat", lambda: I[0].index_reduce(0, FIRST, I[1, :1], "mean")),
        (
            "index_reduce_func_exclude_input_init",
            "Bool",
            lambda: TRUE[0].index_reduce(0, FIRST, TRUE[1, :1], "prod", include_self=False),
        ),
        ("maximum_cpu", "ComplexFloat", lambda: torch.ones(2).clamp(min=I[0])),
        ("clamp_cpu", "ComplexFloat", lambda: torch.ones(2).clamp(I[0], I[0])),
    ],
)
def test_kernels_name_the_dtype_that_they_refuse(kernel, title, call):
    with pytest.raises(NotImplementedError) as caught:
        call()
    assert str(caught.value) == f"\"{kernel}\" not implemented for '{title}'"


@pytest.mark.parametrize("shape", [(2,), (3, 2), (0, 2)])
def test_only_three_floats_are_seen_as_complex(shape):
    with pytest.raises(RuntimeError, match=r"only supported for half, float and double tensors, .*: BFloat16"):
        torch.view_as_complex(torch.ones(shape, dtype=torch.bfloat16))
    assert torch.view_as_complex(torch.ones(shape)).shape == shape[:-1]


def test_where_nothing_is_compared_nothing_is_refused():
    values, places = torch.cummax(torch.ones(0, 3), dim=-9)
    assert values.shape == places.shape == (0, 3) and places.dtype is torch.int64
    for x in (torch.tensor(True), torch.tensor(1j)):
        value, place = torch.kthvalue(x, 1)
        assert value.item() == x.item() and place.item() == 0
    none = torch.tensor([], dtype=torch.int64)
    assert I[0].scatter_reduce(0, none, I[1], "amax", include_self=False).tolist() == [1j, 1j]
