"""quantize_fx makes the graphs that PyTorch makes, and torch.ops.quantized_decomposed gives its numbers: graphs_recorded.json."""

from __future__ import annotations

import copy
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as aq
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.quantized import reference as nnqr
from flambeau.ao.quantization.backend_config import BackendConfig, BackendPatternConfig, DTypeConfig
from flambeau.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig
from flambeau.ao.quantization.quantize_fx import convert_fx, convert_to_reference_fx, fuse_fx, prepare_fx

sys.path.insert(0, str(Path(__file__).parent))
from graph_models import EXPRESSIONS, SETUP, graphs

RECORDED = json.loads(Path(__file__).with_name("graphs_recorded.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", RECORDED["graphs"])
def test_graphs_are_those_of_pytorch(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.quantized, "engine", "fbgemm")
    expected, made = RECORDED["graphs"][case], graphs(torch, *case.split())
    sums, own = expected.pop("sums"), made.pop("sums")
    for stage in expected:
        assert made[stage].splitlines() == expected[stage].splitlines(), stage
    assert own == pytest.approx(sums, rel=0.03, abs=0.3)


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_decomposed_operators_give_pytorchs_numbers(expression: str) -> None:
    scope: dict[str, Any] = {"torch": torch}
    exec(SETUP.replace("import torch.ao", "import flambeau.ao"), scope)
    try:
        made = repr(eval(expression, scope))
    except Exception as error:
        made = f"{type(error).__name__}: " + str(error).split("\n")[0][:100]
    assert made == RECORDED["operators"][expression]


def test_gradients_pass_where_nothing_is_cut_off() -> None:
    x = torch.tensor([[0.3, 9.0]], requires_grad=True)
    made = torch.ops.quantized_decomposed.fake_quant_per_channel(x, torch.tensor([0.5]), torch.tensor([0]), 0, -8, 7)
    made.sum().backward()
    assert made.tolist() == [[0.5, 3.5]] and x.grad.tolist() == [[1.0, 0.0]]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x))


def test_a_part_by_name_stays_in_float() -> None:
    x = (torch.randn(3, 4),)
    mapping = aq.get_default_qconfig_mapping().set_module_name("second", None)
    prepared = prepare_fx(Two().eval(), mapping, x)
    prepared(*x)
    made = convert_fx(prepared)
    assert type(made.first) is nnq.Linear and type(made.second) is nn.Linear
    made(*x)


def test_inputs_and_results_stay_quantized_where_that_is_said() -> None:
    x = (torch.randn(3, 4),)
    custom = PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    prepared = prepare_fx(Two().eval(), aq.get_default_qconfig_mapping(), x, prepare_custom_config=custom)
    prepared(*x)
    made = convert_fx(prepared)
    given = torch.quantize_per_tensor(x[0], 0.05, 64, torch.quint8)
    assert made(given).is_quantized
    assert [node.op for node in made.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


def test_a_backend_says_what_is_quantized() -> None:
    x = (torch.randn(3, 4),)
    dtypes = DTypeConfig(torch.quint8, torch.quint8, torch.qint8, torch.float)
    backend = BackendConfig("own").set_backend_pattern_config(BackendPatternConfig(nn.ReLU).add_dtype_config(dtypes))
    prepared = prepare_fx(Two().eval(), aq.get_default_qconfig_mapping(), x, backend_config=backend)
    assert not any("activation_post_process" in str(node.target) for node in prepared.graph.nodes)
    linear = BackendPatternConfig(nn.Linear).add_dtype_config(dtypes)
    backend.set_backend_pattern_config(linear.set_root_module(nn.Linear).set_reference_quantized_module(nnqr.Linear))
    prepared = prepare_fx(Two().eval(), aq.get_default_qconfig_mapping(), x, backend_config=backend)
    prepared(*x)
    assert type(convert_to_reference_fx(prepared, backend_config=backend).first) is nnqr.Linear
    assert BackendConfig.from_dict(backend.to_dict()).to_dict() == backend.to_dict()


def test_modules_of_the_programs_own_are_observed_and_converted() -> None:
    class Own(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.is_quantized else x * 1.0

    class Observed(Own):
        @classmethod
        def from_float(cls, other: Any) -> Observed:
            made = cls()
            made.qconfig = other.qconfig
            return made

    class Quantized(Own):
        @classmethod
        def from_observed(cls, other: Any) -> Quantized:
            return cls()

    model, x = nn.Sequential(nn.Linear(4, 4), Own(), nn.Linear(4, 4)).eval(), (torch.randn(3, 4),)
    custom = PrepareCustomConfig().set_float_to_observed_mapping(Own, Observed)
    prepared = prepare_fx(model, aq.get_default_qconfig_mapping(), x, prepare_custom_config=custom)
    assert type(getattr(prepared, "1")) is Observed
    prepared(*x)
    made = convert_fx(prepared, ConvertCustomConfig().set_observed_to_quantized_mapping(Observed, Quantized))
    assert type(getattr(made, "1")) is Quantized
    seen = []
    getattr(made, "1").register_forward_pre_hook(lambda module, args: seen.append(args[0].is_quantized))
    made(*x)
    assert seen == [True]


def test_fused_and_kept() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.ReLU()).eval()
    model.note = "kept"
    made = fuse_fx(model, {"preserved_attributes": ["note"]})
    assert made.note == "kept" and type(getattr(made, "0")).__name__ == "ConvReLU2d"
    assert [node.target for node in made.graph.nodes] == ["input", "0", "output"]


def test_a_quantized_graph_can_be_copied_and_its_state_loaded() -> None:
    x = (torch.randn(3, 4),)
    prepared = prepare_fx(Two().eval(), aq.get_default_qconfig_mapping(), x)
    other = prepare_fx(Two().eval(), aq.get_default_qconfig_mapping(), x)
    prepared(*x), other(*x)
    made, second = convert_fx(prepared), convert_fx(other)
    assert torch.equal(copy.deepcopy(made)(*x), made(*x))
    file = io.BytesIO()
    torch.save(made.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file))
    assert torch.equal(second(*x), made(*x))


def test_what_was_not_prepared_is_refused() -> None:
    with pytest.raises(ValueError, match="input model must be a GraphModule"):
        convert_fx(nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="produced by prepare_fx"):
        convert_fx(torch.fx.symbolic_trace(nn.Linear(2, 2)))
    with pytest.raises(NotImplementedError, match="equalization"):
        prepare_fx(nn.Linear(2, 2), aq.get_default_qconfig_mapping(), (), _equalization_config={})
