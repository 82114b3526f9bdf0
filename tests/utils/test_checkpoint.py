"""Checkpoints: stretches of a program that run again in backward."""

import weakref

import pytest

import flambeau as torch
from flambeau.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_debug_enabled, set_checkpoint_early_stop


def again(function):
    return lambda x: checkpoint(function, x, use_reentrant=False)


def gradient(function):
    def derived(x):
        with torch.enable_grad():
            return torch.autograd.grad(function(x), x, create_graph=True)[0]

    return derived


def wave(x):
    return x.sin().exp().sin()


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("layers", ["gc", "gcc", "gcgc", "cggc", "gcggc", "gcgcgc", "cgcg"])
def test_checkpoints_and_gradients_nest(layers, early_stop):
    plain, nested = wave, wave
    for layer in reversed(layers):
        plain = gradient(plain) if layer == "g" else plain
        nested = gradient(nested) if layer == "g" else again(nested)
    with set_checkpoint_early_stop(early_stop):
        for order in range(2):
            x = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
            y = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
            expected, found = plain(x), nested(y)
            if order:
                (expected,), (found,) = torch.autograd.grad(expected, x), torch.autograd.grad(found, y)
            assert torch.allclose(expected, found)


class Keep(torch.autograd.Function):
    seen: list = []
    twice = False

    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(x, other)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Keep.seen.append(ctx.saved_tensors)
        if Keep.twice:
            ctx.saved_tensors
        return g, None


def test_a_tensor_is_given_out_once_per_backward_pass():
    x, other = torch.tensor(1.0, requires_grad=True), torch.tensor(2.0)
    Keep.seen.clear()
    out = checkpoint(Keep.apply, x, other, use_reentrant=False)
    out.backward(retain_graph=True)
    out.backward()
    assert [saved[1] is other for saved in Keep.seen] == [True, True]
    Keep.twice = True
    try:
        with pytest.raises(CheckpointError, match="already unpacked once"):
            checkpoint(Keep.apply, x, other, use_reentrant=False).backward()
    finally:
        Keep.twice = False


def test_one_backward_pass_runs_the_function_once():
    runs = []

    def counted(x):
        runs.append(1)
        return x.sin().sin().sin()

    x = torch.ones(2, requires_grad=True)
    out = checkpoint(counted, x, use_reentrant=False).sum()
    out.backward(retain_graph=True)
    assert len(runs) == 2
    out.backward()
    assert len(runs) == 3


def test_an_outer_checkpoint_keeps_the_arguments_of_an_inner_one():
    kept = []

    def inner(x):
        kept.append(weakref.ref(x))
        return x.sin()

    x = torch.ones(2, requires_grad=True)
    out = checkpoint(lambda x: checkpoint(inner, x * 2, use_reentrant=False), x, use_reentrant=False)
    assert kept[0]() is None
    out.sum().backward()
    assert torch.allclose(x.grad, 2 * (x * 2).cos())


def test_debug_lists_what_both_runs_called():
    def changing():
        calls = []

        def function(x):
            calls.append(1)
            return x.sin().exp() if len(calls) == 1 else x.sin() * torch.ones(2)

        return function

    x = torch.ones(1, requires_grad=True)
    with pytest.raises(CheckpointError, match="different metadata than during the forward pass"):
        checkpoint(changing(), x, use_reentrant=False).backward()
    with pytest.raises(CheckpointError, match=r"(?s)0: sin\n1: exp\n.*0: sin\n1: .*you passed `debug=True`"):
        checkpoint(changing(), x, use_reentrant=False, debug=True).backward()
    with set_checkpoint_debug_enabled(True), pytest.raises(CheckpointError, match="you passed `debug=True`"):
        checkpoint(changing(), x, use_reentrant=False).backward()
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        checkpoint(wave, x, use_reentrant=False, debug=True, context_fn=lambda: (None, None))
