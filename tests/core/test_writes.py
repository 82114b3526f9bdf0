"""In-place writes under autograd: gradients of first and second order, what may be overwritten before the backward pass,
what the refusals say, and `out=`."""

from __future__ import annotations

import gc
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.core.operator import define, publishing, variants

F = nn.functional


def points(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Distinct values of both signs, none near zero."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count, dtype=torch.float64) * 0.37 + 0.21).sin() + 0.05
    if dtype.is_complex:
        values = torch.complex(values, values.flip(0) * 0.7)
    return values.to(dtype).reshape(shape).requires_grad_()


# ---------------------------------------------------------------- gradients


def write_part(y: torch.Tensor) -> torch.Tensor:
    y[:, :1].pow_(3)
    return y


def write_transposed_output(y: torch.Tensor) -> torch.Tensor:
    y.T[0].exp_()
    return y * y


def write_whole(y: torch.Tensor) -> torch.Tensor:
    y.pow_(3)
    y.mul_(y.clone())
    return y.sigmoid_()


def write_from_another_part(y: torch.Tensor) -> torch.Tensor:
    y[0].mul_(y[1].clone())
    return y * y


def write_through_two_views(y: torch.Tensor) -> torch.Tensor:
    part = y[0]
    y.mul_(part.sum())
    part.sin_()
    return (y * part).cos_()


def add_rows(y: torch.Tensor) -> torch.Tensor:
    y[:2].index_add_(0, torch.tensor([0]), y[2:].clone() ** 2)
    y.cumsum_(0)
    return y**2


@pytest.mark.parametrize(
    "function", [write_part, write_transposed_output, write_whole, write_from_another_part, write_through_two_views, add_rows]
)
def test_gradients_of_writes(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = points(3, 2)

    def written(x: torch.Tensor) -> torch.Tensor:
        return function(x * 1)

    assert torch.autograd.gradcheck(written, (x,))
    assert torch.autograd.gradgradcheck(written, (x,))


def scale_pairs(y: torch.Tensor) -> torch.Tensor:
    torch.view_as_real(y).mul_(3)
    return y


def mix_pairs(y: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_real(y)
    pairs[..., 0].mul_(pairs[..., 1].clone())
    return y * y


def write_real_part(y: torch.Tensor) -> torch.Tensor:
    part = y.real
    part.pow_(2)
    return part * y


def assign_imaginary_part(y: torch.Tensor) -> torch.Tensor:
    y.imag[0] = y.real[1]
    return y * y


def write_base_of_pairs(y: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_real(y)
    y.mul_(2j)
    return pairs[..., 0]


@pytest.mark.parametrize("function", [scale_pairs, mix_pairs, write_real_part, assign_imaginary_part, write_base_of_pairs])
def test_gradients_of_writes_to_parts_of_complex_numbers(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = points(3, 2, dtype=torch.complex128)

    def written(x: torch.Tensor) -> torch.Tensor:
        return function(x * (1 + 2j))

    assert torch.autograd.gradcheck(written, (x,))
    assert torch.autograd.gradgradcheck(written, (x,))


def test_young_views_are_found_without_a_search_of_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*objects: Any) -> list[Any]:
        searches.append(objects)
        return found(*objects)

    searches: list[Any] = []
    found = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", searched)
    w = torch.ones(3, 2, requires_grad=True)
    gc.collect()  # what the test makes is young
    y = w * 2
    first, second = y[0], y[1]
    y.mul_(3)
    assert [v.grad_fn.name() for v in (first, second)] == ["AsStridedBackward0"] * 2
    assert not searches
    gc.collect()  # and is old now
    y.add_(w)
    third = y[2]
    third.mul_(2)
    assert searches
    gradient = torch.autograd.grad(first.sum() + second.sum() + third.sum(), w)[0]
    assert torch.equal(gradient, torch.tensor([[7.0], [7.0], [14.0]]).expand(3, 2))


def test_frozen_views_are_found() -> None:
    """gc.freeze() takes objects out of what the garbage collector tells of."""
    w = torch.ones(4, requires_grad=True)
    y = w * 1
    view = y[:2]
    plain = torch.zeros(3)
    part = plain[1:]
    gc.freeze()
    try:
        y.mul_(3)
        plain.requires_grad_()
    finally:
        gc.unfreeze()
    assert view.grad_fn.name() == "AsStridedBackward0"
    assert part.requires_grad
    assert torch.autograd.grad((view * view).sum(), w)[0].tolist() == [18.0, 18.0, 0.0, 0.0]


def test_grad_sees_through_a_write_to_a_view() -> None:
    """`grad`, which runs only what leads to its inputs, gives what `backward` does."""
    x = torch.ones(2, 2, requires_grad=True)
    y = x * 2
    y[0].mul_(3)
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [[6, 6], [2, 2]]


# ---------------------------------------------------------------- what may be overwritten


@pytest.mark.parametrize(
    ("function", "index"),
    [
        (lambda x: x.sort(), 0),
        (lambda x: x.topk(2), 0),
        (lambda x: x.max(1), 0),
        (lambda x: x.min(1), 0),
        (lambda x: x.median(1), 0),
        (lambda x: x.nanmedian(1), 0),
        (lambda x: x.kthvalue(2), 0),
        (lambda x: x.mode(1), 0),
        (lambda x: x.cummax(1), 0),
        (lambda x: x.cummin(1), 0),
        (lambda x: torch.std_mean(x, 1), 1),
        (lambda x: torch.linalg.slogdet(x), 1),
        (lambda x: (x.msort(),), 0),
    ],
)
def test_results_that_no_gradient_needs_may_be_overwritten(function: Callable[[Any], Any], index: int) -> None:
    def gradient(write: bool) -> Any:
        x = points(3, 3)
        results = function(x)
        if write:
            results[index].detach().zero_()
        return torch.autograd.grad(results[index].sum(), x)[0]

    assert torch.equal(gradient(True), gradient(False))


@pytest.mark.parametrize(
    "function",
    [
        lambda bias, x: F.linear(x, x, bias),
        lambda bias, x: torch.addmm(bias, x, x),
        lambda bias, x: torch.addmv(bias, x, x[0]),
        lambda bias, x: torch.baddbmm(bias, x[None], x[None]),
        lambda bias, x: F.conv1d(x[None], x[..., None], bias),
        lambda bias, x: F.conv_transpose1d(x[None], x[..., None], bias),
        lambda bias, x: F.batch_norm(x, None, None, None, bias, True),
        lambda bias, x: F.group_norm(x, 1, None, bias),
        lambda bias, x: F.layer_norm(x, (3,), None, bias),
    ],
)
def test_added_terms_may_be_overwritten(function: Callable[[Any, Any], Any]) -> None:
    bias, x = points(3), points(3, 3)
    result = function(bias, x)
    bias.detach().zero_()
    expected = torch.ones_like(result).reshape(-1, 3).sum(0) if result.dim() < 3 or result.shape[1] != 3 else None
    made = torch.autograd.grad(result.sum(), (bias, x))
    assert made[0].shape == bias.shape
    assert made[0].sum() == result.numel()
    assert expected is None or torch.equal(made[0], expected)


@pytest.mark.parametrize("function", [torch.linalg.svd, torch.linalg.qr, lambda x: torch.linalg.qr(x[:2]), torch.linalg.eigvals])
def test_a_decomposed_matrix_may_be_overwritten(function: Callable[[Any], Any]) -> None:
    def gradient(write: bool) -> Any:
        x = points(3, 3)
        y = x * 1
        results = function(y)
        if write:
            y.detach().zero_()
        results = results if isinstance(results, tuple) else (results,)
        return torch.autograd.grad(sum(r.abs().sum() for r in results), x)[0]

    assert torch.equal(gradient(True), gradient(False))


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.bool, "CPUBoolType"),
        (torch.bfloat16, "CPUBFloat16Type"),
        (torch.complex64, "CPUComplexFloatType"),
        (torch.int64, "torch.LongTensor"),
        (torch.float16, "torch.HalfTensor"),
        (torch.float64, "torch.DoubleTensor"),
    ],
)
def test_the_name_of_what_was_overwritten(dtype: torch.dtype, name: str) -> None:
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(kept)
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> Any:
            return gradient * ctx.saved_tensors[0].sum(), None

    kept = torch.ones(2, dtype=dtype)
    out = Keep.apply(torch.ones(1, requires_grad=True), kept)
    kept.zero_()
    with pytest.raises(RuntimeError, match=rf"\[{name} \[2\]\] is at version 1; expected version 0"):
        out.sum().backward()


@pytest.mark.parametrize(
    ("function", "index", "words"),
    [
        (torch.linalg.qr, 1, r"\[3, 3\]\], which is output 1 of LinalgQr,"),
        (torch.linalg.svd, 2, r"\[3, 3\]\], which is output 2 of LinalgSvd,"),
        (lambda x: x.sort(), 1, r"\[torch.LongTensor \[3, 3\]\] is at version 1"),
        (lambda x: (x.exp(),), 0, r"\[3, 3\]\], which is output 0 of Exp,"),
    ],
)
def test_which_result_was_overwritten(function: Callable[[Any], Any], index: int, words: str) -> None:
    results = function(points(3, 3))
    results[index].detach().zero_()
    with pytest.raises(RuntimeError, match=words):
        sum(r.sum() for r in results if r.requires_grad).backward()


def test_the_gradient_of_a_leaf_may_have_any_stride_along_single_elements() -> None:
    x = torch.ones(1, 2, requires_grad=True)
    x.t().mul(2).backward(torch.ones(2, 1))
    assert x.grad.tolist() == [[2, 2]]
    y = torch.ones(2, 3).t().requires_grad_()
    (y * 2).sum().backward()
    assert y.grad.stride() == (1, 3)


@pytest.mark.parametrize(("name", "arguments"), [("renorm", (2, 0, 0.5)), ("mvlgamma", (2,))])
def test_a_composite_write_keeps_what_its_rules_saved(name: str, arguments: tuple[Any, ...]) -> None:
    x = (points(2, 3).detach() + 3).requires_grad_()
    y = x * 1
    getattr(y, name + "_")(*arguments)
    expected = torch.autograd.grad(getattr(x, name)(*arguments).sum(), x)[0]
    assert torch.allclose(torch.autograd.grad(y.sum(), x)[0], expected)
    assert not hasattr(torch, name + "_")


def test_the_base_of_a_view() -> None:
    x = torch.ones(2, 2)
    assert x._base is None
    assert x[0]._base is x
    assert x[0].t()._base is x
    assert x.clone()._base is None


@pytest.mark.parametrize(
    "write",
    [
        lambda leaf: leaf.view_as(leaf).add_(1),
        lambda leaf: leaf[0].mul_(2),
        lambda leaf: leaf.__setitem__(0, 3),
        lambda leaf: leaf.t()[0].zero_(),
    ],
)
@pytest.mark.parametrize(
    "view", [lambda: torch.zeros(3, 2)[1:], lambda: torch.zeros(2, 2).t(), lambda: torch.zeros(4).as_strided((2, 2), (2, 1))]
)
def test_views_of_a_leaf_that_is_a_view_are_not_written_to(view, write):
    leaf = view().requires_grad_()
    with pytest.raises(RuntimeError, match=r"^a view of a leaf Variable that requires grad is being used"):
        write(leaf)
    assert leaf.is_leaf
    with torch.no_grad():
        write(leaf)


def test_comparisons_in_place_are_steps_of_the_graph_and_logic_is_not():
    grad = torch.ones(3, requires_grad=True)
    assert type(torch.ones(3).eq_(grad).grad_fn).__name__ == "EqBackward1"
    assert type((grad * 2).lt_(1).grad_fn).__name__ == "LtBackward0"
    assert not torch.ones(3).logical_and_(grad).requires_grad
    made = grad * 2
    assert type(made.logical_not_().grad_fn).__name__ == "MulBackward0" and made._version == 1
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        grad.eq_(1)
    assert grad.logical_or_(torch.ones(3)).is_leaf


OUT_CALLS = {
    "mm": lambda a, b, **k: torch.mm(a, b, **k),
    "matmul": lambda a, b, **k: torch.matmul(a, b, **k),
    "bmm": lambda a, b, **k: torch.bmm(a[None], b[None], **k),
    "mv": lambda a, b, **k: torch.mv(a, b[:, 0], **k),
    "addmm": lambda a, b, **k: torch.addmm(b[0], a, b, beta=2, **k),
    "softmax": lambda a, b, **k: torch.softmax(a, 1, **k),
    "sum": lambda a, b, **k: torch.sum(b, 0, **k),
    "mean": lambda a, b, **k: torch.mean(b, 1, keepdim=True, **k),
    "cat": lambda a, b, **k: torch.cat([a, b.t()[:4]], **k),
    "stack": lambda a, b, **k: torch.stack([a, a + 1], **k),
    "cumsum": lambda a, b, **k: torch.cumsum(b, 1, **k),
    "clamp": lambda a, b, **k: torch.clamp(a, -0.5, 0.5, **k),
    "triu": lambda a, b, **k: torch.triu(a, **k),
}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list:
    """What was computed elsewhere and then copied to `out`."""

    def count(*given):
        found.append(given)
        return deliver(*given)

    found: list = []
    deliver = define.deliver
    monkeypatch.setattr(define, "deliver", count)
    return found


@pytest.mark.parametrize("name", OUT_CALLS)
def test_results_are_written_to_out_without_a_copy(name, copies):
    call = OUT_CALLS[name]
    a, b = torch.randn(4, 3), torch.randn(3, 5)
    expected = call(a, b)
    out = torch.empty_like(expected)
    for _ in range(3):
        version = out._version
        assert call(a, b, out=out.fill_(7)) is out and torch.equal(out, expected) and out._version > version
    assert len(copies) == 1  # it was seen then that `out` is like the result
    # what isn't like the result, or is an operand, or may not be written to, takes the long way again
    wide = torch.zeros(*expected.shape, 2)[..., 0]
    assert torch.equal(call(a, b, out=wide), expected) and len(copies) == 2
    assert torch.equal(call(a, b, out=torch.empty(0)), expected) and len(copies) == 3
    with torch.inference_mode():
        frozen = torch.empty_like(expected)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        call(a, b, out=frozen)
    with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic differentiation"):
        call(a, b, out=torch.empty_like(expected).requires_grad_())
    if name != "softmax":  # which writes there unrecorded
        with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic differentiation"):
            call(a.clone().requires_grad_(), b.clone().requires_grad_(), out=torch.empty_like(expected))
    if name not in ("sum", "cumsum"):  # which add in the dtype of `out`
        with pytest.raises((RuntimeError, TypeError), match=r"dtype|cast"):
            call(a, b, out=torch.empty_like(expected).long())
    again = call(a, b)
    assert torch.equal(again, expected) and again.untyped_storage().data_ptr() != out.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", ["softmax", "cumsum", "clamp", "triu", "mm"])
def test_out_may_be_an_operand_of_calls_that_fit(name):
    call = OUT_CALLS[name]
    a, b = torch.randn(90, 90), torch.randn(90, 90)
    expected = call(a, b)
    for _ in range(3):
        assert torch.equal(call(a, b, out=torch.empty(90, 90)), expected)
    first, second = a.clone(), b.clone()
    assert torch.equal(call(first, b, out=first), expected) and torch.equal(call(a, second, out=second), expected)


def test_steps_of_an_operator_may_take_what_is_offered(copies, monkeypatch):
    monkeypatch.setattr(publishing, "OPERATORS", {})

    @define.composite(method=False, function=False, out=True, name="two_steps")
    def two_steps(input: Tensor) -> Tensor:
        return (input + 1) * 2  # the first step's result is like `out` as well

    x, out = torch.arange(6.0), torch.empty(6)
    for _ in range(4):
        assert two_steps(x, out=out.fill_(7)) is out and out.tolist() == [2, 4, 6, 8, 10, 12]
    assert len(copies) == 1
    assert two_steps(x).data_ptr() != out.data_ptr()


POINTWISE_OUT = {
    "add": lambda a, b, **k: torch.add(a, b, **k),
    "weighted add": lambda a, b, **k: torch.add(a, b, alpha=3, **k),
    "add a number": lambda a, b, **k: torch.add(a, 2.5, **k),
    "exp": lambda a, b, **k: torch.exp(a, **k),
    "addcmul": lambda a, b, **k: torch.addcmul(a, b, b, value=0.5, **k),
    "lt": lambda a, b, **k: torch.lt(a, b, **k),
    "div to integers": lambda a, b, **k: torch.div(a, b, rounding_mode="floor", **k),
}


@pytest.mark.parametrize("name", POINTWISE_OUT)
def test_pointwise_results_go_to_out_at_once(name, monkeypatch):
    call = POINTWISE_OUT[name]
    a, b = torch.randn(4, 3), torch.randn(4, 3) + 4
    expected = call(a, b)
    wide, double = torch.zeros(4, 3, 2)[..., 0], torch.empty(4, 3, dtype=torch.float64)
    outs = [torch.empty_like(expected), wide.to(expected.dtype), double]
    for out in outs:
        assert call(a, b, out=out) is out
    with monkeypatch.context() as patched:
        patched.setattr(variants, "general", None)  # what calls that were not seen before go through
        for out in outs:
            version = out.fill_(7)._version
            assert call(a, b, out=out) is out and torch.equal(out, expected.to(out.dtype)) and out._version > version
    with torch.inference_mode():
        frozen = torch.empty_like(expected)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        call(a, b, out=frozen)
    refused = pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic differentiation")
    if name != "lt":  # which has no gradient to record
        with refused:
            call(a.clone().requires_grad_(), b, out=outs[0])
    if expected.dtype.is_floating_point:
        with refused:
            call(a, b, out=torch.empty(4, 3, requires_grad=True))
        both = torch.randn(5, 3)
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor and the written-to"):
            call(both[:4], both[:4], out=both[1:])
        itself = both[:4].clone()
        assert torch.equal(call(itself, b, out=itself), call(both[:4], b))
        with pytest.raises(RuntimeError, match="result type Float can't be cast"):
            call(a, b, out=torch.empty(4, 3, dtype=torch.int64))
        assert torch.equal(call(a, b, out=torch.empty(0)), expected)


def test_what_is_rounded_before_it_is_converted_stays_so():
    a, b = torch.randn(50).half(), torch.randn(50).half()
    for _ in range(3):
        assert torch.equal(torch.add(a, b, out=torch.empty(50)), (a + b).float())


def test_only_the_thread_that_offers_out_writes_there():
    x, out, stop = torch.ones(64, 64), torch.empty(64, 64), threading.Event()
    expected, wrong = torch.softmax(x, 1), []

    def work():
        while not stop.is_set():
            made = x + 1
            if made is out or made.data_ptr() == out.data_ptr() or not torch.equal(made, x.add(1)):
                wrong.append(made)

    other, interval = threading.Thread(target=work), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        other.start()
        for _ in range(3000):
            assert torch.softmax(x, 1, out=out) is out
        stop.set()
        other.join()
    finally:
        stop.set()
        sys.setswitchinterval(interval)
    assert not wrong and torch.equal(out, expected)


def test_a_transposed_copy_within_one_memory_is_refused():
    x = torch.arange(9.0).view(3, 3)
    for write in (lambda: x.copy_(x.t()), lambda: x.t().copy_(x), lambda: x.__setitem__(slice(None), x.t())):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single"):
            write()
    x.copy_(x)
    assert x.flatten().tolist() == list(range(9))
    line = torch.arange(6.0)
    line[0:6:2].copy_(line[1:6:2])
    assert line.tolist() == [1, 1, 3, 3, 5, 5]


@pytest.mark.parametrize(
    ("call", "out", "words"),
    [
        (lambda out: torch.mm(torch.ones(3), torch.ones(3), out=out), (torch.ones(3),), "mm() received an invalid combination"),
        (lambda out: torch.cat([torch.ones(3), torch.ones(2, 2)], out=out), 3, "cat(): argument 'out' must be Tensor, not int"),
        (lambda out: torch.linalg.inv(torch.zeros(2, 2), out=out), "x", "linalg_inv(): argument 'out' must be Tensor, not str"),
        (lambda out: torch.sort(torch.ones(3), 4, out=out), 3, "sort() received an invalid combination of arguments - got "
         "(Tensor, int, out=int)"),
        (lambda out: torch.topk(torch.ones(3), 9, out=out), (torch.ones(3),), "expected tuple of 2 elements but got 1"),
        (lambda out: torch.linalg.eigh(torch.ones(2, 3), out=out), [1.0], "expected Tensor as element 0 in argument 2, but got "
         "float"),
    ],
)  # fmt: skip
def test_an_out_of_another_type_is_refused_before_anything_is_computed(call, out, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        call(out)


def test_a_refused_out_costs_no_random_numbers():
    before = torch.get_rng_state()
    with pytest.raises(TypeError):
        torch.normal(torch.ones(3), torch.ones(3), out=[torch.ones(3)])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_tensor_is_hashed_by_its_address():
    class Own(torch.Tensor):
        pass

    x = torch.ones(2)
    for tensor in (x, torch.nn.Parameter(x), Own(x)):
        assert hash(tensor) == tensor.__hash__() == id(tensor)
        assert {tensor: 1}[tensor] == 1
    with pytest.raises(TypeError):
        torch.Tensor.__hash__(3)
