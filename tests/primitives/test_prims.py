"""torch.ops.prims: what the primitive operators compute, refuse, and are to modes and to autograd."""

import math

import pytest

import flambeau as torch
import flambeau._prims as prims
from flambeau._prims_common import RETURN_TYPE
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils._python_dispatch import TorchDispatchMode

A = torch.arange(24.0).reshape(2, 3, 4)
CPU = torch.device("cpu")
RANGE = {"device": CPU, "requires_grad": False}

VALUES = [
    (lambda: prims.add(torch.ones(2), 2), [3.0, 3.0]),
    (lambda: prims.add(torch.ones(2, dtype=torch.int32), 2.5), [3.5, 3.5]),
    (lambda: prims.add(2, 3), 5),
    (lambda: prims.mul(torch.ones(2), 1 + 1j), [1 + 1j, 1 + 1j]),
    (lambda: prims.div(torch.tensor([7, -7]), 2), [3, -3]),
    (lambda: prims.div(torch.tensor([7.0, -7.0]), 2), [3.5, -3.5]),
    (lambda: prims.cbrt(torch.tensor([-8.0, 8.0, 0.0])), [-2.0, 2.0, 0.0]),
    (lambda: prims.where(torch.tensor([True, False]), torch.ones(2), 3.0), [1.0, 3.0]),
    (lambda: prims.maximum(2, torch.tensor([1.0, 3.0])), [2.0, 3.0]),
    (lambda: prims.shift_right_arithmetic(torch.tensor([1, -4]), torch.tensor([1, 1])), [0, -2]),
    (lambda: prims.broadcast_in_dim(torch.tensor([[1.0, 2.0]]), (2, 2), (0, 1)), [[1.0, 2.0], [1.0, 2.0]]),
    (lambda: prims.iota(3, start=5, step=-1, dtype=torch.int32, **RANGE), [5, 4, 3]),
    (lambda: prims.sum(A, (0,))[0], [12.0, 14.0, 16.0, 18.0]),
    (lambda: prims.prod(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (0, 1)), 24.0),
    (lambda: prims.amax(A, (0, 1)), [20.0, 21.0, 22.0, 23.0]),
    (lambda: prims.var(torch.tensor([1.0, 3.0]), (0,), correction=0), 1.0),
    (lambda: prims.rev(torch.tensor([1, 2]), (0,)), [2, 1]),
    (lambda: prims.minimum_value(torch.int8), -128),
    (lambda: prims.fft_c2r(prims.fft_r2c(A, dim=(2,), onesided=True), dim=(2,), last_dim_size=4)[0, 0], [0.0, 4.0, 8.0, 12.0]),
    (lambda: prims.bessel_i0e(torch.tensor([0.0, 1.0])), [1.0, 0.46575961]),
    (lambda: prims.expand_dims(A, (0, 2)).shape, (1, 2, 1, 3, 4)),
    (lambda: prims.collapse(A.transpose(0, 1), 0, 1).shape, (6, 4)),
    (lambda: prims.split_dim(A, 2, 2).shape, (2, 3, 2, 2)),
    (lambda: prims.convert_element_type(A[:, :, ::2], torch.int64).stride(), (6, 2, 1)),
    (lambda: prims.add(A.transpose(0, 1), A.transpose(0, 1)).stride(), (4, 12, 1)),
    (lambda: prims.copy_strided(A, (1, 2, 6)).stride(), (1, 2, 6)),
    (lambda: prims.empty_permuted((2, 3, 4), (0, 2, 1), dtype=torch.float32, **RANGE).stride(), (12, 1, 3)),
]


@pytest.mark.parametrize("call, expected", VALUES)
def test_value(call, expected):
    made = call()
    if isinstance(made, torch.Tensor):
        torch.testing.assert_close(made, torch.as_tensor(expected), check_dtype=False)
    else:
        assert made == expected


REFUSED = [
    (lambda: prims.add(torch.ones(2), torch.ones(3)), RuntimeError, "Shape torch.Size([3]) is not the expected shape"),
    (
        lambda: prims.add(torch.ones(2), torch.ones(2, dtype=torch.int32)),
        RuntimeError,
        "Tensor with dtype torch.int32 is not the expected dtype of torch.float32!",
    ),
    (lambda: prims.add(torch.ones(2, device="meta"), torch.ones(3)), RuntimeError, "Tensor on device cpu is not on the expected"),
    (lambda: prims.sum(A, (-1,)), AssertionError, "idx -1 is out of bounds for rank 3"),
    (lambda: prims.sum(A, (0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda: prims.transpose(A, (0, 1, 1)), ValueError, "Received an invalid permutation, [0, 1, 1]!"),
    (lambda: prims.broadcast_in_dim(A, (2, 3, 5), (0, 1, 2)), RuntimeError, "4 must be broadcastable to 5"),
    (lambda: prims.broadcast_in_dim(A, (2, 3, 4), (0, 2, 1)), AssertionError, "must be strictly ascending: 1 <= 2"),
    (lambda: prims.collapse_view(A.transpose(0, 1), 0, 2), RuntimeError, "no such view exists"),
    (lambda: prims.split_dim(A, 2, 3), ValueError, "divides it with a remainder"),
    (lambda: prims.squeeze(A, (0,)), AssertionError, "Cannot squeeze dimension 0 with size 2 (must be 1)"),
    (lambda: prims.reshape(A, (6, 5)), ValueError, "24 elements to a shape with 30 elements"),
    (lambda: prims.as_strided(A, (200,), (1,), 0), ValueError, "requires a storage of size 200"),
    (lambda: prims.where(A, A, A), RuntimeError, "boolean tensor, but got a tensor with dtype Float"),
    (lambda: prims.imag(A), RuntimeError, "Only complex dtype is supported"),
    (lambda: prims.iota(3, start=0, step=0, dtype=torch.int64, **RANGE), RuntimeError, "step must be nonzero"),
    (lambda: prims.copy_to(torch.zeros(2, 2), torch.ones(3, 2)), RuntimeError, "6 elements to a tensor with 4 elements"),
    (lambda: prims.xor_sum(A, (0,)), NotImplementedError, "xor_sum"),
    (lambda: prims.shift_right_logical(1, 2), NotImplementedError, "bitwise_right_shift"),
]


@pytest.mark.parametrize("call, error, words", REFUSED)
def test_refusal(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)


def test_operators_are_overloads_with_schemas():
    assert prims.sin is torch.ops.prims.sin.default and prims.view_element_type is torch.ops.prims.view_of_dtype.default
    assert prims.sin.schema == "(Tensor self) -> Tensor" and str(prims.sin._schema) == "prims::sin(Tensor self) -> Tensor"
    kinds = [op.return_type for op in (prims.sin, prims.transpose, prims.copy_to, torch.ops.prims._sink_tokens.default)]
    assert kinds == [RETURN_TYPE.NEW, RETURN_TYPE.VIEW, RETURN_TYPE.INPLACE, RETURN_TYPE.NONE]
    assert torch.Tag.nondeterministic_seeded in prims.normal.tags


def test_whoever_asks_first_gets_the_operators_that_are_defined(run_python):
    program = """
import flambeau as torch
asked_first = torch.ops.prims.sin.default
import flambeau._prims as prims
assert prims.sin is asked_first is torch.ops.prims.sin.default and prims.sin.schema == "(Tensor self) -> Tensor"
"""
    answer = run_python("-c", program)
    assert answer.returncode == 0, answer.stderr


def test_views_share_memory_and_copies_do_not():
    assert prims.transpose(A, (2, 1, 0))._is_view() and prims.view_of(A).data_ptr() == A.data_ptr()
    assert not prims.reshape(A, (6, 4))._is_view() and prims.convert_element_type(A, torch.float32) is not A


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: prims.sin(x), "Trying to backward through prims.sin.default but no autograd formula was registered"),
        (lambda x: prims.transpose(x, (1, 0)), "backwards not supported on prim"),
    ],
)
def test_graphs_end_at_them(call, words):
    x = torch.randn(2, 2, requires_grad=True)
    y = call(x)
    assert y.requires_grad
    with pytest.raises(RuntimeError, match=words):
        y.sum().backward()


def test_modes_see_them_and_their_numbers():
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((str(func), args))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Mode():
        prims.mul(x, 3)
    assert seen == [("prims.mul.default", (x, 3))]


def test_on_meta_and_under_make_fx():
    assert prims.eq(torch.ones(2, 3, device="meta").t(), 1).stride() == (1, 3)
    graph = make_fx(lambda a: prims.exp(prims.neg(a)))(torch.ones(2))
    assert [str(n.target) for n in graph.graph.nodes if n.op == "call_function"] == ["prims.neg.default", "prims.exp.default"]
    torch.testing.assert_close(graph(torch.ones(2)), torch.full((2,), math.exp(-1)))


def test_random_states_are_kept_and_given_back():
    from flambeau._prims import rng_prims

    torch.manual_seed(3)
    expected = [torch.rand(3), torch.rand(3)]
    torch.manual_seed(3)
    first, made = rng_prims.run_and_save_rng_state(torch.rand, 3)
    assert torch.equal(made, expected[0])
    assert torch.equal(rng_prims.run_with_rng_state(first, torch.rand, 3), expected[0])
    assert torch.equal(torch.rand(3), expected[1])  # the state went on where it was
