"""How a failed call is explained: from the declaration, and from how the call was written."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.operator.publishing import explained

F = torch.nn.functional


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: torch.hardshrink(x, "a"), "hardshrink(): argument 'lambd' (position 2) must be Number, not str"),
        (lambda x: x.hardshrink("a"), "hardshrink(): argument 'lambd' (position 1) must be Number, not str"),
        (lambda x: x.hardshrink(lambd="a"), "hardshrink(): argument 'lambd' must be Number, not str"),
        (lambda x: torch.kron(x, 5), "kron(): argument 'other' (position 2) must be Tensor, not int"),
        (lambda x: torch.kron(x, torch.float32), "kron(): argument 'other' (position 2) must be Tensor, not torch.dtype"),
        (lambda x: x.clamp("a"), "clamp() received an invalid combination of arguments - got (str), but expected one of:"),
        (
            lambda x: torch.clamp(x, min="a"),
            "clamp() received an invalid combination of arguments - got (Tensor, min=str), but expected one of:",
        ),
        (lambda x: x.sum(dim="a"), "sum() received an invalid combination of arguments - got (dim=str, ), but expected one of:"),
        (lambda x: F.linear([1], x), "linear(): argument 'input' (position 1) must be Tensor, not list"),
        (lambda x: x.transpose("a", 0), "transpose(): argument 'dim0' (position 1) must be int, not str"),
        (lambda x: torch.ones(2, dtype="a"), "ones(): argument 'dtype' must be torch.dtype, not str"),
        (lambda x: torch.block_diag(x, "a"), "expected Tensor as element 1 in argument 0, but got str"),
        (lambda x: x @ 5, "unsupported operand type(s) for @: 'Tensor' and 'int'"),
    ],
)
def test_words(call, words):
    with pytest.raises(TypeError) as caught:
        call(torch.ones(3))
    assert str(caught.value).split("\n")[0] == words


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: torch.mm(x, "a"), "mm(): argument 'mat2' (position 2) must be Tensor, not str"),
        (lambda x: torch.mm(x, x, "a"), "mm() received an invalid combination of arguments - got (Tensor, Tensor, str), but"),
        (lambda x: torch.mm(x, x, out=3), "mm() received an invalid combination of arguments - got (Tensor, Tensor, out=int)"),
        (lambda x: torch.sum(x, 0, out=3), "sum(): argument 'out' must be Tensor, not int"),
        (lambda x: torch.sum(x, out=3), "sum() received an invalid combination of arguments - got (Tensor, out=int), but"),
        (lambda x: torch.addcmul(x, "a", 2.5), "addcmul(): argument 'tensor1' (position 2) must be Tensor, not str"),
        (lambda x: torch.lerp(x, x), "lerp() received an invalid combination of arguments - got (Tensor, Tensor), but"),
        (lambda x: x.pow_("a"), "pow_() received an invalid combination of arguments - got (str), but"),
        (lambda x: x.add_("a"), "add_(): argument 'other' (position 1) must be Tensor, not str"),
    ],
)
def test_an_argument_is_named_where_one_form_takes_so_many(call, words):
    with pytest.raises(TypeError) as caught:
        call(torch.ones(2, 2))
    assert str(caught.value).startswith(words)


def test_errors_that_no_argument_explains_are_kept():
    with pytest.raises(RuntimeError, match="size of tensor a"):
        torch.kron(torch.ones(2), torch.ones(2)) + torch.ones(3)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.ones(2).softmax(4)

    class Wrapper:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise TypeError("from the handler")

    with pytest.raises(TypeError, match="from the handler"):
        torch.kron(torch.ones(2), Wrapper())


def test_memory_that_numpy_has_not():
    def allocate(input):
        np.empty(1 << 45, np.int64)

    with pytest.raises(RuntimeError, match=r"you tried to allocate 281474976710656 bytes"):
        explained(allocate)(torch.ones(2))


@pytest.mark.parametrize("name", ["max", "sort", "topk", "kthvalue", "cummax"])
def test_results_of_several_dtypes_are_not_converted(name):
    extra = {"topk": (1,), "kthvalue": (1,)}.get(name, (0,))
    values, indices = torch.zeros(0), torch.zeros(0)
    with pytest.raises(RuntimeError, match=r"(?i)long"):
        getattr(torch, name)(torch.ones(2, 2), *extra, out=(values, indices))
    assert values.numel() == indices.numel() == 0


def test_out_on_another_device():
    x = torch.ones(3, 3)
    for call in (lambda out: torch.add(x, 1, out=out), lambda out: torch.mm(x, x, out=out)):
        with pytest.raises(RuntimeError, match="cross-device copies are not allowed"):
            call(torch.ones(3, device="meta"))


X = torch.ones(2, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.cumsum(X), 'cumsum() missing 1 required positional arguments: "dim"'),
        (lambda: torch.mv(), 'mv() missing 2 required positional argument: "input", "vec"'),
        (lambda: torch.mm(), "mm() received an invalid combination of arguments - got (), but expected one of:"),
        (lambda: torch.relu(), 'relu() missing 1 required positional arguments: "input"'),
        (lambda: torch.mul(), 'mul() missing 2 required positional argument: "input", "other"'),
        (lambda: X.mul(), 'mul() missing 1 required positional arguments: "other"'),
        (lambda: torch.relu(out=X), 'relu() missing 1 required positional arguments: "input"'),
        (
            lambda: torch.add(X),
            "add() received an invalid combination of arguments - got (Tensor), but expected "
            "(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)",
        ),
        (
            lambda: X.add_(),
            "add_() received an invalid combination of arguments - got (), but expected (Tensor other, *, Number alpha = 1)",
        ),
        (
            lambda: torch.addmm(X, X),
            "addmm() received an invalid combination of arguments - got (Tensor, Tensor), but expected one of:",
        ),
        (
            lambda: X.addmm(X),
            "addmm() received an invalid combination of arguments - got (Tensor), but expected "
            "(Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1)",
        ),
        (
            lambda: torch.lerp(X, X),
            "lerp() received an invalid combination of arguments - got (Tensor, Tensor), but expected one of:",
        ),
        (lambda: X.ne(), "ne() received an invalid combination of arguments - got (), but expected one of:"),
        (lambda: torch.normal(), "normal() received an invalid combination of arguments - got (), but expected one of:"),
        (
            lambda: torch.normal(0.0, 1.0),
            "normal() received an invalid combination of arguments - got (float, float), but expected one of:",
        ),
        (lambda: torch.randint(), "randint() received an invalid combination of arguments - got (), but expected one of:"),
        (
            lambda: torch.randint(high=3),
            "randint() received an invalid combination of arguments - got (high=int, ), but expected one of:",
        ),
        (
            lambda: torch.arange(1, 2, 3, 4),
            "arange() received an invalid combination of arguments - got (int, int, int, int), but expected one of:",
        ),
        (lambda: torch.einsum(1, X), "einsum(): argument 'equation' (position 1) must be str, not int"),
        (lambda: X.relu(1), "TensorBase.relu() takes no arguments (1 given)"),
        (lambda: X.mul(1, 2), "mul() takes 1 positional argument but 2 were given"),
        (lambda: torch.nan_to_num(X, 1, 2, 3, 4), "nan_to_num() takes from 1 to 4 positional arguments but 5 were given"),
        (lambda: X.mm(), 'mm() missing 1 required positional arguments: "mat2"'),
        (lambda: torch.nn.functional.linear(X), 'linear() missing 1 required positional arguments: "weight"'),
        (lambda: torch.unique_consecutive(), "unique_consecutive() missing 1 required positional argument: 'input'"),
        (lambda: X.mm(X, X), "mm() takes 1 positional argument but 2 were given"),
        (lambda: torch.cumsum(X, 1, 2, 3), "cumsum() takes 2 positional arguments but 4 were given"),
        (lambda: torch.amax(X, 1, True, 3), "amax() takes from 1 to 3 positional arguments but 4 were given"),
        (lambda: X.amax(1, True, 3), "amax() takes from 0 to 2 positional arguments but 3 were given"),
        (lambda: X.inverse(1), "TensorBase.inverse() takes no arguments (1 given)"),
        (lambda: torch.mm(1, 2, 3, 4), "mm() takes 2 positional arguments but 4 were given"),
    ],
)
def test_calls_with_too_few_or_too_many_arguments(call, words):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value).split("\n")[0] == words


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda one: X.sum(one), "sum"),
        (lambda one: X.cumsum(one), "dim"),
        (lambda one: X.topk(one), "k"),
        (lambda one: X.gather(one, torch.zeros(1, 1, dtype=torch.int64)), "dim"),
        (lambda one: X.transpose(0, one), "dim1"),
        (lambda one: X.unsqueeze(one), "dim"),
        (lambda one: X.select(one, 0), "dim"),
        (lambda one: X.chunk(one), "chunks"),
        (lambda one: X.unbind(one), "dim"),
        (lambda one: X.diagonal(one), "offset"),
        (lambda one: X.flatten(0, one), "end_dim"),
        (lambda one: X.narrow(one, 0, 1), "narrow"),
        (lambda one: X.split(one), "split"),
        (lambda one: torch.nn.functional.glu(X, one), "dim"),
    ],
)
def test_floats_and_bools_are_no_ints_though_a_plan_is_kept_for_the_int_that_they_equal(call, word):
    for _ in range(3):
        call(1)
    for wrong in (1.0, True):
        with pytest.raises(TypeError, match=word):
            call(wrong)


def test_ints_are_no_bools():
    X.amax(0, True), X.amax(0, False)
    for wrong in (0, 1, None):
        with pytest.raises(TypeError, match="argument 'keepdim'"):
            X.amax(0, wrong)


def test_writes_count_once_and_ints_are_checked_in_place_too():
    x, index = torch.zeros(3), torch.tensor([0, 0, 1])
    for reduce in ("sum", "mean", "amax"):
        before = x._version
        x.scatter_reduce_(0, index, torch.ones(3), reduce)
        assert x._version == before + 1
    for _ in range(2):
        x.scatter_add_(0, index, torch.ones(3))
    for wrong in (0.0, False):
        with pytest.raises(TypeError, match="'dim'"):
            x.scatter_add_(wrong, index, torch.ones(3))
    before = x._version
    x.unsqueeze_(0)
    assert x._version == before + 1 and x.shape == (1, 3)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: torch.zeros(2, -3), RuntimeError, "zeros: Dimension size must be non-negative."),
        (lambda: X.new_zeros(-1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
        (lambda: torch.empty(2, device=1.5), TypeError, "empty(): argument 'device' must be torch.device, not float"),
        (lambda: torch.zeros(2, requires_grad="a"), TypeError, "zeros(): argument 'requires_grad' must be bool, not str"),
        (lambda: setattr(torch.ones(2), "requires_grad", 1), RuntimeError, "requires_grad must be a bool"),
        (
            lambda: torch.nn.Parameter(torch.tensor([1])),
            RuntimeError,
            "Only Tensors of floating point and complex dtype can require gradients",
        ),
        (lambda: 5 @ X, TypeError, "unsupported operand type(s) for @: 'int' and 'Tensor'"),
        (
            lambda: torch.eq(1, X),
            TypeError,
            "eq() received an invalid combination of arguments - got (int, Tensor), but expected one of:",
        ),
        (lambda: torch.narrow(X, 0, torch.tensor([0.0]), 1), RuntimeError, "start must be an 0-dim integral Tensor."),
        (
            lambda: torch.linspace(X, X, 3),
            RuntimeError,
            "linspace only supports 0-dimensional start and end tensors, but got start "
            "with 2 dimension(s) and end with 2 dimension(s).",
        ),
    ],
)
def test_refusals_of_factories_and_operators(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).split("\n")[0] == words


def test_a_tensor_given_for_an_int_is_read_at_every_call():
    x, dim, index = torch.arange(12.0).reshape(3, 4), torch.tensor(0), torch.zeros(1, 1, dtype=torch.int64)
    calls = (
        lambda d: x.sum(d),
        lambda d: x.amax(d),
        lambda d: x.cumsum(d),
        lambda d: x.gather(d, index),
        lambda d: x.unbind(d)[0],
        lambda d: x.scatter(d, index, 1.0),
        lambda d: x.clone().scatter_(d, index, 1.0),
        lambda d: x.chunk(2, d)[0],
        lambda d: x.flatten(d, 1),
        lambda d: x.argmax(d),
    )
    for call in calls:
        for place in (0, 1, 0):
            dim.fill_(place)
            for _ in range(2):
                assert call(dim).equal(call(place))
    assert x.sum([0, True]).item() == 66 and x.amax(None).item() == 11


@pytest.mark.parametrize("call", [lambda: torch.einsum(), lambda: torch.einsum("i"), lambda: torch.einsum(1)])
def test_einsum_wants_an_equation_and_operands(call):
    with pytest.raises(ValueError, match=r"einsum\(\): must specify the equation string and at least one operand"):
        call()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (((6, 0), 1), "received an invalid combination of arguments"),
        ((1.5, 2), "received an invalid combination of arguments"),
        ((2, 1.5), "failed to unpack the object at pos 2"),
        ((2, "3"), "failed to unpack the object at pos 2"),
    ],
)
def test_sizes_of_old_constructors_are_ints(sizes, words):
    with pytest.raises(TypeError, match=words):
        torch.FloatTensor(*sizes)
    assert torch.FloatTensor(2, torch.tensor(3)).shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.hardshrink("a"), lambda x: x.transpose("a", 0), lambda x: x.clamp("a"), lambda x: x @ 5,
        lambda x: torch.gather(x, 0, 3), lambda x: x.view("a"), lambda x: x.add_("a"), lambda x: x.sum(dim="a"),
    ],
)  # fmt: skip
def test_words_are_the_same_while_a_profiler_looks(call):
    x = torch.ones(3)
    with pytest.raises(TypeError) as alone:
        call(x)
    with torch.profiler.profile(), pytest.raises(TypeError) as seen:
        call(x)
    assert str(seen.value) == str(alone.value)


def test_complex_numbers_that_an_operator_can_not_take() -> None:
    m = torch.ones(2, 2)
    for call in (
        lambda: torch.scalar_tensor(1j, dtype=torch.float32),
        lambda: torch.addmm(m, m, m, alpha=1j),
        lambda: torch.baddbmm(m[None], m[None], m[None], beta=1j),
        lambda: torch.arange(0, 1j),
        lambda: torch.nn.functional.celu(m, 1j),
    ):
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type (float|double) without overflow"):
            call()
    with pytest.raises(RuntimeError, match="renorm: maxnorm must be real-valued"):
        torch.renorm(m, 2, 0, 1j)


def test_what_gives_elements_without_end_is_no_list() -> None:
    class Endless:
        def __getitem__(self, index):
            return self

        def __len__(self):
            return 2

    for function in (torch.stack, torch.cat):
        with pytest.raises(TypeError, match=r"argument 'tensors' .position 1. must be tuple of Tensors, not Endless"):
            function(Endless())


def test_calls_that_pytorch_refuses() -> None:
    x = torch.eye(3)
    with pytest.raises(RuntimeError, match=r"linalg.lu_factor: LU without pivoting is not implemented on the CPU"):
        torch.linalg.lu(x, pivot=False)
    with pytest.raises(RuntimeError, match=r"nonzero does not support the out kwarg when as_tuple is True"):
        torch.nonzero(x, as_tuple=True, out=torch.empty(0, 2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="rtol tensor of complex type is not supported"):
        torch.linalg.pinv(x, rtol=torch.tensor(1j))
    parameter = torch.nn.Parameter(torch.ones(2, device="meta"))
    parameter.grad = torch.ones(2, device="meta")
    with pytest.raises(RuntimeError, match=r"`fused=True` requires all the params to be floating point Tensors of supported"):
        torch.optim.SGD([parameter], fused=True).step()
    with pytest.raises(RuntimeError, match=r"The size of tensor a .2. must match the size of tensor b .3."):
        torch._foreach_minimum([torch.ones(2, dtype=torch.complex64)], [torch.ones(3, dtype=torch.complex64)])


def test_calls_that_pytorch_answers() -> None:
    assert torch.ones(3, 1).broadcast_to(3, 5).shape == torch.ones(3, 1).broadcast_to((3, 5)).shape == (3, 5)
    made = torch._grouped_mm(torch.ones(16, 16), torch.ones(16, 8), offs=torch.zeros(0, dtype=torch.int32))
    assert made.shape == (0, 16, 8)
    x = torch.tensor([[1 + 2j, 3 - 1j, 0.5j]])
    expected = x * ((x * x).mean(-1, True) + torch.finfo(torch.float32).eps).rsqrt()
    torch.testing.assert_close(torch.nn.functional.rms_norm(x, (3,)), expected)


@pytest.mark.parametrize("name", ["cat", "stack", "hstack", "vstack", "dstack", "row_stack", "column_stack"])
def test_a_tensor_is_no_list_of_its_rows(name: str) -> None:
    x, function = torch.arange(6.0).reshape(3, 2), getattr(torch, name)
    out = torch.empty_like(function(list(x)))  # which makes a plan for such rows
    function(list(x), out=out)
    for given in x, torch.nn.Parameter(x):
        for options in {}, {"out": out}:
            with pytest.raises(TypeError, match=r"argument 'tensors' \(position 1\) must be tuple of Tensors, not "):
                function(given, **options)
