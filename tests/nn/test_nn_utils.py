"""nn.utils and lazy modules."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import parametrizations, parametrize, stateless


def test_clip_grad_norm():
    layer = nn.Linear(3, 2)
    layer(torch.rand(4, 3)).pow(2).sum().backward()
    before = torch.cat([parameter.grad.flatten() for parameter in layer.parameters()]).norm()
    returned = nn.utils.clip_grad_norm_(layer.parameters(), 0.01)
    after = torch.cat([parameter.grad.flatten() for parameter in layer.parameters()]).norm()
    assert torch.allclose(before, returned)
    assert after.item() == pytest.approx(0.01, rel=1e-3)


def test_vector_round_trip():
    layer = nn.Linear(3, 2)
    nn.utils.vector_to_parameters(torch.arange(8.0), layer.parameters())
    assert layer.bias.tolist() == [6.0, 7.0]
    assert nn.utils.parameters_to_vector(layer.parameters()).tolist() == list(range(8))


def test_fused_convolution_equals_both():
    conv, norm = nn.Conv2d(2, 3, 3).eval(), nn.BatchNorm2d(3).eval()
    norm.running_mean.fill_(0.3)
    x = torch.rand(1, 2, 5, 5)
    assert torch.allclose(nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-5)


def test_parametrization_life_cycle():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    layer = nn.Linear(3, 3)
    original = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert torch.equal(layer.weight, layer.weight.mT)
    assert layer.parametrizations.weight.original is original
    assert type(layer).__name__ == "ParametrizedLinear"
    with parametrize.cached():
        assert layer.weight is layer.weight
    layer(torch.ones(3)).sum().backward()
    assert original.grad is not None
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight is original


def test_weight_norm_keeps_the_function():
    layer, x = nn.Linear(3, 2), torch.rand(3)
    expected = layer(x)
    parametrizations.weight_norm(layer)
    assert torch.allclose(layer(x), expected, atol=1e-6)


def test_spectral_norm_bounds_the_largest_singular_value():
    layer = parametrizations.spectral_norm(nn.Linear(8, 8), n_power_iterations=20)
    layer(torch.rand(8))
    assert torch.linalg.svdvals(layer.weight.detach()).max().item() == pytest.approx(1, rel=1e-2)


def test_functional_call_uses_and_returns_tensors():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    tensors = {name: torch.ones_like(tensor) for name, tensor in model.state_dict().items()}
    weight = model[0].weight
    stateless._functional_call(model, tensors, (torch.rand(3, 2),))
    assert model[0].weight is weight
    assert (tensors["1.num_batches_tracked"].item(), model[1].num_batches_tracked.item()) == (2, 0)


def test_lazy_linear_becomes_linear():
    layer = nn.LazyLinear(3)
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert layer(torch.ones(2, 5)).shape == (2, 3)
    assert type(layer) is nn.Linear
    assert type(layer.weight) is nn.Parameter
    assert repr(layer) == "Linear(in_features=5, out_features=3, bias=True)"


def test_lazy_takes_shapes_from_a_state_dict():
    layer = nn.LazyConv2d(3, 2)
    layer.load_state_dict(nn.Conv2d(4, 3, 2).state_dict())
    assert layer.weight.shape == (3, 4, 2, 2)


def test_spectral_norm_loads_a_state_from_before_v():
    torch.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(3, 5))
    x = torch.randn(2, 3)
    layer(x)
    layer.eval()
    state = layer.state_dict()
    expected, v = layer(x), state.pop("weight_v").clone()
    state["weight"] = layer.weight.detach().clone()
    del state._metadata[""]["spectral_norm"]
    layer.weight_v.zero_()
    layer.load_state_dict(state)
    torch.testing.assert_close((layer(x), layer.weight_v.norm()), (expected, v.norm()), rtol=1e-3, atol=1e-4)
    nn.utils.remove_spectral_norm(layer)
    assert not layer._load_state_dict_pre_hooks and not layer._state_dict_hooks


def test_compiled_modules_have_no_stateless_form():
    module = torch.jit.script(torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="The stateless API can't be used with Jitted modules"):
        torch.func.functional_call(module, dict(module.named_parameters()), torch.ones(2))


def test_the_padded_batch_is_looked_at_before_the_lengths():
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        torch.nn.utils.rnn.pack_padded_sequence(torch.ones(0, 3), torch.ones(1, 1, dtype=torch.long))
