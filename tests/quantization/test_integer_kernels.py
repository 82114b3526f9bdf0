"""Kernels of quantized products and convolutions: exact sums, whatever the shapes, and nothing read past an operand."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.quantized import dots
from flambeau.codegen.quantized import integer_products as kernels
from flambeau.nn import functional as F
from flambeau.ops.quantized import products
from tests.test_memory_safety import guarded, survives

q = torch.ops.quantized


def quantized(shape, scale=0.05, zero_point=60, dtype=torch.quint8):
    return torch._make_per_tensor_quantized_tensor(
        torch.randint(0, 256, shape, dtype=torch.uint8).view(torch.uint8 if dtype is torch.quint8 else torch.int8),
        scale,
        zero_point,
    )


def weight(shape, zero_point=0):
    """Integers of all values, which the sums of a few products with 255 don't fit into 16 bits of."""
    integers = torch.randint(-128, 128, shape, dtype=torch.int8)
    integers.flatten()[: integers.numel() // 2] = -128
    return torch._make_per_tensor_quantized_tensor(integers, 0.02, zero_point)


def whole(x):
    """Integers without their zero point, in float64: sums of their products are exact."""
    return x.int_repr().double() - x.q_zero_point()


def rounded(sums, x, w, bias, scale, zero_point, low, high):
    """What is specified of sums of integers, step by step in float32."""
    units = np.float32(np.float32(w.q_scale()) * np.float32(x.q_scale()))
    numbers = sums.numpy().astype(np.float32)
    if bias is not None:
        numbers = numbers + bias.numpy() * (np.float32(1) / units)
    steps = np.rint(numbers * (units / np.float32(scale))) + np.float32(zero_point)
    return torch.from_numpy(np.clip(steps, low, high))


@pytest.fixture(params=["own", dots.PLAIN])
def how(request, monkeypatch):
    """The processor's own way of multiplying bytes, and the one of processors without any."""
    if request.param != "own":
        monkeypatch.setattr(dots, "way", lambda: request.param)
        products._plans.clear()
        yield request.param
        products._plans.clear()
    else:
        yield dots.way()


@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 13), (2, 4), (3, 3), (5, 7), (40, 100), (131, 12)])
@pytest.mark.parametrize("k", [1, 15, 16, 33, 200])
def test_products_are_exact(how, rows, columns, k):
    for dtype in (torch.quint8, torch.qint8):
        for zero_point in (0, 3):
            x, w, bias = quantized((rows, k), dtype=dtype), weight((columns, k), zero_point), torch.randn(columns)
            packed = q.linear_prepack(w, bias)
            sums, (low, high) = whole(x) @ whole(w).t(), (0, 255) if dtype is torch.quint8 else (-128, 127)
            made = q.linear(x, packed, 3.0, 20)
            assert torch.equal(made.int_repr().float(), rounded(sums, x, w, bias, 3.0, 20, low, high))
            made = q.linear_relu(x, packed, 3.0, 20)
            assert torch.equal(made.int_repr().float(), rounded(sums, x, w, bias, 3.0, 20, 20, high))


@pytest.mark.parametrize("rows, k, columns", [(5, 3072, 150), (2, 10000, 100), (130, 1500, 97), (4, 70000, 50)])
def test_long_products_are_exact(rows, k, columns):
    """Of which only some columns' weights are in the cache at a time."""
    x, w, bias = quantized((rows, k)), weight((columns, k), 1), torch.randn(columns)
    made = q.linear(x, q.linear_prepack(w, bias), 200.0, 128)
    assert torch.equal(made.int_repr().float(), rounded(whole(x) @ whole(w).t(), x, w, bias, 200.0, 128, 0, 255))


@pytest.mark.parametrize("rows, k", [(1, 64), (3, 70), (7, 31), (50, 256)])
@pytest.mark.parametrize("place", [None, 0, -1])
def test_activations_of_seven_bits(rows, k, place):
    """They are multiplied in another way, unless a single one has eight."""
    x, w = torch.full((rows, k), 127, dtype=torch.uint8), torch.full((5, k), -128, dtype=torch.int8)
    w[1], w[2, ::2] = 127, 127
    if place is not None:
        x.flatten()[place] = 255
    x, w = torch._make_per_tensor_quantized_tensor(x, 1.0, 0), torch._make_per_tensor_quantized_tensor(w, 1.0, 0)
    made = q.linear(x, q.linear_prepack(w, None), float(k * 200), 128)
    assert torch.equal(made.int_repr().float(), rounded(whole(x) @ whole(w).t(), x, w, None, k * 200, 128, 0, 255))


@pytest.mark.parametrize("rows, k, columns", [(1, 1, 1), (1, 64, 9), (3, 33, 5), (20, 100, 16)])
def test_dynamic_products(how, rows, k, columns):
    x, w, bias = torch.randn(rows, k), weight((columns, k), 2), torch.randn(columns)
    scale, zero_point = torch._choose_qparams_per_tensor(x, True)
    steps = np.clip(np.rint(x.numpy() / np.float32(scale) + zero_point), 0, 127)
    numbers = (torch.from_numpy(steps).double() - zero_point) @ whole(w).t() * (scale * w.q_scale()) + bias
    made = q.linear_dynamic(x, q.linear_prepack(w, bias), True)
    torch.testing.assert_close(made, numbers.float())
    torch.testing.assert_close(q.linear_relu_dynamic(x, q.linear_prepack(w, bias), True), numbers.float().relu())
    strided = q.linear_dynamic(x.t().contiguous().t(), q.linear_prepack(w, bias), True)
    assert torch.equal(strided, made)


CONVOLUTIONS = [
    # dims, channels, output channels, groups, taps, stride, padding, dilation
    (1, 3, 5, 1, 3, 2, 1, 1),
    (1, 8, 8, 8, 3, 1, 2, 2),
    (2, 3, 8, 1, 7, 2, 3, 1),
    (2, 16, 20, 1, 1, 1, 0, 1),
    (2, 16, 20, 1, 1, 2, 0, 1),
    (2, 6, 9, 3, 3, 1, 1, 2),
    (2, 17, 17, 17, 3, 1, 1, 1),
    (2, 32, 64, 32, 3, 2, 1, 1),
    (2, 20, 4, 1, 3, 1, 4, 1),
    (3, 4, 6, 2, 2, 1, 1, 1),
    (3, 6, 6, 6, 3, 2, 1, 1),
    (1, 43, 43, 43, 3, 1, 4, 2),
    (2, 107, 107, 107, 5, 2, 2, 1),
    (2, 66, 42, 2, 3, 1, 1, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_are_exact(how, case):
    dims, channels, out, groups, taps, stride, padding, dilation = case
    numbers = [stride] * dims, [padding] * dims, [dilation] * dims, groups
    convolution = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    x = quantized((2, channels, *(9, 8, 7)[:dims]))
    for w in (weight((out, channels // groups, *[taps] * dims)), weight((out, channels // groups, *[taps] * dims), 5)):
        bias = torch.randn(out)
        packed = getattr(q, f"conv{dims}d_prepack")(w, bias, *numbers)
        sums = convolution(whole(x), whole(w), None, *numbers)
        wanted = rounded(sums, x, w, bias.reshape(-1, *[1] * dims), 4.0, 30, 0, 255)
        operator = getattr(q, f"conv{dims}d") if dims == 1 else getattr(q, f"conv{dims}d").new
        made = operator(x, packed, 4.0, 30)
        assert torch.equal(made.int_repr().float(), wanted)
        assert made.is_contiguous(memory_format=torch.channels_last) or dims != 2
        strided = operator(x.transpose(-1, -2).contiguous().transpose(-1, -2) if dims > 1 else x, packed, 4.0, 30)
        assert torch.equal(strided.int_repr(), made.int_repr())


@pytest.mark.parametrize(
    "stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 2), (3, 2, 2, 1), (2, 3, 1, 4), (2, 1, 1, 8)]
)
def test_transposed_convolutions_are_exact(stride, padding, dilation, groups):
    x, w, bias = quantized((2, 8, 6, 5)), weight((8, 8 // groups, 3, 3)), torch.randn(8)
    more = [stride - 1] * 2
    packed = q.conv_transpose2d_prepack(w, bias, [stride] * 2, [padding] * 2, more, [dilation] * 2, groups)
    sums = F.conv_transpose2d(whole(x), whole(w), None, stride, padding, more, groups, dilation)
    wanted = rounded(sums, x, w, bias.reshape(-1, 1, 1), 4.0, 30, 0, 255)
    assert torch.equal(q.conv_transpose2d(x, packed, 4.0, 30).int_repr().float(), wanted)


def test_what_does_not_fit_is_refused():
    packed = q.conv2d_prepack(weight((4, 3, 3, 3)), None, [1, 1], [0, 0], [1, 1], 1)
    with pytest.raises(RuntimeError, match="to have 3 channels, but got 4 channels instead"):
        q.conv2d.new(quantized((1, 4, 5, 5)), packed, 1.0, 0)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        q.conv2d.new(quantized((1, 3, 2, 5)), packed, 1.0, 0)
    with pytest.raises(RuntimeError, match="out of the range"):
        q.conv2d.new(quantized((1, 3, 5, 5)), packed, 1.0, 256)
    with pytest.raises(RuntimeError, match="should be equal to K"):
        q.linear(quantized((2, 5)), q.linear_prepack(weight((3, 4)), None), 1.0, 0)


def test_convolutions_by_channel_take_signed_bytes_and_channels_of_their_own():
    """Each channel has a scale and a zero point; the numbers of threads make no difference."""
    w = torch._make_per_channel_quantized_tensor(
        torch.randint(-128, 128, (70, 1, 3, 3), dtype=torch.int8), torch.rand(70) + 0.5, torch.randint(-99, 99, (70,)), 0
    )
    x = quantized((3, 70, 20, 21), 0.25, -128, torch.qint8)
    packed = q.conv2d_prepack(w, None, [1, 2], [1, 0], [1, 1], 70)
    zeros = w.q_per_channel_zero_points().double().reshape(-1, 1, 1, 1)
    sums = F.conv2d(whole(x), w.int_repr().double() - zeros, None, (1, 2), (1, 0), 1, 70).numpy().astype(np.float32)
    units = w.q_per_channel_scales().numpy().astype(np.float32).reshape(-1, 1, 1) * np.float32(0.25)
    wanted = np.clip(np.rint(sums * (units / np.float32(900.0))) + np.float32(11), -128, 127)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert np.array_equal(q.conv2d.new(x, packed, 900.0, 11).int_repr().numpy(), wanted)
    finally:
        torch.set_num_threads(before)


def test_biases_half_way_between_integers():
    """By the reciprocal of the scale where all columns have one, else by each column's scale: the last bits decide."""
    bias = (torch.arange(203) + 0.5).mul(0.05).float()
    x = torch._make_per_tensor_quantized_tensor(torch.full((1, 203, 1, 1), 7, dtype=torch.uint8), 0.1, 7)
    ones = torch.ones(203, 1, 1, 1, dtype=torch.int8)
    unit, factor = np.float32(np.float32(0.02) * np.float32(0.1)), bias.numpy()
    steps = {True: factor * (np.float32(1) / unit), False: factor / unit}
    wanted = {k: np.clip(np.rint(v * (unit / np.float32(0.05))) + np.float32(5), 0, 255) for k, v in steps.items()}
    assert (wanted[True] != wanted[False]).sum() > 10
    whole = torch._make_per_tensor_quantized_tensor(ones, 0.02, 0)
    each = torch._make_per_channel_quantized_tensor(ones, torch.full((203,), 0.02), torch.zeros(203, dtype=torch.long), 0)
    for single, w in ((True, whole), (False, each)):
        depthwise = q.conv2d.new(x, q.conv2d_prepack(w, bias, [1, 1], [0, 0], [1, 1], 203), 0.05, 5)
        product = q.linear(x.flatten(1)[:, :1], q.linear_prepack(w.flatten(1), bias), 0.05, 5)
        for made in (depthwise, product):
            assert np.array_equal(made.int_repr().flatten().numpy(), wanted[single])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("scales", [(0.1, 0.05, 0.07), (0.013, 1.7, 0.5), (1e30, 1e30, 0.02), (0.1, 0.1, 0.0)])
def test_products_of_two_tensors_are_products_of_integers(dtype, scales):
    """Of all pairs; by one factor, and what is no int32 counts as the least one, to which the zero point is added."""
    less, low = (0, 0) if dtype is torch.uint8 else (128, -128)
    zeros = 60 - less, 3 - less, 30 - less
    every = torch.arange(256, dtype=torch.uint8).view(dtype)
    a, b = every.repeat_interleave(256), every.repeat(256)
    x, y = (torch._make_per_tensor_quantized_tensor(v, s, z) for v, s, z in zip((a, b), scales, zeros, strict=False))
    products = ((a.int() - zeros[0]) * (b.int() - zeros[1])).numpy().astype(np.float32)
    first, second, third = (np.float32(scale) for scale in scales)
    with np.errstate(all="ignore"):
        steps = np.rint(products * (first * second * (np.float32(1) / third)))
    whole = np.where(np.abs(steps) < 2**31, steps, -(2.0**31)).astype(np.int64) + zeros[2]
    wanted = np.clip((whole + 2**31) % 2**32 - 2**31, low, low + 255)
    assert np.array_equal(q.mul(x, y, scales[2], zeros[2]).int_repr().numpy(), wanted)
    assert np.array_equal(q.mul_relu(x, y, scales[2], zeros[2]).int_repr().numpy(), np.maximum(wanted, zeros[2]))
    third = torch._make_per_tensor_quantized_tensor(torch.zeros(1, dtype=dtype), scales[2], zeros[2])
    assert q.mul_out(x, y, third) is third and np.array_equal(third.int_repr().numpy(), wanted)
    with pytest.raises(RuntimeError, match="doesn't match the input tensor's dtype"):
        q.mul_out(x, y, torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint32))


def test_prelu_of_a_line_has_a_weight_for_each_element():
    x = torch._make_per_tensor_quantized_tensor(torch.tensor([0, 60, 120], dtype=torch.uint8), 0.1, 60)
    w = torch._make_per_tensor_quantized_tensor(torch.tensor([1, 2, 3], dtype=torch.uint8), 0.25, 0)
    assert q.prelu(x, w, 0.05, 200).int_repr().tolist() == [170, 200, 255]
    assert q.prelu(x, w[:1], 0.05, 200).int_repr().tolist() == [170, 200, 255]


def test_packed_weights_are_copies():
    """Of a weight; a bias is the tensor that was given."""
    one, nothing = (
        torch._make_per_tensor_quantized_tensor(torch.full((4, 64, 1, 1), n, dtype=torch.int8), 1.0, 0) for n in (1, 0)
    )
    x, bias = torch._make_per_tensor_quantized_tensor(torch.ones(1, 64, 1, 1, dtype=torch.uint8), 1.0, 0), torch.zeros(4)
    images = q.conv2d_prepack(one, bias, [1, 1], [0, 0], [1, 1], 1)
    rows = q.linear_prepack(one.flatten(1), bias)
    one.copy_(nothing)
    for packed in (images, rows):
        packed.unpack()[0].fill_(0)
        assert packed.unpack()[0].dequantize().sum() == 256
    bias.fill_(3)
    assert q.conv2d.new(x, images, 1.0, 0).int_repr().flatten().tolist() == [67] * 4
    assert q.linear(x.flatten(1), rows, 1.0, 0).int_repr().flatten().tolist() == [67] * 4


def test_no_rows():
    nothing = q.linear_prepack(weight((0, 4)), None)
    assert q.linear(quantized((2, 4)), nothing, 1.0, 0).shape == q.linear_dynamic(torch.ones(2, 4), nothing).shape == (2, 0)
    packed, x = q.linear_prepack(weight((3, 4)), torch.ones(3)), quantized((2, 0, 4))
    assert q.linear(x, packed, 1.0, 0).shape == q.linear_dynamic(x.dequantize(), packed).shape == (2, 0, 3)


@pytest.mark.parametrize("scale, codes", [(0.0, [5, 5, 5]), (float("nan"), [5, 5, 5]), (float("inf"), [5, 5, 5])])
def test_scales_that_are_none(scale, codes):
    """What can't be a number of 32 bits counts as the least, as the processor's own conversion has it in PyTorch."""
    w = torch._make_per_tensor_quantized_tensor(torch.tensor([[-1], [0], [1]], dtype=torch.int8), 1.0, 0)
    x = torch._make_per_tensor_quantized_tensor(torch.tensor([[4]], dtype=torch.uint8), 1.0, 0)
    assert q.linear_relu(x, q.linear_prepack(w, None), scale, 5).int_repr().tolist() == [codes]


def test_tables_that_can_not_be_packed():
    with pytest.raises(RuntimeError, match="'embedding_bag_byte_prepack' only support float32 or float16"):
        q.embedding_bag_byte_prepack(torch.ones(2, 4, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="qembeddingbag_2bit_prepack only works for the number of columns a multiple of 4"):
        q.embedding_bag_2bit_prepack(torch.ones(2, 6))
    assert q.embedding_bag_byte_prepack(torch.ones(0, 4)).shape == (0, 12)
    assert q.embedding_bag_byte_prepack(torch.ones(4)).shape == (12,)
    table = torch.tensor([[0.0, float("nan"), 1.0, 2.0]])
    assert q.embedding_bag_byte_prepack(table)[0, 2:4].tolist() == [128, 255]
    assert q.embedding_bag_byte_unpack(q.embedding_bag_byte_prepack(table))[0, 3].item() == 2.0


def test_grids_that_are_none():
    x, ones, zeros = torch.ones(2, 3), torch.ones(3), torch.zeros(3, dtype=torch.int32)
    one, channels = torch.fake_quantize_per_tensor_affine, torch.fake_quantize_per_channel_affine
    for words, call in (
        ("`zero_point` must be between", lambda: one(x, 0.1, 300, 0, 255)),
        ("`quant_min` should be less than or         equal", lambda: one(x, 0.1, 0, 1, 0)),
        ("`zero_point` must be between", lambda: channels(x, ones, zeros + 300, 1, 0, 255)),
        ("same dimensions", lambda: channels(x, ones, zeros[:2], 1, 0, 255)),
        ("not consistent with input tensor", lambda: channels(x, ones, zeros, 0, 0, 255)),
        ("`axis` must be between 0 and", lambda: channels(x, ones, zeros, -1, 0, 255)),
        ("Scale must be Float or BFloat16, found Double", lambda: channels(x, ones.double(), zeros, 1, 0, 9)),
        ("Zero-point must be Int32, Float or Half", lambda: channels(x, ones, zeros.long(), 1, 0, 9)),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(IndexError, match="Dimension out of range"):
        channels(x, ones, zeros, 2, 0, 255)


def test_nothing_is_read_past_an_operand():
    """Activations and weights end, or begin, where a page can't be touched."""
    make = torch._make_per_tensor_quantized_tensor

    def both():
        for front in (False, True):
            for rows, k, columns in ((1, 16, 1), (2, 5, 3), (4, 32, 13), (7, 48, 5), (30, 33, 40)):
                for floats in (False, True):
                    x = guarded((rows, k), np.float32 if floats else np.uint8, front)
                    w = guarded((columns, k), np.int8, front)
                    packed = q.linear_prepack(
                        torch._make_per_tensor_quantized_tensor(w, 0.1, 1), guarded((columns,), front=front)
                    )
                    if floats:
                        q.linear_dynamic(x, packed)
                    else:
                        q.linear(make(x, 0.1, 3), packed, 1.0, 0)
            for dims, channels, out, groups, taps, stride, padding, dilation in CONVOLUTIONS:
                w = guarded((out, channels // groups, *[taps] * dims), np.int8, front)
                x = guarded((2, *(9, 8, 7)[:dims], channels), np.uint8, front).movedim(-1, 1)
                weights = torch._make_per_tensor_quantized_tensor(w, 0.1, 0)
                packed = getattr(q, f"conv{dims}d_prepack")(
                    weights, None, [stride] * dims, [padding] * dims, [dilation] * dims, groups
                )
                operator = getattr(q, f"conv{dims}d") if dims == 1 else getattr(q, f"conv{dims}d").new
                operator(make(x, 0.1, 3), packed, 1.0, 0)

    survives(both)


@pytest.mark.parametrize(
    "triple, features, way, size, instruction",
    [
        ("x86_64-unknown-linux-gnu", "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni", dots.VNNI, 64, "vpdpbusd"),
        ("x86_64-unknown-linux-gnu", "+avx2,+avxvnni", dots.VNNI, 32, "vpdpbusd"),
        ("x86_64-unknown-linux-gnu", "+avx2", dots.PAIRS, 32, "vpmaddwd"),
        ("x86_64-unknown-linux-gnu", "+avx2", dots.PAIRS, 32, "vpmaddubsw"),
        ("x86_64-unknown-linux-gnu", "+avx512f,+avx512bw,+avx512vl,+avx512dq", dots.PAIRS, 64, "vpmaddubsw"),
        ("x86_64-unknown-linux-gnu", "+sse4.1", dots.PAIRS, 16, "pmaddwd"),
        ("aarch64-unknown-linux-gnu", "+dotprod", dots.SIGNED, 16, "sdot"),
        ("aarch64-unknown-linux-gnu", "+neon", dots.PLAIN, 16, "mla"),
    ],
)
def test_other_processors_have_their_instructions(monkeypatch, triple, features, way, size, instruction):
    """What can't run here is compiled for them, and has the instruction in its inner loop."""
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip("LLVM was built without this processor")
    for module in (dots, kernels):
        monkeypatch.setattr(module, "vector_bytes", lambda: size)
    form = kernels.Form(way, 6, "unsigned", True, True, "codes")
    module = llvm.parse_assembly(kernels.product_kernel.__wrapped__(form))
    machine = target.create_target_machine(features=features, opt=1)
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    text = machine.emit_assembly(module)
    assert text.count(instruction) >= 12
