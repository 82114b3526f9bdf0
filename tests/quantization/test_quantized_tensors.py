"""Quantized tensors and torch.ops.quantized against what PyTorch answered, and what can't be said in one expression."""

from __future__ import annotations

import copy
import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from record_quantization import answers, groups

import flambeau as torch

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("title", list(RECORDED))
def test_answers_are_pytorchs(title: str) -> None:
    made = answers(torch, *groups()[title])
    wrong = {key: (made[key].replace("flambeau.", "torch."), text) for key, text in RECORDED[title].items()}
    wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
    assert not wrong


def quantized() -> Any:
    return torch.quantize_per_tensor(torch.linspace(-3, 3, 24).reshape(4, 6), 0.1, 10, torch.quint8)


def by_channel() -> Any:
    scales, zeros = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1, 2, 3, 4])
    return torch.quantize_per_channel(torch.linspace(-3, 3, 24).reshape(4, 6), scales, zeros, 0, torch.qint8)


def test_views_share_memory_and_writes_go_through_them() -> None:
    q = quantized()
    row = q[1]
    assert row.data_ptr() == q.data_ptr() + 6 and q.t().untyped_storage().data_ptr() == q.untyped_storage().data_ptr()
    row.fill_(0.55)
    assert q.int_repr()[1].tolist() == [15] * 6 or q.int_repr()[1].tolist() == [16] * 6
    q[0] = torch.zeros(6)
    assert q.int_repr()[0].tolist() == [10] * 6


def test_copies_are_apart() -> None:
    for q in (quantized(), by_channel()):
        for made in (q.clone(), copy.deepcopy(q), pickle.loads(pickle.dumps(q))):
            assert torch.equal(made, q) and made.data_ptr() != q.data_ptr() and made.is_quantized


def test_deep_copies_keep_sharing() -> None:
    q = quantized()
    whole, part = copy.deepcopy([q, q[1:, 1:]])
    assert whole.data_ptr() != q.data_ptr() and torch.equal(part, q[1:, 1:]) and part.stride() == (6, 1)
    part.fill_(0.0)
    assert whole.int_repr()[1:, 1:].eq(10).all() and not q.int_repr()[1:, 1:].eq(10).all()


def test_files_keep_sharing() -> None:
    q = quantized()
    file = io.BytesIO()
    torch.save({"all": q, "part": q[1:], "channels": by_channel()}, file)
    for weights_only in (True, False):
        file.seek(0)
        made = torch.load(file, weights_only=weights_only)
        assert torch.equal(made["all"], q) and torch.equal(made["channels"], by_channel())
        assert made["part"].untyped_storage().data_ptr() == made["all"].untyped_storage().data_ptr()


@pytest.mark.parametrize("dtype", ["quint4x2", "quint2x4"])
def test_small_integers_are_packed_in_files(dtype: str) -> None:
    x = torch.arange(15.0).reshape(3, 5) / 10
    q = torch.quantize_per_tensor(x, 0.1, 0, getattr(torch, dtype))
    greatest, count = {"quint4x2": (15, 2), "quint2x4": (3, 4)}[dtype]
    assert q.int_repr().shape == (-(-15 // count),)
    assert torch.allclose(q.dequantize(), x.clamp(max=greatest / 10))
    assert pickle.loads(pickle.dumps(q)).dequantize().equal(q.dequantize())


def test_hostile_files_are_refused() -> None:
    from flambeau.ops.quantized.pickling import quantizer_of, rebuild_qtensor

    for parts in (None, (), (torch.per_tensor_affine,), (torch.per_tensor_symmetric, 1.0, 0), "per_tensor_affine"):
        with pytest.raises(RuntimeError, match="qscheme"):
            quantizer_of(parts)
    with pytest.raises(TypeError, match="quantized dtype"):
        rebuild_qtensor(torch.zeros(3).untyped_storage(), 0, (3,), (1,), (torch.per_tensor_affine, 1.0, 0), False, None)


def test_operators_without_a_meaning_are_refused() -> None:
    q = quantized()
    for call in (torch.exp, torch.sum, lambda x: x @ x.t(), lambda x: x + x, lambda x: torch.nn.functional.linear(x, x)):
        with pytest.raises(NotImplementedError, match="QuantizedCPU"):
            call(q)


def test_gradients_are_of_floats_only() -> None:
    x = torch.randn(3, requires_grad=True)
    q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    assert not q.requires_grad and q.grad_fn is None and q.is_leaf
    with pytest.raises(RuntimeError, match="floating point"):
        q.requires_grad_()


def test_linear_is_exact_in_integers() -> None:
    """Sums that float32 couldn't hold, and sums that pairs of int16 would overflow."""
    x = torch.quantize_per_tensor(torch.full((2, 1024), 255.0), 1.0, 0, torch.quint8)
    w = torch.quantize_per_tensor(torch.full((3, 1024), -128.0), 1.0, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(w, None)
    made = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(x.dequantize(), 1.0, 0, packed)
    assert made.tolist() == [[-255.0 * 128 * 1024] * 3] * 2
    assert copy.deepcopy(packed) is packed and torch.equal(pickle.loads(pickle.dumps(packed)).unpack()[0], w)


def test_packed_parameters_are_checked() -> None:
    ops = torch.ops.quantized
    w = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    with pytest.raises(RuntimeError, match="bias"):
        ops.linear_prepack(w, torch.zeros(4))
    with pytest.raises(RuntimeError, match="2-dimensional"):
        ops.linear_prepack(w.reshape(12), None)
    with pytest.raises(RuntimeError, match="divisible by groups"):
        ops.conv1d_prepack(w.reshape(3, 4, 1), None, [1], [0], [1], 2)
    conv = ops.conv1d_prepack(w.reshape(3, 4, 1), None, [1], [0], [1], 1)
    with pytest.raises(RuntimeError):  # the packed weight of another operator
        ops.linear(torch.quantize_per_tensor(torch.randn(2, 4), 0.1, 0, torch.quint8), conv, 0.1, 0)
