"""Arguments at the edge of what there is: no elements, no dimensions, huge counts, NaN and infinities, impossible pivots.

Expected values and words are PyTorch's.
"""

import math

import pytest

import flambeau as torch

F = torch.nn.functional
nan, inf = math.nan, math.inf


def refused(words, call, kind=RuntimeError):
    with pytest.raises(kind, match=words):
        call()


# ---------------------------------------------------------------- neighbours and divisors


@pytest.mark.parametrize(
    ("dtype", "start", "towards", "expected"),
    [
        (torch.bfloat16, 1.0, 0.0, 0.99609375),
        (torch.float16, 1.0, 0.0, 0.99951171875),
        (torch.float16, 0.0, -1.0, -(2.0**-24)),
        (torch.float16, 2.0**-14, 0.0, 2.0**-14 - 2.0**-24),
        (torch.float16, inf, 0.0, 65504.0),
        (torch.float16, 65504.0, inf, inf),
        (torch.bfloat16, 0.0, 1.0, 2.0**-133),
        (torch.bfloat16, inf, 0.0, 3.3895313892515355e38),
        (torch.bfloat16, 1.0, 1.0, 1.0),
    ],
)
def test_the_next_small_float(dtype, start, towards, expected):
    x, y = torch.tensor([start], dtype=dtype), torch.tensor([towards], dtype=dtype)
    assert torch.nextafter(x, y).item() == expected and torch.nextafter(x, y).dtype is dtype
    assert x.nextafter_(y).item() == expected


@pytest.mark.parametrize("name", ["remainder_", "floor_divide_", "fmod_"])
def test_a_division_by_zero_in_place_leaves_the_dividend(name):
    x = torch.tensor([5, 6])
    refused("ZeroDivisionError", lambda: getattr(x, name)(0))
    assert x.tolist() == [5, 6]
    refused("ZeroDivisionError", lambda: getattr(x, name)(torch.tensor([3, 0])))
    assert x[1].item() == 6


def test_powers_of_complex_zero():
    zero = torch.tensor(0j)
    assert math.isnan((zero**zero).item().real) and (zero**0).item() == 1 and (zero**0j).item() == 1


def test_slopes_of_differences_that_are_no_numbers():
    for loss in (F.smooth_l1_loss, F.huber_loss):
        x = torch.tensor([inf, 1.0, 5.0], requires_grad=True)
        loss(x, torch.tensor([inf, 1.0, 0.0]), reduction="sum").backward()
        assert math.isnan(x.grad[0].item()) and x.grad[1:].tolist() == [0, 1]


def test_polygamma_of_a_huge_order():
    assert torch.polygamma(1000, torch.ones(2)).tolist() == [-inf, -inf]
    assert all(math.isnan(v) for v in torch.polygamma(2**31, torch.ones(2)).tolist())
    assert torch.polygamma(3, torch.tensor([2.0])).item() == pytest.approx(0.49393942, rel=1e-6)


def test_many_gammas():
    assert torch.mvlgamma(torch.tensor([100000.0], dtype=torch.float64), 500).item() == pytest.approx(524997190.559358)
    refused(r"allocate|overflow", lambda: torch.mvlgamma(torch.tensor([100000.0]), 2**60))


# ---------------------------------------------------------------- random numbers


def test_distributions_that_are_none():
    x = torch.empty(3)
    for low, high in ((nan, 1.0), (-inf, 0.0), (0.0, inf), (0.0, 1e39)):
        refused("out of bounds for float", lambda low=low, high=high: x.uniform_(low, high))
    refused("exceed the limit", lambda: x.uniform_(-3e38, 3e38))
    refused("out of bounds for c10::Half", lambda: torch.empty(3, dtype=torch.float16).uniform_(0.0, 70000.0))
    refused("expects std >= 0.0", lambda: x.normal_(0.0, nan))
    refused("expects lambda > 0.0", lambda: x.exponential_(nan))
    refused("lower bound must be finite", lambda: F.rrelu(x, nan, 1.0, training=True))
    assert torch.empty(3, dtype=torch.float64).uniform_(0.0, 1e39).max() <= 1e39


def test_truncated_normal_samples_far_from_the_mean_and_of_no_mean():
    torch.manual_seed(0)
    far = torch.nn.init.trunc_normal_(torch.empty(3), 0.0, 1e-30, 5.0, 6.0)
    assert far.tolist() == pytest.approx([5.4962568, 5.7682219, 5.0884776])
    torch.manual_seed(0)
    anywhere = torch.nn.init.trunc_normal_(torch.empty(3), nan)
    assert anywhere.tolist() == pytest.approx([-0.0149736, 1.0728872, -1.6460903], rel=1e-5)


def test_gumbel_samples_do_not_depend_on_the_order_in_memory():
    torch.manual_seed(0)
    x = torch.zeros(2, 3, 4, 5, dtype=torch.float64).to(memory_format=torch.channels_last)
    assert F.gumbel_softmax(x, dim=1).flatten()[:3].tolist() == pytest.approx(
        [0.03717925291572837, 0.03209128982885074, 0.1484414555496444]
    )


# ---------------------------------------------------------------- pivots


@pytest.mark.parametrize("pivots", [[1, 2, 9], [0, 2, 3], [-(2**31), 2, 3], [1, 2]])
def test_impossible_pivots_are_refused(pivots):
    pivots = torch.tensor(pivots, dtype=torch.int32)
    refused("must be between 1 and LU", lambda: torch.lu_unpack(torch.eye(3), pivots))
    refused("pivots|Pivots", lambda: torch.linalg.lu_solve(torch.eye(3), pivots, torch.ones(3, 1)))


def test_impossible_pivots_in_a_batch_and_of_other_factorizations():
    pivots = torch.tensor([[3, 3, 3], [1, 2, 9]], dtype=torch.int32)
    refused("smaller or equal to LU", lambda: torch.linalg.lu_solve(torch.eye(3).expand(2, 3, 3), pivots, torch.ones(2, 3, 1)))
    zeros = torch.zeros(3, dtype=torch.int32)
    refused("greater or equal to 1", lambda: torch.linalg.lu_solve(torch.eye(3), zeros, torch.ones(3, 1)))
    refused(r"\|pivot\| >= 1", lambda: torch.linalg.ldl_solve(torch.eye(3), zeros, torch.ones(3, 1)))
    shared = torch.lu_unpack(torch.eye(3).expand(2, 3, 3), torch.tensor([[3, 2, 3]], dtype=torch.int32))[0]
    assert shared.shape == (2, 3, 3) and shared[1, 0].tolist() == [0, 0, 1]


# ---------------------------------------------------------------- no elements, no dimensions, too many


def test_operators_on_nothing():
    empty = torch.empty(0, 2).unsqueeze(-1).expand(0, 2, 3)
    assert empty.sort(0).values.shape == empty.argsort(0).shape == empty.kthvalue(1, 1).values.shape[:1] + (2, 3)
    assert torch.empty(0, 2, 3).permute(2, 0, 1).triu().shape == (3, 0, 2)
    assert torch.inner(torch.randn(2, 0), torch.randn(3, 0)).tolist() == [[0] * 3] * 2
    assert torch.tensor([], dtype=torch.int64).median().item() == -(2**63)
    assert torch.tensor([], dtype=torch.bool).median().item() is True
    assert torch.tensor([], dtype=torch.int16).nanmedian().item() == 0


def test_numbers_have_a_dimension_for_those_who_ask():
    x = torch.tensor(1.0)
    assert x.movedim(0, 0).item() == x.movedim((0,), (-1,)).item() == 1
    assert torch.tensor(1j).adjoint().item() == -1j


def test_more_dimensions_than_can_be_named():
    x = torch.zeros([1] * 65)
    for call in (lambda: x.sum(0), lambda: x.mean((0, 64)), lambda: x.amax(1)):
        refused("only tensors with up to 64 dims are supported", call)
    assert x.sum().shape == () and (x + 1).shape == x.shape and str(x.tolist()).count("[") == 65


# ---------------------------------------------------------------- counts without end


def test_counts_for_which_there_is_no_memory_are_refused_at_once():
    many = torch.empty(2**40, 0)
    for call in (
        lambda: many.unbind(),
        lambda: many.split(1),
        lambda: many.chunk(2**40),
        lambda: list(many),
        lambda: torch.empty(0, 2).chunk(2**40),
        lambda: torch.tril_indices(2**31, 2**31),
        lambda: torch.arange(0.0, 1.0, 1e-320),
    ):
        refused(r"allocate|overflow", call)


def test_indices_of_triangles_with_few_rows_among_many():
    assert torch.triu_indices(2**62, 2).tolist() == [[0, 0, 1], [0, 1, 1]]
    assert torch.tril_indices(2**40, 2**40, -(2**40) + 2).tolist() == [[2**40 - 2, 2**40 - 1, 2**40 - 1], [0, 0, 1]]
    assert torch.tril_indices(3, 2, 1).tolist() == [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]]
    assert torch.triu_indices(4, 3, -1).tolist() == [[0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 1, 2, 2]]


def test_images_without_data_need_no_tables():
    image = torch.empty(2 * 10**8, 3, 2 * 10**8, device="meta")
    assert F.interpolate(image, scale_factor=2).shape == (2 * 10**8, 3, 4 * 10**8)
    assert F.interpolate(image, scale_factor=2, mode="linear").shape == (2 * 10**8, 3, 4 * 10**8)


def test_more_tensors_than_one_launch_takes():
    parts = [torch.arange(i % 7).float() for i in range(1500)]
    assert torch.cat(parts).tolist() == [float(j) for i in range(1500) for j in range(i % 7)]
    squares = [torch.full((2, 3), float(i)) for i in range(450)]
    for dim in range(3):
        assert (torch.stack(squares, dim).select(dim, 401) == 401).all()
    assert torch.cat([x.t() for x in squares], 1)[2].tolist() == [float(i // 2) for i in range(900)]
    out = torch.empty(900, 3)
    assert torch.cat(squares, out=out) is out and out[:, 1].tolist() == [float(i // 2) for i in range(900)]
    assert torch.cat(squares)._version == 0


# ---------------------------------------------------------------- the same memory


def test_views_of_the_same_dtype_are_tensors_of_their_own():
    x = torch.ones(3, requires_grad=True)
    y = x.view(x.dtype)
    assert y is not x and not y.requires_grad and y.data_ptr() == x.data_ptr() and y._base is None


def test_writing_a_tensor_to_itself():
    x = torch.ones(3)
    x[None] = x
    assert x.tolist() == [1] * 3
    assert torch.ones(3).expand(1, 3).stride() == (3, 1) and torch.ones(3).expand(2, 1, 3).stride() == (0, 3, 1)
    assert torch.ones(3).expand(3, 3).tril_().tolist() == [[1, 0, 0]] * 3


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32])
def test_what_has_no_derivative_does_not_come_to_require_one(dtype):
    source = torch.ones(3, requires_grad=True)
    target = torch.zeros(3, dtype=dtype)
    target.copy_(source)
    target[0] = source[0]
    assert not target.requires_grad and target.tolist() == [1] * 3


def test_results_of_comparisons_go_into_any_tensor():
    out = torch.empty(3, requires_grad=True)
    assert torch.eq(torch.ones(3), torch.ones(3), out=out).tolist() == [1] * 3


# ---------------------------------------------------------------- gradients at NaN and among zeros


def test_nans_share_the_gradient_of_an_extreme_value():
    for values, expected in (([nan] * 4, [0.25] * 4), ([1.0, nan, 3.0], [0, 1, 0]), ([2.0, 1.0, 2.0], [0.5, 0, 0.5])):
        x = torch.tensor(values, requires_grad=True)
        x.max().backward()
        assert x.grad.tolist() == expected


def test_products_of_segments_with_zeros_and_nans():
    x = torch.tensor([1.0, nan, 3.0, 0.0, 2.0, 5.0, 0.0, 0.0, 4.0], requires_grad=True)
    torch.segment_reduce(x, "prod", lengths=torch.tensor([3, 3, 3])).sum().backward()
    assert str(x.grad.tolist()) == str([nan, 3.0, nan, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_a_product_of_several_zeros_has_no_second_derivative_here(name):
    x = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    made = getattr(torch.ones(1, dtype=torch.float64), name)(0, torch.tensor([0, 0, 0]), x, "prod")
    (g,) = torch.autograd.grad(made.sum(), x, create_graph=True)
    assert g.tolist() == [0, 0, 0]
    refused("Double backward is unsupported", lambda: torch.autograd.grad(g.sum(), x))


# ---------------------------------------------------------------- numbers and arrays


def test_sums_of_two_numbers_are_tensors():
    assert torch.add(True, True).item() is True and torch.mul(2, 3.0).item() == 6 and torch.sub(3, 1).dtype is torch.int64
    assert torch.add(1, 2, alpha=3).item() == 7 and torch.floor_divide(7, 2).item() == 3
    refused("must be Tensor|invalid combination", lambda: torch.pow(2, 3), TypeError)


def test_tensors_equal_arrays():
    np = pytest.importorskip("numpy")
    x, array = torch.tensor([1, 2, 3]), np.array([1, 5, 3])
    assert (x == array).tolist() == (array == x).tolist() == [True, False, True]
    assert (x == np.array("a")) is False


def test_least_squares_with_a_limit_of_one():
    A = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    ranks = [torch.linalg.lstsq(A, torch.ones(3, 1), rcond=1.0, driver=d).rank.item() for d in ("gelsy", "gelsd", "gelss")]
    assert ranks == [1, 2, 0]


# ---------------------------------------------------------------- indices that are none


def test_indices_and_shapes_that_are_none():
    x = torch.rand(3)
    refused("at least one index", lambda: x.index_put([], torch.tensor([1.0]), True))
    refused("expected 'shape'", lambda: torch.unravel_index(torch.tensor([0]), torch.tensor([2, 2])), TypeError)
    refused("only contain ints", lambda: torch.unravel_index(torch.tensor([0]), (2, 2.0)), TypeError)
    refused("does not support deleting", lambda: x.__delitem__(0), TypeError)


def test_what_is_refused_of_complex_and_whole_numbers():
    """Emptiness is noticed before a dtype without an order, and results of another dtype aren't converted."""
    numbers = torch.tensor([1 + 1j, 2, 3])
    for call in (torch.max, torch.min):
        with pytest.raises(RuntimeError, match="does not support complex input"):
            call(numbers, 0)
        with pytest.raises(IndexError, match="to have non-zero size"):
            call(numbers[:0], 0)
    for call in (torch.max, torch.amin, torch.aminmax):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
            call(numbers)
        with pytest.raises(RuntimeError, match=r"Expected reduction dim|has no identity"):
            call(numbers[:0])
    for x in (numbers, numbers.real > 1):
        with pytest.raises(NotImplementedError, match='"threshold_cpu" not implemented'):
            torch.threshold(x, 1, 0)
    whole = torch.tensor([1, -2, 3])
    with pytest.raises(RuntimeError, match="the output given to float_power has dtype Float"):
        torch.float_power(whole, 2, out=torch.empty(3))
    assert torch.float_power(whole, 2, out=torch.empty(3, dtype=torch.float64)).tolist() == [1, 4, 9]
    with pytest.raises(TypeError, match=r"argument 'posinf' \(position 3\) must be float, not complex"):
        torch.nan_to_num(whole, 3, 1j)
    loss = torch.nn.functional.margin_ranking_loss(whole, -whole, whole.sign(), margin=3)
    assert loss.dtype is torch.float32 and loss.item() == pytest.approx(1 / 3)
