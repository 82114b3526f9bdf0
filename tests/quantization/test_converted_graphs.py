"""What convert_fx asks of a second mapping and keeps of the floats; state dicts and pickles of graphs."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as aq
from flambeau.ao.quantization.backend_config import BackendConfig, BackendPatternConfig
from flambeau.ao.quantization.quantize_fx import convert_fx, fuse_fx, prepare_fx, prepare_qat_fx
from flambeau.ao.quantization.utils import MatchAllNode

F = nn.functional


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.r, self.b = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)

    def forward(self, x):  # no annotation is text, which graphs would keep
        return self.b(self.r(self.a(x))) + 1


class Weights(nn.Module):
    """Weights that no module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b, self.v = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Any) -> Any:
        return F.linear(F.relu(F.linear(x, self.w, self.b)), self.v)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub = Weights()

    def forward(self, x: Any) -> Any:
        return self.sub(x)


def mapping() -> Any:
    qconfig = aq.get_default_qconfig("x86")
    kinds = aq.QConfigMapping().set_global(qconfig).set_module_name("a", qconfig)
    return kinds.set_object_type(nn.Linear, qconfig).set_object_type(nn.ReLU, qconfig)


def observed(model: Any, *inputs: Any, how: Any = None) -> Any:
    made = prepare_fx(model.eval(), how or mapping(), inputs)
    made(*inputs)
    return made


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: aq.QConfigMapping().set_global(None), "Expected global qconfigs to be the same"),
        (lambda: aq.QConfigMapping().set_global(aq.get_default_qconfig("x86")), "Missing key object_type .*Linear.* in convert"),
        (lambda: mapping().set_module_name("a", aq.default_qconfig), "to have the same qconfig as prepare for key module_name a"),
    ],
)
def test_a_mapping_for_convert_says_what_that_for_prepare_said(given: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        convert_fx(observed(Layers(), torch.randn(2, 4)), qconfig_mapping=given())


def test_a_mapping_for_convert_leaves_modules_in_float() -> None:
    made = convert_fx(observed(Layers(), torch.randn(2, 4)), qconfig_mapping=mapping().set_module_name("a", None))
    assert "quantized" not in type(made.a).__module__ and "quantized" in type(made.b).__module__
    assert [node.name for node in made.graph.nodes][:2] == ["x", "a"]  # nothing is quantized before it


def test_modules_are_made_trainable_by_their_class_and_name_whatever_is_said_of_their_order() -> None:
    model, qconfig = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1)), aq.get_default_qat_qconfig("x86")
    first = aq.QConfigMapping().set_global(qconfig).set_module_name_object_type_order("", nn.Conv2d, 0, None)
    made = prepare_qat_fx(model.train(), first, (torch.randn(1, 3, 4, 4),))
    # A fused module counts as the convolution that it was traced as: nothing is observed before it.
    assert [str(node.target) for node in made.graph.nodes][:3] == ["input", "0", "activation_post_process_0"]
    assert hasattr(getattr(made, "0"), "weight_fake_quant") and hasattr(getattr(made, "2"), "weight_fake_quant")


def test_what_packed_weights_were_made_of_is_kept() -> None:
    model, x = Outer(), torch.randn(5, 3)
    for how, rest in ((aq.get_default_qconfig("x86"), [4, 4]), (aq.default_qconfig, [1, 1]), (aq.float16_dynamic_qconfig, [])):
        made = convert_fx(observed(model, x, how=aq.QConfigMapping().set_global(how)), keep_original_weights=True)
        kept = made.original_weights_lookup
        assert list(kept) == ["sub_packed_weight_0", "sub_packed_weight_1"]
        first, second = kept.values()
        assert torch.equal(first[0], model.sub.w) and torch.equal(second[0], model.sub.v)
        assert sum(torch.equal(each, model.sub.b) for each in first) == 1 and len(first) == 2 + len(rest)
        assert [each.numel() for each in second[1:]] == rest if rest else second[1:] == [None]
    assert not hasattr(convert_fx(observed(model, x)), "original_weights_lookup")


def test_state_dicts_hold_packed_weights() -> None:
    x = torch.randn(5, 3)
    made, other = convert_fx(observed(Outer(), x)), nn.Sequential(convert_fx(observed(Outer(), x)))
    assert [name for name in made.state_dict() if "packed" in name] == ["sub_packed_weight_0", "sub_packed_weight_1"]
    file = io.BytesIO()
    torch.save({f"0.{name}": value for name, value in made.state_dict().items()}, file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=False))
    assert torch.equal(other(x), made(x))
    assert torch.equal(copy.deepcopy(made)(x), made(x)) and list(copy.deepcopy(made).state_dict()) == list(made.state_dict())


def test_a_prepared_graph_can_be_pickled() -> None:
    x = torch.randn(2, 4)
    made = observed(Layers(), x, how=aq.QConfigMapping().set_global(aq.get_default_qconfig("x86")))
    assert torch.equal(pickle.loads(pickle.dumps(made))(x), made(x))


def test_patterns_that_are_no_line_are_handed_on_part_by_part() -> None:
    seen: list[Any] = []

    def fused(is_qat: bool, relu: Any, sum_of: Any) -> Any:
        seen.append((relu, sum_of))
        return sum_of[1]

    def root(pattern: Any) -> Any:
        return pattern[1][1]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu = nn.Conv2d(2, 2, 1), nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(torch.add(self.conv(x), x))

    pattern = BackendPatternConfig()._set_pattern_complex_format((nn.ReLU, (torch.add, nn.Conv2d, MatchAllNode)))
    pattern = pattern.set_fuser_method(fused)._set_root_node_getter(root).set_fused_module(nn.Conv2d)
    pattern = pattern._set_extra_inputs_getter(lambda matched: [matched[1][2]])
    model = Model().eval()
    fuse_fx(model, backend_config=BackendConfig("own").set_backend_pattern_config(pattern))
    relu, (add, conv, _) = seen[0]
    assert type(relu) is nn.ReLU and type(conv) is nn.Conv2d and not isinstance(add, nn.Module)


def test_the_error_of_a_cut_histogram_is_pytorchs() -> None:
    watch = aq.HistogramObserver(bins=16)
    watch(torch.linspace(-1, 1, 1001) ** 3 * 4)
    assert (watch._error(2, 12), watch._error(0, 15)) == pytest.approx((67.57020568847656, 0.0814615860581398), rel=1e-5)
