"""Checkpoints that keep the results of chosen operators: `create_selective_checkpoint_contexts`."""

from functools import partial

import pytest

import flambeau as torch
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

MM = torch.ops.aten.mm.default


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.funcs = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.funcs.append(func)
        return func(*args, **(kwargs or {}))


def body(x, y):
    return torch.sigmoid(torch.matmul(torch.matmul(x, y), y)) * y


def inputs():
    torch.manual_seed(0)
    return torch.rand(4, 4, requires_grad=True), torch.rand(4, 4, requires_grad=True)


def saves_products(context, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op is MM else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("policy", [[MM], saves_products, lambda context, op, *args, **kwargs: op is MM])
def test_what_the_policy_saves_is_not_computed_again(policy):
    x, y = inputs()
    body(x, y).sum().backward()
    expected, x.grad, y.grad = (x.grad, y.grad), None, None
    out = checkpoint(body, x, y, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, policy))
    with Log() as log:
        out.sum().backward()
    assert log.funcs.count(MM) == 4 and log.funcs.count(torch.ops.aten.sigmoid.default) == 1
    torch.testing.assert_close((x.grad, y.grad), expected)


def test_the_policy_is_told_which_run_it_is():
    told = []

    def policy(context, op, *args, **kwargs):
        told.append((context.is_recompute, op))
        return CheckpointPolicy.PREFER_RECOMPUTE

    x, y = inputs()
    checkpoint(body, x, y, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, policy)).sum().backward()
    assert told.count((False, MM)) == 2 and told.count((True, MM)) == 2


def test_one_backward_pass():
    x, y = inputs()
    out = checkpoint(body, x, y, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, [MM]))
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        out.sum().backward()


def test_kept_results_must_not_be_written_to():
    def writes(x, y):
        product = torch.mm(x, y)
        result = product.sin()
        product.detach().add_(1)
        return result

    x, y = inputs()
    out = checkpoint(writes, x, y, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, [MM]))
    with pytest.raises(RuntimeError, match="has been mutated"):
        out.sum().backward()


def test_what_is_no_policy():
    with pytest.raises(ValueError, match=r"Expected op in `op_list` to be an OpOverload but got: aten\.mm"):
        create_selective_checkpoint_contexts([torch.ops.aten.mm])
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
