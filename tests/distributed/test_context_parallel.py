"""context_parallel: attention and its gradients, of sequences that ranks share, are those of the whole sequence."""

from __future__ import annotations

import itertools

import pytest
from distributed.ranks import needs_mpi, on_ranks

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.distributed.tensor import init_device_mesh
from flambeau.distributed.tensor.experimental import context_parallel
from flambeau.distributed.tensor.experimental._context_parallel import (
    _context_parallel_shard,
    _cp_options,
    _HeadTailLoadBalancer,
    context_parallel_unshard,
    set_rotate_method,
)

pytestmark = needs_mpi


def attended(mesh, operands, **options):
    """(attention, gradients) of the whole, and what the ranks have of them together."""
    whole = [x.clone().requires_grad_() for x in operands]
    expected = F.scaled_dot_product_attention(*whole, **options)
    expected.float().pow(2).sum().backward()
    parts = [x.clone() for x in operands]
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2, 2, 2]):
        mine = [x.detach().clone().requires_grad_() for x in parts]
        made = F.scaled_dot_product_attention(*mine, **options)
        made.float().pow(2).sum().backward()
        together = context_parallel_unshard(mesh, [made.detach(), *(x.grad for x in mine)], [2] * 4)
    assert all(torch.equal(*pair) for pair in zip(parts, operands))
    return [expected.detach(), *(x.grad for x in whole)], together


def attention(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    operands = [torch.randn(2, 4, 8 * size, 16) for _ in range(3)]
    for causal, method, balanced in itertools.product((False, True), ("allgather", "alltoall"), (False, True)):
        set_rotate_method(method)
        _cp_options.enable_load_balance = balanced
        for expected, made in zip(*attended(mesh, operands, is_causal=causal)):
            torch.testing.assert_close(made, expected)
        for expected, made in zip(*attended(mesh, [x.double() for x in operands], is_causal=causal, scale=0.3)):
            torch.testing.assert_close(made, expected)
    narrow = [operands[0].bfloat16(), *(x[:, :2].bfloat16() for x in operands[1:])]
    for expected, made in zip(*attended(mesh, narrow, is_causal=True, enable_gqa=True)):
        torch.testing.assert_close(made, expected, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("size", [2, 3])
def test_attention_is_that_of_the_whole_sequence(size):
    on_ranks(size, attention, size)


def network(rank):
    """A layer that calls attention inside, trained by both for a step."""
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    x, target = torch.randn(3, 16, 16), torch.randn(3, 16, 16)
    F.mse_loss(layer(x), target, reduction="sum").backward()
    expected = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    with context_parallel(mesh, buffers=[x, target], buffer_seq_dims=[1, 1], no_restore_buffers={target}):
        assert x.shape == (3, 8, 16)
        F.mse_loss(layer(x), target, reduction="sum").backward()
    assert x.shape == (3, 16, 16) and target.shape == (3, 8, 16)
    for parameter, gradient in zip(layer.parameters(), expected):
        torch.distributed.all_reduce(parameter.grad)
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        expected = layer.eval()(x)  # by the fused kernel
    with torch.no_grad(), context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        assert torch.allclose(*context_parallel_unshard(mesh, [layer(x)], [1]), expected, atol=1e-5)
        attention = layer.self_attn
        weights = [attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias]
        with pytest.raises(NotImplementedError, match="set_fastpath_enabled"):
            torch._native_multi_head_attention(x, x, x, 16, 4, *weights)
        with pytest.raises(NotImplementedError, match="need_weights=False"):
            attention(x, x, x)


def test_a_network_sees_the_whole_sequence():
    on_ranks(2, network)


def buffers(rank):
    mesh = init_device_mesh("cpu", (2,))
    x, y = torch.arange(8.0), torch.arange(16).view(2, 8)
    with pytest.raises(KeyError), torch.no_grad(), context_parallel(mesh, buffers=[x, y], buffer_seq_dims=[0, -1]):
        assert x.tolist() == ([0, 1, 6, 7], [2, 3, 4, 5])[rank] and y[1].tolist() == ([8, 9, 14, 15], [10, 11, 12, 13])[rank]
        assert not torch.is_grad_enabled()
        raise KeyError
    assert x.tolist() == list(range(8)) and y.tolist() == torch.arange(16).view(2, 8).tolist()
    [part] = _context_parallel_shard(mesh, [x], [0])
    assert part.tolist() == x.chunk(2)[rank].tolist()
    [part] = _context_parallel_shard(mesh, {"x": x}, {"x": 0}, _HeadTailLoadBalancer(8, 2, "cpu"))
    assert torch.equal(*context_parallel_unshard(mesh, [part], [0]), x)
    for arguments, words in [
        ({"buffers": [x], "buffer_seq_dims": []}, "same number of elements"),
        ({"buffers": [x], "buffer_seq_dims": [0], "no_restore_buffers": {y}}, "must be a subset"),
        ({"buffers": [torch.ones(10)], "buffer_seq_dims": [0]}, "pad it to a multiple of 4"),
    ]:
        with pytest.raises(ValueError, match=words), context_parallel(mesh, **arguments):
            pass
    with (
        pytest.raises(RuntimeError, match="cannot resize variables that require grad"),
        context_parallel(mesh, buffers=[x, torch.ones(8, requires_grad=True)], buffer_seq_dims=[0, 0]),
    ):
        pass
    assert x.shape == (8,)
    q = torch.ones(1, 1, 4, 8)
    with context_parallel(mesh):
        short = q[:, :, :2]
        for arguments in (q, q, q, torch.ones(4, 4)), (q, q, q, None, 0.5), (q[0],) * 3, (q, short, short, None, 0.0, True):
            with pytest.raises(NotImplementedError, match="attention under context_parallel takes"):
                F.scaled_dot_product_attention(*arguments)
    with pytest.raises(NotImplementedError, match="does not support using ring"):
        set_rotate_method("ring")
    with pytest.raises(ValueError, match="a mesh of one dimension, not 2"), context_parallel(init_device_mesh("cpu", (1, 2))):
        pass


def test_buffers_are_shared_and_restored():
    on_ranks(2, buffers)
