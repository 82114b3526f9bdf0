"""What a call that fails leaves behind: the elements before a division by zero, an `out=` that was resized before the failure."""

import pytest

import flambeau as torch


def _divisor(count, zero, dtype=torch.int64):
    divisor = torch.full((count,), 3, dtype=dtype)
    divisor[zero] = 0
    return divisor


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["fmod_", "remainder_", "floor_divide_"])
def test_a_division_by_zero_ends_the_write_there(name, dtype):
    operation = {"fmod_": lambda x: x % 3, "remainder_": lambda x: x % 3, "floor_divide_": lambda x: x // 3}[name]
    for zero in (0, 17, 36, 39):
        x = torch.arange(1, 41).to(dtype)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(x, name)(_divisor(40, zero, dtype))
        assert x.tolist() == [operation(i) if i <= zero else i for i in range(1, 41)]


def test_elements_are_written_in_the_order_of_memory():
    x = torch.arange(1, 41).reshape(5, 8).t()
    divisor = torch.full((8, 5), 3)
    divisor[2, 3] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.fmod_(divisor)
    assert x.t().flatten().tolist() == [i % 3 if i <= 26 else i for i in range(1, 41)]
    x = torch.arange(1, 41).reshape(5, 8)[:, ::2]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.fmod_(_divisor(5, 2).unsqueeze(1))
    assert x.tolist() == [[1, 0, 2, 1], [0, 2, 1, 0], [17, 19, 21, 23], [25, 27, 29, 31], [33, 35, 37, 39]]


def test_a_result_of_another_dtype_is_written_as_a_whole_or_not_at_all():
    x = torch.arange(1, 41, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.fmod_(_divisor(40, 17))
    assert x.tolist() == list(range(1, 41))
    out = torch.arange(1.0, 41.0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.fmod(torch.arange(1, 41), _divisor(40, 17), out=out)
    assert out.tolist() == list(range(1, 41))
    assert x.fmod_(torch.full((40,), 3)).tolist() == [i % 3 for i in range(1, 41)]


def _complex(*shape):
    return torch.ones(*shape, dtype=torch.complex64)


def _bools(*shape):
    return torch.ones(*shape, dtype=torch.bool)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize(
    "name, out, arguments, shape",
    [
        # what is refused by rules comes before `out` is resized ...
        ("maximum", torch.float32, lambda: (_complex(3), torch.ones(3)), (5,)),
        ("sub", torch.bool, lambda: (_bools(3), _bools(3)), (5,)),
        ("ceil", torch.complex64, lambda: (_complex(3),), (5,)),
        ("logcumsumexp", torch.int64, lambda: (torch.ones(3, dtype=torch.int64), 0), (5,)),
        ("mm", torch.float32, lambda: (torch.ones(2, 3), torch.ones(2, 3)), (5,)),
        # ... and what a kernel refuses or finds, after it
        ("erfinv", torch.complex64, lambda: (_complex(3),), (3,)),
        ("logit", torch.complex64, lambda: (_complex(3),), (3,)),
        ("nextafter", torch.complex64, lambda: (_complex(3), _complex(3)), (3,)),
        ("amax", torch.complex64, lambda: (_complex(2, 3), 1), (2,)),
        ("index_select", torch.float32, lambda: (torch.ones(3), 0, torch.tensor([1, 7])), (2,)),
        ("std", torch.int64, lambda: (torch.ones(2, 3), 1), (2,)),
        ("matmul", torch.bool, lambda: (_bools(2, 2), _bools(2, 2)), (2, 2)),
        ("matmul", torch.bool, lambda: (_bools(2), _bools(2, 2)), (1, 2)),
        ("matmul", torch.float32, lambda: (torch.ones(2, 3), torch.ones(1, 2, 3)), (1, 2, 3)),
        ("matmul", torch.int64, lambda: (torch.ones(3, 2, 2), torch.ones(3, 2, 2)), (3, 2, 2)),
        ("matmul", torch.float32, lambda: (torch.tensor(1.0), torch.tensor(1.0)), (5,)),
        ("matmul", torch.float32, lambda: (torch.ones(3), torch.ones(2)), ()),
    ],
)
def test_out_is_resized_or_not_before_a_call_fails(name, out, arguments, shape):
    out = torch.ones(5, dtype=out)
    with pytest.raises((RuntimeError, NotImplementedError, IndexError)):
        getattr(torch, name)(*arguments(), out=out)
    assert out.shape == shape


def test_kernels_refuse_a_dtype_where_there_is_something_to_do():
    x = torch.zeros(2, 0, 3, dtype=torch.complex64)
    assert x.amax(0).shape == (0, 3) and x.amin((0, 2), keepdim=True).shape == (1, 0, 1)
    assert [y.shape for y in x.cummax(0)] == [(2, 0, 3)] * 2 and [y.shape for y in x.mode(0)] == [(0, 3)] * 2
    assert x.bernoulli_(0.3) is x and x.geometric_(0.4) is x and x.log_normal_() is x
    counts = torch.zeros(0, 4, dtype=torch.int64)
    assert torch.nn.functional.batch_norm(counts, torch.zeros(4), torch.ones(4), training=True).dtype == torch.int64
    with pytest.raises(NotImplementedError, match="cummax_cpu"):
        torch.zeros(2, dtype=torch.complex64).cummax(0)


def test_assignment_through_true_is_a_copy():
    x = torch.zeros(2, 3, dtype=torch.int64)
    x[True] = torch.full((3,), 2.5)
    assert x.tolist() == [[2, 2, 2]] * 2
    x[False] = torch.ones(3)
    assert x.tolist() == [[2, 2, 2]] * 2
    one = torch.tensor(3)
    one[None] = one
    one[True] = one
    assert one.item() == 3


def test_rolling_no_elements_looks_at_no_dimension():
    assert torch.zeros(0, 0, 3).roll(4, -4).shape == (0, 0, 3)
    with pytest.raises(IndexError):
        torch.zeros(2, 2, 3).roll(4, -4)


def test_map_over_elements_in_one_place_sees_what_was_left():
    x = torch.tensor([3, 4])[None].expand(2, 2)
    x.map_(torch.tensor([[1, 2], [3, 4]]), lambda a, b: a + b)
    assert x.tolist() == [[7, 10], [7, 10]]
    assert torch.tensor([3]).expand(2, 3).apply_(lambda a: a + 1).tolist() == [[9, 9, 9]] * 2
