"""torch.onnx.ops: operators of ONNX in modules, and a program's own operators, with their translations."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_running import Function, exported, onnx

import flambeau as torch
from flambeau import nn

ops = torch.onnx.ops


def test_any_operator_of_onnx() -> None:
    def forward(x):
        y = ops.symbolic("mine::Blur", (x, None, x), {"kind": "box", "size": 3, "weights": [0.5, 1.0]}, dtype=x.dtype,
                         shape=x.shape, version=2, metadata_props={"why": "speed"})  # fmt: skip
        a, b = ops.symbolic_multi_out("Split", (y,), {"axis": 1, "num_outputs": 2}, dtypes=(1, torch.float32),
                                      shapes=([x.shape[0], 2], [x.shape[0], 2]))  # fmt: skip
        return a.relu() + b

    assert forward(torch.ones(3, 4)).tolist() == [[0.0, 0.0]] * 3
    program = torch.onnx.export(Function(forward).eval(), (torch.ones(3, 4),), dynamic_shapes=(({0: "n"},),), verbose=False)
    proto = program.model_proto
    blur, split, *_ = proto.graph.node
    assert (blur.domain, blur.op_type, len(blur.input), blur.input[1]) == ("mine", "Blur", 3, "")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in blur.attribute}
    assert attributes == {"kind": b"box", "size": 3, "weights": [0.5, 1.0]}
    assert {p.key: p.value for p in blur.metadata_props}["why"] == "speed" and len(split.output) == 2
    assert {o.domain: o.version for o in proto.opset_import} == {"": 20, "mine": 2}
    assert program.model.graph.outputs[0].shape == ["n", 2]
    with pytest.raises(ValueError, match="Empty sequence for attribute a"):
        ops.symbolic("A", (torch.ones(2),), {"a": []}, dtype=1, shape=[2])
    with pytest.raises(RuntimeError, match="99 is invalid as an ONNX data type"):
        ops.symbolic("A", (torch.ones(2),), dtype=99, shape=[2])
    with pytest.raises(RuntimeError, match="Number of shapes"):
        ops.symbolic_multi_out("A", (torch.ones(2),), dtypes=[1], shapes=[])


def test_attention() -> None:
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 6, 8)
    past, mask = torch.randn(2, 2, 3, 8), torch.randn(5, 6)
    exported(Function(lambda q, k: ops.attention(q, k, k * 2)[0]), (q, k), opset_version=23)
    exported(Function(lambda q, k, m: ops.attention(q, k, k, m, scale=0.3)[0]), (q, k, mask), opset_version=23)
    exported(Function(lambda q, k, p: ops.attention(q, k, k, None, p, p)[:3]), (q, k, past), opset_version=23)
    flat = torch.randn(2, 5, 32)
    heads = {"q_num_heads": 4, "kv_num_heads": 4}
    exported(Function(lambda x: ops.attention(x, x, x, is_causal=True, **heads)[0]), (flat,), opset_version=23)
    same = nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    torch.testing.assert_close(ops.attention(q, q, q, is_causal=True)[0], same)
    with pytest.raises(RuntimeError, match="q_num_heads"):
        ops.attention(flat, flat, flat)
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="added in version 23"):
        exported(Function(lambda q: ops.attention(q, q, q)[0]), (q,))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_embedding(interleaved: bool) -> None:
    x, angles = torch.randn(2, 3, 5, 8), torch.randn(10, 3)
    places = torch.randint(0, 10, (2, 5))
    how = {"interleaved": interleaved, "rotary_embedding_dim": 6}
    turned = exported(
        Function(lambda x, a, p: ops.rotary_embedding(x, a.cos(), a.sin(), p, **how)), (x, angles, places), opset_version=23
    )
    assert "RotaryEmbedding" in {n.op_type for n in turned.model.graph}
    flat = torch.randn(2, 5, 24)
    whole = Function(lambda x, a: ops.rotary_embedding(x, a.cos(), a.sin(), num_heads=3))
    exported(whole, (flat, torch.randn(2, 5, 4)), opset_version=23)
    with pytest.raises(RuntimeError, match="num_heads must be provided"):
        ops.rotary_embedding(flat, torch.ones(2, 5, 4), torch.ones(2, 5, 4))
    assert len(ops.aten_decompositions()) == 2


def test_operators_of_a_program() -> None:
    @torch.library.custom_op("testonnx::twice", mutates_args=())
    def twice(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * 2 * factor

    @twice.register_fake
    def _(x: torch.Tensor, factor: float) -> torch.Tensor:
        return torch.empty_like(x)

    def written(x, factor):
        return ops.symbolic("Mul", (x, x), dtype=torch.float32, shape=[2])

    net, x = Function(lambda x: twice(x, 3.0) + 1).eval(), torch.randn(2)
    program = torch.onnx.export(net, (x,), custom_translation_table={torch.ops.testonnx.twice.default: written}, verbose=False)
    np.testing.assert_allclose(program(x)[0].numpy(), (x * x + 1).numpy(), rtol=1e-6)
    with pytest.raises(torch.onnx.OnnxExporterError, match="unrecognized namespace testonnx::twice"):
        torch.onnx.export(net, (x,), verbose=False)


def test_older_names() -> None:
    utils = torch.onnx.utils
    assert utils.unconvertible_ops(Function(lambda x: torch.linalg.qr(x.relu())[0]), torch.randn(3, 3))[1] == ["aten::linalg_qr"]
    assert list(utils.model_signature(nn.Linear(2, 2)).parameters) == ["input"]
    x = torch.arange(6)
    shape = torch.onnx.operators.shape_as_tensor(torch.ones(2, 3))
    assert torch.onnx.operators.reshape_from_tensor_shape(x, shape).shape == (2, 3)
    kind = torch.onnx.JitScalarType.from_dtype(torch.float16)
    assert (kind.scalar_name(), kind.torch_name(), kind.onnx_type().name) == ("Half", "half", "FLOAT16")
    assert kind.dtype() is torch.float16
