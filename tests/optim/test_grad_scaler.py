"""GradScaler on the CPU, and disabled for want of CUDA, in PyTorch's words."""

import pickle

import pytest

import flambeau as torch
from flambeau.amp import GradScaler
from flambeau.optim import SGD


def scaled(gradient=1.0, **options):
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.full((2,), gradient)
    scaler = GradScaler("cpu", **options)
    scaler.scale(torch.ones(1))
    return scaler, SGD([p], lr=0.5), p


def test_disabled_without_cuda():
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available.  Disabling."):
        scaler = GradScaler()
    assert not scaler.is_enabled() and scaler.state_dict() == {} and scaler.get_scale() == 1.0
    assert scaler.scale(3) == 3


def test_scale_nests():
    scaler = GradScaler("cpu", init_scale=4.0)
    first, (second,) = scaler.scale([torch.ones(1), (torch.ones(1),)])
    assert first.item() == second.item() == 4.0
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_step_unscales_and_grows():
    scaler, optimizer, p = scaled(4.0, init_scale=4.0, growth_interval=2)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 4.0
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8.0 and scaler.state_dict()["_growth_tracker"] == 0


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_overflow_skips_and_backs_off(bad):
    scaler, optimizer, p = scaled(bad)
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.tolist() == [1.0, 1.0] and scaler.get_scale() == 32768.0


def test_order_of_calls():
    scaler, optimizer, p = scaled(65536.0)
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning of an iteration"):
        pickle.dumps(scaler)
    scaler.update()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()


def test_refusals():
    with pytest.raises(AssertionError, match=r"The growth factor must be > 1.0."):
        GradScaler("cpu", growth_factor=0.5)
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        GradScaler("cpu").step(SGD([torch.ones(1, requires_grad=True)]))
    scaler, optimizer, _ = scaled()
    with pytest.raises(AssertionError, match=r"No inf checks were recorded prior to update."):
        scaler.update()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: 3)
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        scaler.load_state_dict({})


def test_half_gradients_are_refused():
    p = torch.ones(2, dtype=torch.float16).requires_grad_()
    p.grad = torch.ones(2, dtype=torch.float16)
    scaler = GradScaler("cpu")
    scaler.scale(torch.ones(1))
    with pytest.raises(ValueError, match=r"Attempting to unscale FP16 gradients."):
        scaler.unscale_(SGD([p]))


def test_update_to_a_value():
    scaler, optimizer, _ = scaled()
    scaler.step(optimizer)
    scaler.update(3.0)
    assert scaler.get_scale() == 3.0
