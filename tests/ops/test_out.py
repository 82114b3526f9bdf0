"""`out=`: what is written there, resized, named, and refused; results of odd dtypes and empty shapes."""

from __future__ import annotations

import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F

MATRIX = [[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [1.0, 0.0, 2.0]]


@pytest.mark.parametrize(
    "operate",
    [
        lambda x, out: torch.linalg.pinv(x, out=out),
        lambda x, out: torch.linalg.multi_dot([x, x, x], out=out),
        lambda x, out: F.avg_pool2d(x[None], 2, 1, out=out),
        lambda x, out: F.avg_pool3d(x[None, None], (1, 2, 2), out=out),
        lambda x, out: F.hardshrink(x, 1.5, out=out),
        lambda x, out: F.softshrink(x, 1.5, out=out),
    ],
)
def test_results_are_written_to_out(operate):
    x, empty = torch.tensor(MATRIX), torch.empty(0)
    expected = operate(x, None)
    assert operate(x, empty) is empty
    assert empty.shape == expected.shape and torch.allclose(empty, expected)
    strided = torch.empty(*expected.shape, 2)[..., 0]
    operate(x, strided)
    assert torch.allclose(strided, expected) and strided.stride(-1) == 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        wrong = operate(x, torch.empty(7))
    assert torch.allclose(wrong, expected) and "An output with one or more elements was resized" in str(seen[0].message)


def test_several_results_keep_their_names():
    x = torch.tensor(MATRIX)
    U, S, Vh = outs = (torch.empty(0), torch.empty(0), torch.empty(0))
    made = torch.linalg.svd(x, out=outs)
    assert made.S is S and type(made).__name__ == "linalg_svd_out"
    assert torch.allclose(U @ S.diag() @ Vh, x, atol=1e-5)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    assert str(torch.max(x, 0, out=(values, indices))).startswith("torch.return_types.max_out(\nvalues=tensor([2., 3., 2.])")
    assert type(torch.max(x, 0, out=(values, indices))) is torch.return_types.max_out
    rank = torch.empty(0, dtype=torch.int64)
    assert torch.linalg.matrix_rank(x, out=rank) is rank and rank.item() == 3
    hist, edges = torch.histogram(torch.tensor([0.0, 1, 1, 2]), 2, out=(torch.empty(0), torch.empty(0)))
    assert hist.tolist() == [1, 3] and edges.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.abs(torch.ones(2), out=torch.empty(2, dtype=torch.float64)), "Found dtype Double but expected Float"),
        (
            lambda: torch.neg(torch.ones(2, dtype=torch.complex64), out=torch.empty(2, dtype=torch.complex128)),
            "Found dtype ComplexDouble but expected ComplexFloat",
        ),
        (
            lambda: torch.abs(torch.ones(2, dtype=torch.complex64), out=torch.empty(2, dtype=torch.complex128)),
            "Found dtype ComplexDouble but expected ComplexFloat",
        ),
        (
            lambda: torch.floor(torch.ones(2, dtype=torch.complex64), out=torch.empty(2)),
            "floor is not supported for complex inputs",
        ),
        (lambda: torch.floor(torch.ones(2), out=torch.empty(2, dtype=torch.int64)), "Found dtype Long but expected Float"),
        (
            lambda: torch.arange(3, dtype=torch.float64, out=torch.empty(0)),
            "dtype Double does not match dtype of out parameter (Float)",
        ),
        (
            lambda: torch.zeros(2, dtype=torch.int64, out=torch.empty(0)),
            "dtype Long does not match dtype of out parameter (Float)",
        ),
        (
            lambda: torch.linalg.eigvalsh(torch.eye(2), out=torch.empty(2, dtype=torch.float64)),
            "Expected out tensor to have dtype float, but got double instead",
        ),
        (
            lambda: torch.ones(2, dtype=torch.int64).mvlgamma_(1),
            "result type Float can't be cast to the desired output type Long",
        ),
        (lambda: torch.ones(2, dtype=torch.complex64).abs_(), "In-place abs is not supported for complex tensors."),
    ],
)
def test_refusals(call, words):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == words


def test_halves_are_rounded_before_they_are_converted():
    a, b = torch.tensor([1.1], dtype=torch.bfloat16), torch.tensor([3.3], dtype=torch.bfloat16)
    assert torch.add(a, b, out=torch.empty(1)).item() == torch.add(a, b).item() == 4.40625
    assert torch.abs(torch.tensor([3 + 4j]), out=torch.empty(1, dtype=torch.complex64)).item() == 5


@pytest.mark.parametrize(
    ("make", "expected", "dtype"),
    [
        (
            lambda: torch.addr(torch.eye(2).bool(), torch.tensor([True, False]), torch.tensor([True, True])),
            [[True, True], [False, True]],
            torch.bool,
        ),
        (
            lambda: torch.tensordot(torch.ones(2, 1, dtype=torch.int32), torch.ones(3, 2, dtype=torch.int32), ([1], [0])),
            [[3, 3], [3, 3]],
            torch.int32,
        ),
        (lambda: torch.unravel_index(torch.tensor([5, 3], dtype=torch.uint8), (300, 4))[0], [1, 0], torch.int64),
        (lambda: torch.tensor(3, dtype=torch.int32).sum_to_size(()), 3, torch.int64),
        (lambda: torch.igamma(torch.tensor(1.0), torch.tensor(0.0)), 0.0, torch.float32),
        (lambda: torch.arange(0.0, -8.5, -4.0, dtype=torch.int32), [0, -4, -8], torch.int32),
        (lambda: torch.arange(0.5, 3.5, 1.0, dtype=torch.int64), [0, 1, 2], torch.int64),
        (lambda: torch.linalg.matrix_norm(torch.zeros(2, 3, 0), 1), [0.0, 0.0], torch.float32),
        (lambda: torch.linalg.norm(torch.zeros(0, 3), 2), 0.0, torch.float32),
    ],
)
def test_values_of_odd_calls(make, expected, dtype):
    made = make()
    assert made.tolist() == expected and made.dtype is dtype


def test_resizing_in_place():
    x = torch.arange(6.0).reshape(2, 3).T
    assert x.resize_(3, 2).stride() == (1, 3)  # what has the shape stays as it is
    last = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert torch.empty(0).resize_(2, 3, 4, 5, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    assert torch.empty(0).resize_as_(last).stride() == (60, 20, 5, 1)
    assert torch.empty(0).resize_as_(last, memory_format=torch.preserve_format).stride() == (60, 1, 15, 3)


def test_normal_complex_numbers_around_a_mean():
    made = torch.empty(20000, dtype=torch.complex64).normal_(5, 1)
    assert abs(made.real.mean().item() - 5) < 0.05 and abs(made.imag.mean().item() - 5) < 0.05


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({}, [[0, 159, 163, 10], [4, 112, 151, 105], [7, 65, 138, 200]]),
        ({"align_corners": True}, [[0, 170, 173, 10], [4, 120, 153, 105], [7, 69, 133, 200]]),
    ],
)
def test_bytes_are_resized_in_fixed_point(keywords, expected):
    x = torch.tensor([[[[0, 255, 10], [7, 100, 200]]]], dtype=torch.uint8)
    assert F.interpolate(x, size=(3, 4), mode="bilinear", **keywords).tolist() == [[expected]]
    assert F.interpolate(x, size=(2, 3), mode="bilinear", **keywords).tolist() == x.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.hstack([x, x], out=out),
        lambda x, out: torch.mvlgamma(x + 2, 1, out=out),
        lambda x, out: torch.add(x, x, out=out),
        lambda x, out: torch.cumsum(x, 0, out=out),
    ],
)
@pytest.mark.parametrize("which", [(True, False), (False, True)])
def test_out_takes_no_part_in_a_graph(call, which):
    x, out = torch.ones(2, requires_grad=which[0]), torch.zeros(2, requires_grad=which[1])
    with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic differentiation"):
        call(x, out)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x: torch.add(x, x, out=torch.ones(5, dtype=torch.int32)),
            "result type Float can't be cast to the desired output type Int",
        ),
        (
            lambda x: torch.topk(x, 1, out=(torch.empty(0), torch.empty(0, dtype=torch.int64), x)),
            "expected tuple of 2 elements but got 3",
        ),
        (lambda x: torch.topk(x, 1, out=1), "topk(): argument 'out' must be tuple of Tensors, not int"),
        (lambda x: torch.t_copy(x, out=(x,)), "t_copy(): argument 'out' must be Tensor, not tuple"),
        (lambda x: torch.fft.fft(x, out=torch.empty(0)), "fft expects a complex output tensor, but got Float"),
        (
            lambda x: torch.hstack([x, x], out=torch.empty(0, dtype=torch.int64)),
            "torch.cat(): input types can't be cast to the desired output type Long",
        ),
        (lambda x: torch.signbit(x, out=torch.empty(2, 2)), "signbit does not support non-boolean outputs."),
        (
            lambda x: torch.square(x.requires_grad_(), out=torch.empty(2, 2)),
            "pow(): functions with out=... arguments don't support automatic differentiation, but one "
            "of the arguments requires grad.",
        ),
        (
            lambda x: torch.softmax(x, 0, out=torch.empty(2, 2).requires_grad_()),
            "aten::softmax(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad.",
        ),
        (
            lambda x: torch.gather(x, 0, torch.zeros(1, 1, dtype=torch.int64), out=torch.empty(1, 1, device="meta")),
            "Expected out tensor to have device cpu, but got meta instead",
        ),
    ],
)
def test_an_out_that_is_refused_stays_as_it_was(call, words):
    x = torch.ones(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((RuntimeError, TypeError)) as caught:
            call(x)
    assert str(caught.value).split("\n")[0] == words
    assert x.shape == (2, 2) and x.detach().eq(1).all()


def test_an_operand_given_as_out_is_not_resized():
    x = torch.ones(2, 1)
    with pytest.raises(RuntimeError, match=r"output with shape \[2, 1\] doesn't match the broadcast shape \[2, 3\]"):
        torch.add(x, torch.ones(2, 3), out=x)
    assert x.shape == (2, 1)


def test_operators_without_a_derivative_write_to_out_whatever_their_operands_want():
    x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    assert torch.argmax(x, out=torch.empty((), dtype=torch.int64)).item() == 1
    assert torch.softmax(x, 0, out=torch.empty(3)).sum().item() == pytest.approx(1)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: torch.heaviside(x, x, out=out),
        lambda x, out: torch.softmax(x, 0, out=out),
        lambda x, out: torch.floor_divide(x, 2, out=out),
        lambda x, out: torch.alias_copy(x, out=out),
        lambda x, out: torch.histogram(x, 3, out=(out, torch.empty(4)))[0],
    ],
)
def test_what_has_no_derivative_is_recorded_as_such_in_out(write):
    x, out = torch.tensor([1.0, 3.0, 2.0], requires_grad=True), torch.zeros(3)
    for _ in range(2):
        assert write(x.detach(), out) is out and not out.requires_grad  # of which a plan is kept
    assert write(x, out).grad_fn.name() == "torch::autograd::NotImplemented"
    with pytest.raises(RuntimeError, match=r"derivative for aten::.* is not implemented"):
        out.sum().backward()
    with pytest.raises(RuntimeError, match=r"aten::.*\(\): functions with out=... arguments don't support automatic"):
        write(x.detach(), torch.zeros(3, requires_grad=True))
    with torch.no_grad():
        assert not write(x, torch.zeros(3)).requires_grad
    base = torch.zeros(2, 3)
    write(x, base[0])
    assert type(base.grad_fn).__name__ == "CopySlices"


@pytest.mark.parametrize(
    ("error", "words", "write"),
    [
        (NotImplementedError, "\"bitwise_not_cpu\" not implemented for 'Float'", lambda out: torch.bitwise_not(out, out=out)),
        (RuntimeError, "any only supports bool tensor for result, got: Float", lambda out: torch.any(out, out=out)),
        (RuntimeError, "nonzero: Expected out tensor to have scalar type Long", lambda out: torch.nonzero(out, out=out)),
    ],
)
def test_an_out_in_a_graph_is_refused_for_its_dtype(error, words, write):
    with pytest.raises(error, match=words):
        write(torch.ones(1, requires_grad=True) * 1)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: torch.add(x, 1, out=out),
        lambda x, out: torch.mul(x, x.T.contiguous().T, out=out),
        lambda x, out: torch.floor(x, out=out),
        lambda x, out: torch.lt(x, 2, out=out),
        lambda x, out: torch.clamp(x, 1, out=out),
        lambda x, out: torch.nan_to_num(x, out=out),
        lambda x, out: torch.atan2(x, x, out=out),
    ],
)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_resized_out_lies_as_the_operands_do(write):
    x = torch.arange(12.0).reshape(3, 4).t()
    expected = write(x, None).float()
    for out in (torch.empty(0), torch.empty(2)):
        assert write(x, out).stride() == (1, 4) and torch.equal(out, expected)
    assert write(x, torch.empty(4, 3)).stride() == (3, 1)


def test_a_resized_out_lies_as_the_result_of_a_factorization():
    x = torch.tensor(MATRIX)
    assert torch.linalg.inv(x, out=torch.empty(0)).stride() == torch.linalg.inv(x).stride()
    assert torch.linalg.inv(x, out=torch.empty(3, 3)).stride() == (3, 1)


def test_addbmm_in_place_takes_the_results_shape():
    x, a = torch.ones(()), torch.ones(2, 3, 4)
    x.addbmm_(a, torch.ones(2, 4, 5))
    assert x.shape == (3, 5) and x.eq(9).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.complex64])
def test_results_that_are_converted_to_the_dtype_of_out(dtype):
    x = torch.tensor([[0.5, 3.0], [2.0, -1.0]])
    calls = {
        "lerp": lambda out: torch.lerp(x, x + 1, 0.5, out=out),
        "diff": lambda out: torch.diff(x, out=out),
        "max": lambda out: torch.max(x, out=out),
        "min": lambda out: torch.min(x, out=out),
    }
    for name, call in calls.items():
        expected = call(None)
        assert call(torch.empty_like(expected, dtype=dtype)).tolist() == expected.to(dtype).tolist(), name
        with pytest.raises(RuntimeError, match=r"can't be cast to the desired output type Long|Expected canCast"):
            call(torch.empty_like(expected, dtype=torch.int64))
    for call in (
        lambda out: torch.lerp(x, x, x, out=out),
        lambda out: torch.clamp_min(x, 0, out=out),
        lambda out: torch.clamp_max(x, 0, out=out),
    ):
        with pytest.raises(RuntimeError, match=f"Found dtype {dtype.scalar_name} but expected Float"):
            call(torch.empty(2, 2, dtype=dtype))
    assert torch.clamp_min(x, x, out=torch.empty(2, 2, dtype=dtype)).dtype is dtype
