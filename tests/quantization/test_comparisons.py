"""torch.ao.ns: a float model and the quantized one side by side; equalized weights and corrected biases."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as aq
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.ns import _numeric_suite as ns
from flambeau.ao.quantization import _correct_bias, _equalize


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.conv, self.inner, self.sum = nn.Conv2d(2, 3, 1), nn.Sequential(nn.Linear(4, 4)), nnq.FloatFunctional()

    def forward(self, x: Any) -> Any:
        return self.dequant(self.sum.add_scalar(self.inner(self.conv(self.quant(x))), 0.5))


def pair() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(2, 2, 4, 4)
    model.qconfig = aq.default_qconfig
    prepared = aq.prepare(model)
    prepared(x)
    return model, aq.convert(prepared), x


def near(both: dict[str, Any], bound: float) -> bool:
    float_, quantized = (v[0] if isinstance(v, list) else v for v in (both["float"], both["quantized"]))
    quantized = quantized.dequantize() if quantized.is_quantized else quantized
    return bool(0 < (float_ - quantized).abs().max() < bound)


def test_weights() -> None:
    model, quantized, _ = pair()
    made = ns.compare_weights(model.state_dict(), quantized.state_dict())
    assert sorted(made) == ["conv.weight", "inner.0._packed_params._packed_params"]
    assert all(near(both, 0.01) for both in made.values())
    layers = nn.Sequential(nn.LSTM(3, 4, 2))
    made = ns.compare_weights(layers.state_dict(), aq.quantize_dynamic(layers).state_dict())
    assert sorted(made) == ["0._all_weight_values.0.param", "0._all_weight_values.1.param"]
    assert all(near(both, 0.01) for both in made.values())


def test_results() -> None:
    model, quantized, x = pair()
    made = ns.compare_model_outputs(model, quantized, x)
    assert sorted(made) == ["conv.stats", "inner.0.stats", "quant.stats"]
    assert all(near(both, 0.1) for both in made.values())


def test_results_of_the_same_inputs() -> None:
    model, quantized, x = pair()
    expected = quantized(x)
    made = ns.compare_model_stub(model, quantized, [nn.Conv2d, nn.Linear, nnq.FloatFunctional], x)
    assert {"conv.stats", "inner.0.stats", "sum.stats"} <= set(made)
    assert all(near(made[name], 0.1) for name in ("conv.stats", "inner.0.stats"))
    assert type(quantized.conv) is ns.Shadow and torch.equal(quantized(x), expected)


@pytest.mark.parametrize("bias", [False, True])
def test_weights_next_to_each_other_get_like_ranges(bias: bool) -> None:
    model = nn.Sequential(
        nni.ConvReLU2d(nn.Conv2d(2, 3, 3, bias=bias), nn.ReLU()), nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1)
    )
    model[0][0].weight.data[1] *= 20
    x = torch.randn(2, 2, 5, 5)
    expected, before = model(x), copy.deepcopy(model)
    kept = _equalize.equalize(model, [[model[0], "1"]], 1e-3, inplace=False)
    assert torch.equal(model[0][0].weight, before[0][0].weight) and torch.allclose(kept(x), expected, atol=1e-4)
    _equalize.equalize(model, [["0", "1"]], 1e-3)
    assert torch.allclose(model(x), expected, atol=1e-4)
    one, two = _equalize.channel_range(model[0][0].weight), _equalize.channel_range(model[1].weight, 1)
    assert torch.allclose(one, two, rtol=1e-3)
    assert not torch.allclose(_equalize.channel_range(before[0][0].weight), one, rtol=0.1)
    assert _equalize.expand_groups_in_paired_modules_list([["a", "b", "c"], ["d", "e"]]) == [["a", "b"], ["b", "c"], ["d", "e"]]


def test_what_can_not_be_equalized() -> None:
    with pytest.raises(ValueError, match="module type not supported"):
        _equalize.cross_layer_equalization(nn.ReLU(), nn.Linear(2, 2))
    with pytest.raises(TypeError, match="Number of output channels"):
        _equalize.cross_layer_equalization(nn.Linear(2, 3), nn.Linear(2, 2))
    with pytest.raises(ValueError, match="at least two"):
        _equalize.equalize(nn.Sequential(nn.Linear(2, 2)), [["0"]])
    with pytest.raises(ValueError, match="same set of names"):
        _equalize.converged({"a": 1}, {"b": 1})


def test_biases_take_up_the_mean_error() -> None:
    model, quantized, x = pair()
    quantized.conv.bias().data.add_(torch.tensor([0.5, 0.0, -0.25]))
    before = quantized.conv.bias().clone()
    _correct_bias.bias_correction(model, quantized, [(x,), (x,)], {nnq.Conv2d}, neval_batches=1)
    moved = before - quantized.conv.orig_module.bias()
    assert torch.allclose(moved, torch.tensor([0.5, 0.0, -0.25]), atol=0.05)
