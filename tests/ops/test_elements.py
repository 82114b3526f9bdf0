"""Python numbers as elements: which dtypes refuse them, in PyTorch's words, and the ends of ranges."""

import math

import pytest

import flambeau as torch

MASK = torch.tensor([True, False])
WRITERS = {
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill_": lambda x, v: x.fill_(v),
    "fill": torch.fill,
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0]), v),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0]), v),
}
NAMES = {"uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t", "float16": "c10::Half"}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("uint8", 300),
        ("uint8", -256),
        ("uint8", -0.5),
        ("int8", 128),
        ("int16", 1e5),
        ("int32", 2**31),
        ("int64", math.nan),
        ("int64", math.inf),
        ("int64", 1e39),
        ("float16", -1e9),
        ("float16", 70000),
    ],
)
def test_numbers_that_overflow_are_refused(writer, dtype, value):
    with pytest.raises(RuntimeError, match=rf"^value cannot be converted to type {NAMES[dtype]} without overflow"):
        WRITERS[writer](torch.ones(2, dtype=getattr(torch, dtype)), value)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("uint8", -1, 255),
        ("uint8", 255, 255),
        ("int8", -128, -128),
        ("int32", 3.7, 3),
        ("float16", math.inf, math.inf),
        ("bool", 1e39, True),
        ("float16", 65504, 65504),
        ("bfloat16", 1e30, 1.0014237108804814e30),
    ],
)
def test_numbers_that_fit(writer, dtype, value, expected):
    made = WRITERS[writer](torch.ones(2, dtype=getattr(torch, dtype)), value)
    assert made[0].item() == pytest.approx(expected, rel=1e-2)


def test_an_assigned_element_of_16_bits_may_overflow():
    x = torch.ones(3, dtype=torch.float16)
    x[0], x[1] = 1e6, -1e6
    assert x.tolist() == [math.inf, -math.inf, 1]
    with pytest.raises(RuntimeError, match="uint8_t without overflow"):
        torch.ones(3, dtype=torch.uint8)[0] = 300


def test_ranges_between_elements():
    assert torch.linspace(-3, 3, 4, dtype=torch.uint8).tolist() == [253, 169, 86, 3]
    assert torch.linspace(-3.5, 3, 4, dtype=torch.int8).tolist() == [-3, -1, 1, 3]
    with pytest.raises(RuntimeError, match=r"^value cannot be converted to type uint8_t without overflow"):
        torch.linspace(0, 300, 4, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=r"^value cannot be converted to type int8_t without overflow"):
        torch.logspace(0, math.nan, 4, dtype=torch.int8)
    for name in ("linspace", "logspace"):
        with pytest.raises(NotImplementedError, match=rf'^"{name}_cpu" not implemented for \'Bool\''):
            getattr(torch, name)(0, 1, 4, dtype=torch.bool)
        assert getattr(torch, name)(1, 1, 1, dtype=torch.bool).tolist() == [True]


@pytest.mark.parametrize("call", [lambda b: True**b, lambda b: torch.pow(False, b), lambda b: b**b])
def test_bools_to_the_power_of_bool_tensors_are_refused(call):
    with pytest.raises(NotImplementedError, match=r'^"pow" not implemented for .Bool.'):
        call(torch.tensor([True, False]))


@pytest.mark.parametrize(
    ("dtype", "low", "high", "words"),
    [
        (torch.int8, 0, 300, "to - 1 is out of bounds for signed char"),
        (torch.uint8, -5, 3, "from is out of bounds for unsigned char"),
        (torch.bool, 0, 3, "to - 1 is out of bounds for bool"),
        (torch.float16, 0, 2**40, "to - 1 is out of bounds for c10::Half"),
    ],
)
def test_random_integers_beyond_the_dtype(dtype, low, high, words):
    for call in (
        lambda: torch.randint(low, high, (3,), dtype=dtype),
        lambda: torch.empty(3, dtype=dtype).random_(low, high),
        lambda: torch.randint_like(torch.empty(3, dtype=dtype), low, high),
    ):
        with pytest.raises(RuntimeError, match=rf"^{words}"):
            call()


def test_random_integers_end_below_a_bound_that_rounds_up():
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match=r"^to - 1 is out of bounds \[-\(2\^24\), 2\^24\]\. Due to precision"):
        assert torch.randint_like(torch.empty(3), 2**40).tolist() == [245195849728, 192984694784, 954192953344]


def test_pooled_places_with_gaps_get_planes_of_their_own():
    places = torch.arange(12).reshape(1, 3, 4).repeat_interleave(2, -1)[..., ::2].view(1, 1, 3, 4)
    values = torch.ones(1, 1, 3, 8)[..., ::2].requires_grad_()
    torch.nn.functional.max_unpool2d(values, places, 1, 1).sum().backward()
    assert values.grad.tolist() == torch.ones(1, 1, 3, 4).tolist() and values.grad.is_contiguous()
