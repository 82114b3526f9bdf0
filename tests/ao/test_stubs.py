"""What models have in them that are to be quantized, and compute with before: stubs and FloatFunctional."""

from __future__ import annotations

import pytest

import flambeau as torch


def test_operators_as_a_module() -> None:
    f, x = torch.nn.quantized.FloatFunctional(), torch.tensor([-1.0, 2.0])
    assert torch.ao.nn.quantized.FloatFunctional is type(f)
    assert f.add(x, x).tolist() == [-2, 4] and f.add_scalar(x, 2).tolist() == [1, 4] and f.mul(x, x).tolist() == [1, 4]
    assert f.mul_scalar(x, 3.0).tolist() == [-3, 6] and f.cat([x, x], 0).tolist() == [-1, 2, -1, 2]
    assert f.add_relu(x, x).tolist() == [0, 4] and f.matmul(x, x).item() == 5 and not f.state_dict()
    seen = []
    f.activation_post_process.register_forward_hook(lambda module, args, output: seen.append(output.tolist()))
    f.add(x, x), f.add_scalar(x, 1)
    assert seen == [[-2, 4]]
    with pytest.raises(RuntimeError, match="FloatFunctional is not intended to use the 'forward'"):
        f(x)
    assert torch.nn.quantized.Linear(2, 3)._get_name() == "QuantizedLinear"


def test_stubs_change_nothing() -> None:
    wrapped = torch.ao.quantization.QuantWrapper(torch.nn.ReLU())
    assert [name for name, _ in wrapped.named_children()] == ["quant", "dequant", "module"]
    assert wrapped(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
    assert torch.quantization.QuantStub is torch.ao.quantization.QuantStub
