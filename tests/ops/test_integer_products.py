"""Products with int8 and packed int4 weights, and addmm with its activation."""

import pytest

import flambeau as torch


def test_int8_matrices():
    a, b = torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4), torch.arange(8, dtype=torch.int8).reshape(4, 2) * 15
    expected = (a.long() @ b.long()).tolist()
    made = torch._int_mm(a, b)
    assert made.dtype is torch.int32 and made.tolist() == expected
    assert torch._int_mm(a, b.t().contiguous().t(), out=torch.empty(3, 2, dtype=torch.int32)).tolist() == expected
    with pytest.raises(RuntimeError, match=r"^int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got float$"):
        torch._int_mm(a, b.float())
    with pytest.raises(RuntimeError, match=r"^int_mm_out_cpu: self.size\(1\) needs to match mat2.size\(0\) but got 4 and 3$"):
        torch._int_mm(a, a)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("size", [(64, 600, 128), (40, 257, 33), (7, 64, 500), (1, 900, 300), (300, 3, 5), (2, 0, 3)])
def test_int8_matrices_at_their_bounds(dtype, size):
    m, k, n = size
    a = torch.full((m, k), -128 if dtype is torch.int8 else 255, dtype=dtype)
    a[::3] = 127
    b = torch.randint(-128, 128, (k, n), dtype=torch.int8)
    b[:, ::2] = -128
    expected = a.long() @ b.long()
    for left in (a, a.t().contiguous().t()):
        for right in (b, b.t().contiguous().t()):
            made = torch._int_mm(left, right)
            assert made.dtype is torch.int32 and torch.equal(made.long(), expected)


def test_int8_weights():
    x, scales = torch.tensor([[1.0, 2, 3, 4]]), [0.1, 0.2]
    weights = torch.tensor([[1, 2, 3, 4], [-128, 127, 0, 5]], dtype=torch.int8)
    made = torch._weight_int8pack_mm(x, weights, torch.tensor(scales))
    torch.testing.assert_close(made, torch.tensor([[3.0, 29.2]]))
    half = torch._weight_int8pack_mm(x.bfloat16(), weights, torch.tensor(scales, dtype=torch.bfloat16))
    assert half.dtype is torch.bfloat16 and half.tolist() == [[3.0, 29.25]]
    with pytest.raises(RuntimeError, match="expect scales to be 1d tensor with size 2"):
        torch._weight_int8pack_mm(x, weights, torch.ones(3))


def test_int4_weights():
    codes = torch.arange(16 * 64, dtype=torch.int32).reshape(16, 64) * 7 % 16
    scales = torch.linspace(0.5, 1, 64).reshape(2, 16, 2)
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 2)
    assert packed.dtype is torch.uint8 and packed.shape == (16, 32)
    x = torch.linspace(-1, 1, 192).reshape(3, 64)
    weights = torch.cat([(codes[:, 32 * g : 32 * g + 32] - 8) * scales[g, :, :1] + scales[g, :, 1:] for g in range(2)], 1)
    torch.testing.assert_close(torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales), x @ weights.t())
    with pytest.raises(RuntimeError, match="expected scalar type Float but found BFloat16"):
        torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales.bfloat16())
    with pytest.raises(RuntimeError, match="expect K to be divisible by qGroupSize, got K:64, qGroupSize:128"):
        torch._weight_int4pack_mm_for_cpu(x, packed, 128, scales)
    with pytest.raises(RuntimeError, match="expect qGroupSize to be 32, 64, 128 or 256, got 48"):
        torch._weight_int4pack_mm_for_cpu(x, packed, 48, scales)


def numbers_of_int4(codes, group, scales):
    """What packed integers stand for, in float64."""
    rows, deep = codes.shape
    scale, zero = scales.double().transpose(0, 1).unsqueeze(-2).unbind(-1)
    return ((codes.double().reshape(rows, deep // group, group) - 8) * scale + zero).reshape(rows, deep)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 16, 50])
@pytest.mark.parametrize("k, group", [(32, 32), (64, 64), (96, 32), (160, 32), (256, 128), (768, 256)])
def test_int4_weights_by_groups(m, k, group):
    codes, scales = torch.randint(0, 16, (48, k), dtype=torch.int32), torch.randn(k // group, 48, 2)
    packed, x = torch._convert_weight_to_int4pack_for_cpu(codes, 2), torch.randn(m, k)
    for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 8e-3), (torch.float16, 2e-3)):
        x, scales = x.to(dtype), scales.to(dtype)
        expected = x.double() @ numbers_of_int4(codes, group, scales).t()
        made = torch._weight_int4pack_mm_for_cpu(x, packed, group, scales)
        assert made.dtype is dtype and made.shape == (m, 48)
        assert (made - expected).abs().max() <= bound * expected.abs().max()


def test_int4_weights_and_floats_without_bounds():
    codes, scales = torch.randint(0, 16, (16, 64), dtype=torch.int32), torch.rand(2, 16, 2) + 0.01
    packed, x = torch._convert_weight_to_int4pack_for_cpu(codes, 2), torch.ones(2, 64)
    x[0, 3] = float("inf")
    made = torch._weight_int4pack_mm_for_cpu(x, packed, 32, scales)
    weights = numbers_of_int4(codes, 32, scales)
    assert torch.equal(made[0], (weights[:, 3] * float("inf")).float())
    torch.testing.assert_close(made[1], weights.sum(1).float())


@pytest.mark.parametrize("m", [1, 2, 3, 7, 16, 50])
@pytest.mark.parametrize("k, n", [(1, 1), (3, 5), (17, 6), (100, 48), (1030, 9)])
def test_int8_weights_of_any_size(m, k, n):
    weights, scales = torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n) + 0.1
    for x in (torch.randn(m, k), torch.randn(k, m).t()):
        for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 8e-3)):
            x, scales = x.to(dtype), scales.to(dtype)
            expected = x.double() @ weights.double().t() * scales.double()
            made = torch._weight_int8pack_mm(x, weights, scales)
            assert made.dtype is dtype and (made - expected).abs().max() <= bound * expected.abs().max()


def test_products_with_quantized_weights_have_no_derivative():
    x, weights = torch.ones(2, 32, requires_grad=True), torch.ones(16, 32, dtype=torch.int8)
    made = torch._weight_int8pack_mm(x, weights, torch.ones(16))
    with pytest.raises(RuntimeError, match="derivative for aten::_weight_int8pack_mm is not implemented"):
        made.sum().backward()
    packed = torch._convert_weight_to_int4pack_for_cpu(weights.int(), 2)
    made = torch._weight_int4pack_mm_for_cpu(x, packed, 32, torch.ones(1, 16, 2))
    with pytest.raises(RuntimeError, match="derivative for aten::_weight_int4pack_mm_for_cpu is not implemented"):
        made.sum().backward()


def test_quantized_weights_of_no_rows():
    weights = torch.ones(16, 32, dtype=torch.int8)
    assert torch._weight_int8pack_mm(torch.ones(0, 32), weights, torch.ones(16)).shape == (0, 16)
    assert torch._weight_int8pack_mm(torch.ones(2, 0), weights[:, :0].contiguous(), torch.ones(16)).tolist() == [[0] * 16] * 2
    packed = torch._convert_weight_to_int4pack_for_cpu(weights.int(), 2)
    assert torch._weight_int4pack_mm_for_cpu(torch.ones(0, 32), packed, 32, torch.ones(1, 16, 2)).shape == (0, 16)


def test_addmm_with_an_activation():
    x = torch.tensor([[1.0, -2], [3, 0.5]])
    assert torch._addmm_activation(torch.ones(2), x, x).tolist() == [[0, 0], [5.5, 0]]
    made = torch._addmm_activation(torch.ones(2), x, x, use_gelu=True)
    torch.testing.assert_close(made, torch.nn.functional.gelu(torch.addmm(torch.ones(2), x, x)))
