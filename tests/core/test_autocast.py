"""Autocast on the CPU: which operators change their dtype, nesting, cached casts, warnings."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.ops.linalg import matmul


def test_products_compute_in_the_lower_precision() -> None:
    x, image = torch.randn(4, 4), torch.randn(1, 2, 5, 5)
    calls = [
        lambda: x @ x,
        lambda: torch.mm(x, x),
        lambda: F.linear(x, x),
        lambda: torch.einsum("ij,jk->ik", x, x),
        lambda: F.conv2d(image, torch.randn(3, 2, 3, 3)),
        lambda: torch.addmm(x, x, x),
        lambda: torch.bmm(x[None], x[None]),
    ]
    for dtype in (torch.bfloat16, torch.float16):
        for call in calls:
            with torch.autocast("cpu", dtype):
                assert call().dtype is dtype
    assert all(call().dtype is torch.float32 for call in calls)


def test_plans_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*given, **named):
        planned.append(given)
        return plan(*given, **named)

    planned, plan = [], matmul.lowered
    monkeypatch.setattr(matmul, "lowered", count)
    a, b = torch.randn(7, 11), torch.randn(11, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        results = [torch.mm(a, b) for _ in range(3)]
    c = torch.randn(7, 5)
    for _ in range(3):
        c.addmm_(a, b)
    assert len(planned) == 2 and all(torch.equal(x, results[0]) for x in results)


def test_losses_compute_in_float32_and_other_operators_as_they_are() -> None:
    low = torch.rand(3, 3).bfloat16()
    with torch.autocast("cpu"):
        assert F.mse_loss(low, low).dtype is torch.float32 and low.prod().dtype is torch.float32
        assert F.cross_entropy(low, torch.tensor([0, 1, 2])).dtype is torch.float32
        assert low.softmax(-1).dtype is torch.bfloat16 and (low + low).dtype is torch.bfloat16
        assert torch.randn(2, 2).softmax(-1).dtype is torch.float32
        assert torch.cat([low, low.float()]).dtype is torch.float32


def test_float64_is_left_alone() -> None:
    x = torch.randn(2, 2, dtype=torch.float64)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is torch.float64


def test_nesting_and_switching_off() -> None:
    x = torch.randn(2, 2)
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", torch.float16):
            assert (x @ x).dtype is torch.float16
        assert (x @ x).dtype is torch.bfloat16 and torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_as_a_decorator() -> None:
    @torch.autocast("cpu")
    def product(x):
        return x @ x

    assert product(torch.randn(2, 2)).dtype is torch.bfloat16


def test_gradients_arrive_in_the_type_of_the_parameters() -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with torch.autocast("cpu"):
        loss = F.mse_loss(layer(layer(x) @ torch.randn(2, 3)), torch.zeros(4, 2))
    loss.backward()
    assert loss.dtype is torch.float32 and layer.weight.grad.dtype is torch.float32 and layer.bias.grad is not None


def test_casts_of_parameters_are_kept_inside_the_block() -> None:
    from flambeau.core.modes.modes import local

    weight = torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu"):
        torch.mm(weight, weight)
        kept = dict(local.autocast_cache)
        torch.mm(weight, weight)
        assert len(kept) == 1 and local.autocast_cache.keys() == kept.keys()
    assert not local.autocast_cache
    with torch.autocast("cpu", cache_enabled=False):
        torch.mm(weight, weight)
        assert not local.autocast_cache


def test_warnings_and_errors() -> None:
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported"):
        assert not torch.autocast("cpu", torch.float64)._enabled
    with pytest.warns(UserWarning, match="CUDA is not available"):
        torch.autocast("cuda")
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.autocast("nowhere")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(1)
    with pytest.warns(FutureWarning, match=r"torch.cpu.amp.autocast\(args...\)` is deprecated"):
        torch.cpu.amp.autocast()


def test_custom_functions() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled("cpu") and x.dtype is torch.float32
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g @ x.t() + x.t() @ g

    x = torch.randn(2, 2, requires_grad=True)
    with torch.autocast("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error")
        y = Product.apply(x)
    y.sum().backward()
    assert y.dtype is torch.float32 and x.grad.dtype is torch.float32


@pytest.mark.parametrize(("device", "dtype"), [("cpu", torch.bfloat16), ("cuda", torch.float16)])
def test_older_names(device, dtype):
    """torch.<device>.amp: found without an import of its own, warns, and fixes the device."""
    program = f"import flambeau as torch; print(torch.{device}.amp.autocast.__module__)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found.strip() == f"flambeau.{device}.amp"
    older = getattr(torch, device).amp
    with pytest.warns(FutureWarning, match=rf"torch.{device}.amp.autocast\(args...\)` is deprecated") as caught:
        context = older.autocast(enabled=False)
    assert caught[0].filename == __file__
    assert isinstance(context, torch.amp.autocast) and context.device == device and context.fast_dtype is dtype
    with pytest.warns(FutureWarning, match=rf"torch.amp.GradScaler\('{device}'"):
        scaler = older.GradScaler(init_scale=4.0, enabled=device == "cpu")
    assert isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled() == (device == "cpu")
    assert older.GradScaler.__name__ == "GradScaler" and f'"{device}"' in older.GradScaler.__doc__


def test_calls_of_several_operators_are_cast_as_one() -> None:
    torch.manual_seed(0)
    given = [torch.randn(2, 3, 4), torch.randn(12, 4), torch.randn(12), torch.randn(4, 4), torch.randn(4)]

    def attend(x, *rest):
        return torch._native_multi_head_attention(x, x, x, 4, 2, *rest)

    with torch.autocast("cpu", torch.bfloat16):
        made = attend(*given)
    expected = attend(*(x.to(torch.bfloat16) for x in given))
    assert all(torch.equal(a, b) for a, b in zip(made, expected))
    lower = [x.to(torch.bfloat16) for x in (torch.ones(3, 3), torch.zeros(3, 3), torch.ones(3))]
    picture, classes = torch.zeros(1, 2, 2, 2, dtype=torch.bfloat16), torch.zeros(1, 2, 2, dtype=torch.long)
    with torch.autocast("cpu", torch.bfloat16):
        loss = torch.margin_ranking_loss(*lower)
        pixels = torch._C._nn.nll_loss2d(picture, classes, None, 1)
    assert (loss.dtype, loss.shape, pixels.dtype) == (torch.float32, (3, 3), torch.float32)
