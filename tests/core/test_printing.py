# ruff: noqa: E501 - the texts are as recorded
"""How tensors print, against texts recorded from PyTorch 2.13."""

import pytest

import flambeau as torch
from flambeau import inf, nan

PRINTED = {
    "torch.tensor(3)": "tensor(3)",
    "torch.tensor(2.0)": "tensor(2.)",
    "torch.tensor(3.14159)": "tensor(3.1416)",
    "torch.tensor(True)": "tensor(True)",
    "torch.tensor(1e-9)": "tensor(1.0000e-09)",
    "torch.tensor([])": "tensor([])",
    "torch.empty(0, 3)": "tensor([], size=(0, 3))",
    "torch.empty(0, dtype=torch.int64)": "tensor([], dtype=torch.int64)",
    "torch.empty(2, 0, dtype=torch.bool)": "tensor([], size=(2, 0), dtype=torch.bool)",
    "torch.tensor([1, -20, 300])": "tensor([  1, -20, 300])",
    "torch.tensor([True, False])": "tensor([ True, False])",
    "torch.tensor([0.5, 1.25, -3.0])": "tensor([ 0.5000,  1.2500, -3.0000])",
    "torch.tensor([1.0, 2.0, -3.0])": "tensor([ 1.,  2., -3.])",
    "torch.tensor([1.0, 10000.0])": "tensor([1.0000e+00, 1.0000e+04])",
    "torch.tensor([1.5, 10000.0])": "tensor([1.5000e+00, 1.0000e+04])",
    "torch.tensor([1e-5, 1.0])": "tensor([1.0000e-05, 1.0000e+00])",
    "torch.tensor([1e9, 2e9])": "tensor([1.0000e+09, 2.0000e+09])",
    "torch.tensor([0.0, 0.0])": "tensor([0., 0.])",
    "torch.tensor([nan, 1.0, inf, -inf])": "tensor([nan, 1., inf, -inf])",
    "torch.tensor([nan, 0.5, -inf])": "tensor([   nan, 0.5000,   -inf])",
    "torch.tensor([nan])": "tensor([nan])",
    "torch.tensor([-0.0, 0.25])": "tensor([-0.0000, 0.2500])",
    "torch.tensor([1.5, 2.5], dtype=torch.float64)": "tensor([1.5000, 2.5000], dtype=torch.float64)",
    "torch.tensor([1.5, 2.5], dtype=torch.float16)": "tensor([1.5000, 2.5000], dtype=torch.float16)",
    "torch.tensor([1.5, -2.5], dtype=torch.bfloat16)": "tensor([ 1.5000, -2.5000], dtype=torch.bfloat16)",
    "torch.tensor([1, 2], dtype=torch.int32)": "tensor([1, 2], dtype=torch.int32)",
    "torch.tensor([200, 1], dtype=torch.uint8)": "tensor([200,   1], dtype=torch.uint8)",
    "torch.tensor([1 + 2j, 3 - 1.5j])": "tensor([1.+2.0000j, 3.-1.5000j])",
    "torch.tensor([1 + 2j], dtype=torch.complex128)": "tensor([1.+2.j], dtype=torch.complex128)",
    "torch.tensor(complex(0.5, -0.0))": "tensor(0.5000-0.j)",
    "torch.tensor([complex(nan, inf), 1j])": "tensor([nan+infj, 0.+1.j])",
    "torch.arange(6).reshape(2, 3)": "tensor([[0, 1, 2],\n        [3, 4, 5]])",
    "torch.arange(24.0).reshape(2, 3, 4)": "tensor([[[ 0.,  1.,  2.,  3.],\n         [ 4.,  5.,  6.,  7.],\n         [ 8.,  9., 10., 11.]],\n\n        [[12., 13., 14., 15.],\n         [16., 17., 18., 19.],\n         [20., 21., 22., 23.]]])",
    "torch.arange(30) * 1000": "tensor([    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,\n        10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000,\n        20000, 21000, 22000, 23000, 24000, 25000, 26000, 27000, 28000, 29000])",
    "torch.arange(1000)[:40] / 7": "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,\n        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,\n        2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,\n        3.8571, 4.0000, 4.1429, 4.2857, 4.4286, 4.5714, 4.7143, 4.8571, 5.0000,\n        5.1429, 5.2857, 5.4286, 5.5714])",
    "torch.arange(1001)": "tensor([   0,    1,    2,  ...,  998,  999, 1000])",
    "torch.arange(2000).reshape(2, 1000)": "tensor([[   0,    1,    2,  ...,  997,  998,  999],\n        [1000, 1001, 1002,  ..., 1997, 1998, 1999]])",
    "torch.arange(4000.0).reshape(10, 20, 20)": "tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.7000e+01,\n          1.8000e+01, 1.9000e+01],\n         [2.0000e+01, 2.1000e+01, 2.2000e+01,  ..., 3.7000e+01,\n          3.8000e+01, 3.9000e+01],\n         [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 5.7000e+01,\n          5.8000e+01, 5.9000e+01],\n         ...,\n         [3.4000e+02, 3.4100e+02, 3.4200e+02,  ..., 3.5700e+02,\n          3.5800e+02, 3.5900e+02],\n         [3.6000e+02, 3.6100e+02, 3.6200e+02,  ..., 3.7700e+02,\n          3.7800e+02, 3.7900e+02],\n         [3.8000e+02, 3.8100e+02, 3.8200e+02,  ..., 3.9700e+02,\n          3.9800e+02, 3.9900e+02]],\n\n        [[4.0000e+02, 4.0100e+02, 4.0200e+02,  ..., 4.1700e+02,\n          4.1800e+02, 4.1900e+02],\n         [4.2000e+02, 4.2100e+02, 4.2200e+02,  ..., 4.3700e+02,\n          4.3800e+02, 4.3900e+02],\n         [4.4000e+02, 4.4100e+02, 4.4200e+02,  ..., 4.5700e+02,\n          4.5800e+02, 4.5900e+02],\n         ...,\n         [7.4000e+02, 7.4100e+02, 7.4200e+02,  ..., 7.5700e+02,\n          7.5800e+02, 7.5900e+02],\n         [7.6000e+02, 7.6100e+02, 7.6200e+02,  ..., 7.7700e+02,\n          7.7800e+02, 7.7900e+02],\n         [7.8000e+02, 7.8100e+02, 7.8200e+02,  ..., 7.9700e+02,\n          7.9800e+02, 7.9900e+02]],\n\n        [[8.0000e+02, 8.0100e+02, 8.0200e+02,  ..., 8.1700e+02,\n          8.1800e+02, 8.1900e+02],\n         [8.2000e+02, 8.2100e+02, 8.2200e+02,  ..., 8.3700e+02,\n          8.3800e+02, 8.3900e+02],\n         [8.4000e+02, 8.4100e+02, 8.4200e+02,  ..., 8.5700e+02,\n          8.5800e+02, 8.5900e+02],\n         ...,\n         [1.1400e+03, 1.1410e+03, 1.1420e+03,  ..., 1.1570e+03,\n          1.1580e+03, 1.1590e+03],\n         [1.1600e+03, 1.1610e+03, 1.1620e+03,  ..., 1.1770e+03,\n          1.1780e+03, 1.1790e+03],\n         [1.1800e+03, 1.1810e+03, 1.1820e+03,  ..., 1.1970e+03,\n          1.1980e+03, 1.1990e+03]],\n\n        ...,\n\n        [[2.8000e+03, 2.8010e+03, 2.8020e+03,  ..., 2.8170e+03,\n          2.8180e+03, 2.8190e+03],\n         [2.8200e+03, 2.8210e+03, 2.8220e+03,  ..., 2.8370e+03,\n          2.8380e+03, 2.8390e+03],\n         [2.8400e+03, 2.8410e+03, 2.8420e+03,  ..., 2.8570e+03,\n          2.8580e+03, 2.8590e+03],\n         ...,\n         [3.1400e+03, 3.1410e+03, 3.1420e+03,  ..., 3.1570e+03,\n          3.1580e+03, 3.1590e+03],\n         [3.1600e+03, 3.1610e+03, 3.1620e+03,  ..., 3.1770e+03,\n          3.1780e+03, 3.1790e+03],\n         [3.1800e+03, 3.1810e+03, 3.1820e+03,  ..., 3.1970e+03,\n          3.1980e+03, 3.1990e+03]],\n\n        [[3.2000e+03, 3.2010e+03, 3.2020e+03,  ..., 3.2170e+03,\n          3.2180e+03, 3.2190e+03],\n         [3.2200e+03, 3.2210e+03, 3.2220e+03,  ..., 3.2370e+03,\n          3.2380e+03, 3.2390e+03],\n         [3.2400e+03, 3.2410e+03, 3.2420e+03,  ..., 3.2570e+03,\n          3.2580e+03, 3.2590e+03],\n         ...,\n         [3.5400e+03, 3.5410e+03, 3.5420e+03,  ..., 3.5570e+03,\n          3.5580e+03, 3.5590e+03],\n         [3.5600e+03, 3.5610e+03, 3.5620e+03,  ..., 3.5770e+03,\n          3.5780e+03, 3.5790e+03],\n         [3.5800e+03, 3.5810e+03, 3.5820e+03,  ..., 3.5970e+03,\n          3.5980e+03, 3.5990e+03]],\n\n        [[3.6000e+03, 3.6010e+03, 3.6020e+03,  ..., 3.6170e+03,\n          3.6180e+03, 3.6190e+03],\n         [3.6200e+03, 3.6210e+03, 3.6220e+03,  ..., 3.6370e+03,\n          3.6380e+03, 3.6390e+03],\n         [3.6400e+03, 3.6410e+03, 3.6420e+03,  ..., 3.6570e+03,\n          3.6580e+03, 3.6590e+03],\n         ...,\n         [3.9400e+03, 3.9410e+03, 3.9420e+03,  ..., 3.9570e+03,\n          3.9580e+03, 3.9590e+03],\n         [3.9600e+03, 3.9610e+03, 3.9620e+03,  ..., 3.9770e+03,\n          3.9780e+03, 3.9790e+03],\n         [3.9800e+03, 3.9810e+03, 3.9820e+03,  ..., 3.9970e+03,\n          3.9980e+03, 3.9990e+03]]])",
    "torch.full((1, 1001), 4293471580, dtype=torch.int64).to(torch.int32) * 0 + 123456789": "tensor([[123456789, 123456789, 123456789,  ..., 123456789, 123456789,\n         123456789]], dtype=torch.int32)",
    "torch.tensor([0.5, 1.0], requires_grad=True)": "tensor([0.5000, 1.0000], requires_grad=True)",
    "torch.tensor([0.5, 1.0], requires_grad=True) * 2": "tensor([1., 2.], grad_fn=<MulBackward0>)",
    "torch.arange(12.0).reshape(3, 4).requires_grad_().sum(0)": "tensor([12., 15., 18., 21.], grad_fn=<SumBackward1>)",
    'torch.empty(2, 3, device="meta")': "tensor(..., device='meta', size=(2, 3))",
    'torch.empty(2, 3, device="meta", dtype=torch.int64)': "tensor(..., device='meta', size=(2, 3), dtype=torch.int64)",
    "torch.arange(6).reshape(2, 3).t()": "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])",
    "torch.tensor([[1e10, -1e-10], [nan, 3.0]])": "tensor([[ 1.0000e+10, -1.0000e-10],\n        [        nan,  3.0000e+00]])",
}

WITH_OPTIONS = [
    ("torch.tensor([1 / 3, 2e6])", {"precision": 2}, "tensor([3.33e-01, 2.00e+06])"),
    ("torch.tensor([1 / 3, 2e6])", {"sci_mode": False}, "tensor([      0.3333, 2000000.0000])"),
    ("torch.tensor([1 / 3, 2.0])", {"sci_mode": True}, "tensor([3.3333e-01, 2.0000e+00])"),
    ("torch.arange(20)", {"threshold": 10}, "tensor([ 0,  1,  2,  ..., 17, 18, 19])"),
    ("torch.arange(20)", {"threshold": 10, "edgeitems": 1}, "tensor([ 0,  ..., 19])"),
    ("torch.arange(20)", {"threshold": 10, "edgeitems": 0}, "tensor([...], size=(20,))"),
    (
        "torch.arange(40)",
        {"linewidth": 40},
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,\n         8,  9, 10, 11, 12, 13, 14, 15,\n        16, 17, 18, 19, 20, 21, 22, 23,\n        24, 25, 26, 27, 28, 29, 30, 31,\n        32, 33, 34, 35, 36, 37, 38, 39])",
    ),
    ("torch.arange(1200)", {"profile": "short"}, "tensor([   0,    1,  ..., 1198, 1199])"),
    (
        "torch.arange(20.0).reshape(4, 5) / 3",
        {"profile": "full", "linewidth": 30},
        "tensor([[0.0000, 0.3333,\n         0.6667, 1.0000,\n         1.3333],\n        [1.6667, 2.0000,\n         2.3333, 2.6667,\n         3.0000],\n        [3.3333, 3.6667,\n         4.0000, 4.3333,\n         4.6667],\n        [5.0000, 5.3333,\n         5.6667, 6.0000,\n         6.3333]])",
    ),
]


@pytest.fixture
def default_options():
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize("expression", PRINTED)
def test_printed_as_pytorch_prints(expression):
    assert repr(eval(expression, {"torch": torch, "inf": inf, "nan": nan})) == PRINTED[expression]


@pytest.mark.parametrize(("expression", "options", "text"), WITH_OPTIONS)
def test_print_options(default_options, expression, options, text):
    torch.set_printoptions(**options)
    assert repr(eval(expression, {"torch": torch})) == text


def test_sci_mode_is_reset_by_the_next_call(default_options):
    torch.set_printoptions(sci_mode=True)
    torch.set_printoptions(precision=3)
    assert repr(torch.tensor([1.5])) == "tensor([1.500])"


def test_a_default_dtype_needs_no_suffix():
    torch.set_default_dtype(torch.float64)
    try:
        assert repr(torch.tensor([0.5])) == "tensor([0.5000])"
        assert repr(torch.tensor([0.5], dtype=torch.float32)) == "tensor([0.5000], dtype=torch.float32)"
    finally:
        torch.set_default_dtype(torch.float32)


def test_format_of_a_tensor_without_dimensions_is_that_of_its_number():
    assert f"{torch.tensor(3.14159):.2f}" == "3.14"
    assert f"{torch.tensor(7):>4}" == "   7"
    assert f"{torch.tensor([1, 2])}" == "tensor([1, 2])"
    with pytest.raises(TypeError, match="unsupported format string"):
        format(torch.tensor([1.0]), ".2f")
