"""torch.ao.quantization: observers, models that are observed and converted, trained rounded, or quantized dynamically."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as aq
from flambeau.ao.nn import intrinsic as nni
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.intrinsic import qat as nniqat
from flambeau.ao.nn.intrinsic import quantized as nniq
from flambeau.ao.nn.quantized import dynamic as nnqd


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = aq.QuantStub(), aq.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.head = nn.Linear(8, 5)
        self.sum = nnq.FloatFunctional()

    def forward(self, x: Any) -> Any:
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return self.dequant(self.sum.add(x, x))


def samples() -> Any:
    torch.manual_seed(0)
    return torch.randn(8, 3, 6, 6)


def near(a: Any, b: Any, steps: float) -> bool:
    return bool((a - b).abs().max() <= steps * b.abs().max() / 127)


def test_a_model_that_was_observed_computes_with_integers() -> None:
    x = samples()
    model = Small().eval()
    fused = aq.fuse_modules(model, [["conv", "bn", "relu"]])
    assert isinstance(fused.conv, nni.ConvReLU2d) and isinstance(fused.bn, nn.Identity)
    fused.qconfig = aq.get_default_qconfig("fbgemm")
    prepared = aq.prepare(fused)
    assert torch.allclose(prepared(x), model(x), atol=1e-5)  # observers change nothing
    made = aq.convert(prepared)
    assert type(made.conv) is nniq.ConvReLU2d and type(made.head) is nnq.Linear and type(made.sum) is nnq.QFunctional
    assert not any("activation_post_process" in name for name, _ in made.named_modules() if "sum" not in name)
    assert near(made(x), model(x), 4)
    other = aq.convert(aq.prepare(copy.deepcopy(fused)))
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    assert torch.equal(other(x), made(x)) and torch.equal(copy.deepcopy(made)(x), made(x))


def test_a_model_is_trained_with_rounded_weights() -> None:
    x = samples()
    model = Small().train()
    model.qconfig = aq.get_default_qat_qconfig("fbgemm")
    fused = aq.fuse_modules_qat(model, [["conv", "bn", "relu"]])
    trained = aq.prepare_qat(fused)
    optimizer = torch.optim.SGD(trained.parameters(), 0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = trained(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    trained.eval()
    assert near(aq.convert(trained)(x), trained(x), 4)
    with pytest.raises(AssertionError, match="training mode"):
        aq.prepare_qat(Small().eval())


@pytest.mark.parametrize("dtype", ["qint8", "float16"])
def test_weights_are_quantized_and_inputs_while_the_model_runs(dtype: str) -> None:
    x = samples().flatten(1)[:, :6]
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    made = aq.quantize_dynamic(model, dtype=getattr(torch, dtype))
    assert type(made[0]) is nnqd.Linear and type(model[0]) is nn.Linear
    assert near(made(x), model(x), 4) and not made(x).requires_grad
    assert list(made.state_dict())[:2] == ["0.scale", "0.zero_point"]


def test_recurrent_layers_and_cells() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 2, 6)
    layers = nn.ModuleList([nn.LSTM(6, 4, 2, bidirectional=True), nn.GRU(6, 4, batch_first=True)])
    cells = nn.ModuleList([nn.LSTMCell(6, 4), nn.GRUCell(6, 4), nn.RNNCell(6, 4)])
    for model, made in zip(layers, aq.quantize_dynamic(layers)):
        assert near(made(x)[0], model(x)[0].detach(), 6)
        assert set(made.get_weight()) == {n for n, _ in model.named_parameters() if n.startswith("weight")}
    for model, made in zip(cells, aq.quantize_dynamic(cells)):
        one, other = (m(x[0]) for m in (made, model))
        one, other = (t[0] if isinstance(t, tuple) else t for t in (one, other))
        assert near(one, other.detach(), 6)
    packed = nn.utils.rnn.pack_padded_sequence(x, [5, 3])
    lstm = nn.ModuleList([nn.LSTM(6, 4)])
    made = aq.quantize_dynamic(lstm)[0](packed)[0]
    assert near(made.data, lstm[0](packed)[0].data.detach(), 6)


@pytest.mark.parametrize("bits", [8, 4])
def test_embeddings(bits: int) -> None:
    torch.manual_seed(0)
    qconfig = aq.float_qparams_weight_only_qconfig if bits == 8 else aq.float_qparams_weight_only_qconfig_4bit
    model = nn.Sequential(nn.EmbeddingBag(10, 12, mode="sum"))
    made = aq.quantize_dynamic(model, {nn.EmbeddingBag: qconfig})[0]
    assert type(made) is nnq.EmbeddingBag
    indices, offsets = torch.tensor([1, 2, 3, 9]), torch.tensor([0, 2])
    assert (made(indices, offsets) - model[0](indices, offsets)).abs().max() < 2 * 5 / 2**bits


def test_observers_find_ranges() -> None:
    x = torch.tensor([[-1.0, 0.5, 3.0], [-4.0, 0.0, 2.0]])
    observer = aq.MinMaxObserver()
    observer(x)
    assert observer.calculate_qparams() == (torch.tensor([7 / 255]), torch.tensor([146]))
    observer = aq.MovingAverageMinMaxObserver(averaging_constant=0.5)
    observer(x[0])
    observer(x[1])
    assert (observer.min_val.item(), observer.max_val.item()) == (-2.5, 2.5)
    rows = aq.PerChannelMinMaxObserver(dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    rows(x)
    assert torch.allclose(rows.calculate_qparams()[0], torch.tensor([3.0, 4.0]) / 127.5)
    values = torch.randn(5000)
    histogram, whole = aq.HistogramObserver(), aq.MinMaxObserver()
    assert histogram(values) is values and whole(values) is values
    assert histogram.histogram.sum() == 5000
    assert histogram.calculate_qparams()[0] < whole.calculate_qparams()[0]  # a few values far out are not worth the steps
    histogram(3 * values)
    assert histogram.histogram.sum() == 10000 and histogram.max_val == 3 * values.max()
    with pytest.raises(NotImplementedError):
        aq.MinMaxObserver(qscheme=torch.per_channel_affine)
    with pytest.raises(AssertionError, match="must include 0"):
        aq.MinMaxObserver(quant_min=3, quant_max=5)
    with pytest.warns(UserWarning, match="must run observer"):
        aq.MinMaxObserver().calculate_qparams()


def test_fake_quantizers_round_and_let_gradients_pass() -> None:
    x = torch.tensor([-3.0, 0.26, 0.5, 9.0], requires_grad=True)
    for module in (aq.FakeQuantize(quant_min=0, quant_max=15), aq.FusedMovingAvgObsFakeQuantize(quant_min=0, quant_max=15)):
        x.grad = None
        made = module(x)
        made.sum().backward()
        assert x.grad.tolist() == [1, 1, 1, 1] and made.unique().numel() < 16
        module.apply(aq.disable_observer)
        scale = module.scale.clone()
        module(x * 10)
        assert torch.equal(module.scale, scale)
        module.apply(aq.disable_fake_quant)
        assert torch.equal(module(x), x)


def test_older_places_name_the_same_things() -> None:
    assert torch.nn.quantized.Linear is nnq.Linear and torch.nn.quantized.dynamic.LSTM is nnqd.LSTM
    assert torch.quantization.prepare is aq.prepare and torch.nn.intrinsic.ConvReLU2d is nni.ConvReLU2d


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(NotImplementedError, match="quantize_dynamic"):
        nnq.LSTM(1, 1)
    with pytest.raises(ValueError, match="Provide full qconfig"):
        aq.quantize_dynamic(nn.Linear(1, 1), dtype=torch.qint32)
    with pytest.raises(AssertionError, match="did not find fuser method"):
        aq.fuse_modules(nn.Sequential(nn.ReLU(), nn.ReLU()), ["0", "1"])


def test_the_engine_is_one_of_pytorchs() -> None:
    engine = torch.backends.quantized.engine
    try:
        for name in torch.backends.quantized.supported_engines:
            torch.backends.quantized.engine = name
            assert torch.backends.quantized.engine == name
        with pytest.raises(RuntimeError, match="not a valid value for quantized engine"):
            torch.backends.quantized.engine = "other"
    finally:
        torch.backends.quantized.engine = engine


def test_archives_of_torchscript_refuse_quantized_tensors() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("q", torch.quantize_per_tensor(torch.ones(2), 0.5, 3, torch.quint8))

        def forward(self) -> torch.Tensor:
            return self.q

    with pytest.raises(NotImplementedError, match="quantized tensors in TorchScript archives"), pytest.warns(DeprecationWarning):
        torch.jit.save(torch.jit.script(Holder()), io.BytesIO())


def test_synchronized_norms_keep_the_qconfig() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
    model[1].qconfig = aq.default_qat_qconfig
    assert nn.SyncBatchNorm.convert_sync_batchnorm(model)[1].qconfig is aq.default_qat_qconfig


@pytest.mark.parametrize("layer", [nn.Linear(5, 4), nn.Conv2d(2, 3, 3, padding=1), nn.ConvTranspose2d(2, 3, 2)])
def test_reference_modules_compute_in_floats_what_integers_give(layer: nn.Module) -> None:
    class Between(nn.Module):
        def __init__(self, reference: bool) -> None:
            super().__init__()
            self.quant, self.dequant, self.again = aq.QuantStub(), aq.DeQuantStub(), aq.QuantStub()
            self.layer, self.reference = copy.deepcopy(layer), reference

        def forward(self, x: Any) -> Any:
            x = self.quant(x)
            x = self.layer(self.dequant(x) if self.reference else x)
            return self.dequant(self.again(x) if self.reference else x)

    x, results = torch.randn(3, 5) if isinstance(layer, nn.Linear) else torch.randn(3, 2, 6, 6), []
    for reference in (False, True):
        model = Between(reference).eval()
        model.qconfig = aq.default_qconfig
        model = aq.prepare(model)
        model(x)
        model = aq.convert(model, is_reference=reference)
        results.append(model(x))
        assert ("reference" in type(model.layer).__module__) == reference
    assert torch.equal(*results)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_fused_batch_norms_whose_factor_is_zero(bias: bool, frozen: bool) -> None:
    conv, bn = nn.Conv2d(2, 3, 3, bias=bias).double(), nn.BatchNorm2d(3).double()
    fused = nniqat.ConvBn2d(2, 3, 3, bias=bias, freeze_bn=frozen, qconfig=aq.default_qat_qconfig).double()
    fused._enable_slow_path_for_better_numerical_stability = True
    nn.init.zeros_(fused.bn.weight)
    fused.bn.weight.data[1], fused.bn.running_mean[2] = 0.5, 0.25
    fused.apply(aq.disable_fake_quant)
    conv.load_state_dict({name: value for name, value in fused.state_dict().items() if name in ("weight", "bias")})
    bn.load_state_dict(fused.bn.state_dict())
    bn.train(not frozen)
    for _ in range(2):
        x = torch.randn(4, 2, 5, 5, dtype=torch.double)
        given, expected = fused(x), bn(conv(x))
        assert torch.allclose(given, expected, atol=1e-9)
        upstream = torch.randn_like(expected)
        given.backward(upstream), expected.backward(upstream)
        assert torch.allclose(fused.weight.grad, conv.weight.grad, atol=1e-9)
        assert torch.allclose(fused.bn.running_var, bn.running_var) and torch.allclose(fused.bn.running_mean, bn.running_mean)


def test_zero_points_that_are_floats_are_added_before_rounding() -> None:
    x = torch.tensor([[-0.25, 0.25, 0.75, 1.2, -9.0]], requires_grad=True)
    made = torch.fake_quantize_per_channel_affine(x, torch.tensor([0.5]), torch.tensor([0.5]), 0, -1, 2)
    made.sum().backward()
    assert made.tolist() == [[-0.25, 0.25, 0.75, 0.75, -0.75]] and x.grad.tolist() == [[1, 1, 1, 0, 0]]
