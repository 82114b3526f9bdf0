"""Tensors made in inference mode outside of it: what they refuse, and that nothing else is refused."""

import threading

import numpy as np
import pytest
from implementation import NAME, torch

nn, F = torch.nn, torch.nn.functional
WRITE = "Inplace update to inference tensor outside InferenceMode is not allowed"
SAVE = "Inference tensors cannot be saved for backward"


def made(shape=3, dtype=None):
    with torch.inference_mode():
        return torch.ones(shape, dtype=dtype)


WRITES = {
    "add_": lambda x: x.add_(1),
    "operator": lambda x: x.__imul__(torch.ones(3)),
    "copy_": lambda x: x.copy_(torch.ones(3)),
    "index": lambda x: x.__setitem__(0, 5.0),
    "fill_": lambda x: x.fill_(2),
    "sample": lambda x: x.normal_(),
    "scatter_": lambda x: x.scatter_(0, torch.tensor([0]), 5.0),
    "out": lambda x: torch.add(torch.ones(3), 1, out=x),
    "through a view": lambda x: x[:1].add_(1),
    "without grad": lambda x: torch.no_grad()(x.add_)(1),
    "resize_": lambda x: x.resize_(2),
    "set_": lambda x: x.set_(torch.ones(2)),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "initialiser": nn.init.uniform_,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writes_are_refused_outside_and_done_inside(write):
    x = made()
    with pytest.raises(RuntimeError, match=WRITE):
        write(x)
    assert NAME == "torch" or x.tolist() == [1, 1, 1]  # PyTorch writes before it refuses
    with torch.inference_mode():
        write(x)


@pytest.mark.parametrize(
    "use",
    [
        lambda w, x: w * x,
        lambda w, x: x / w,
        lambda w, x: w @ x,
        lambda w, x: F.linear(x, w[None]),
        lambda w, x: F.mse_loss(w, x),
        lambda w, x: (w * 1).mul_(x),
        lambda w, x: w.gather(0, x.long() - 1) * x,
        lambda w, x: F.layer_norm(x, (3,), w),
    ],
)
def test_what_a_graph_would_save_is_refused(use):
    w = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=SAVE):
        use(w, made())
    use(w, made().clone()).sum().backward()
    with torch.no_grad():
        use(w, made())


def test_what_a_graph_need_not_save_is_allowed():
    w = torch.ones(3, requires_grad=True)
    (w + made()).exp().sum().backward()
    assert torch.allclose(w.grad, torch.full((3,), np.exp(2.0)))
    torch.cat([w, made()]).sum().backward(made(()))


def test_a_function_of_the_user_may_not_save_it():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

    with pytest.raises(RuntimeError, match=SAVE):
        Product.apply(torch.ones(3, requires_grad=True), made())


def test_it_has_no_version_and_takes_no_gradient():
    x = made()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x._version
    for ask in (x.requires_grad_, lambda: nn.Parameter(x), lambda: x[:1].requires_grad_()):
        with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
            ask()
    assert not x.requires_grad_(False).requires_grad
    nn.Parameter(x, requires_grad=False)


def test_its_data_may_be_written():
    x = made()
    x.data.add_(1)
    assert x.tolist() == [2, 2, 2]
    assert x.data.is_inference()


def test_optimizer_state_made_in_inference_mode():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = torch.ones(2)
    with torch.inference_mode():
        optimizer.step()
    with pytest.raises(RuntimeError, match=WRITE):
        optimizer.step()


def test_inside_nothing_is_recorded():
    w = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        with torch.enable_grad():
            assert not (w * 2).requires_grad
        with torch.inference_mode(False):
            assert (w * 2).requires_grad
            assert not torch.ones(1).is_inference()
        assert (w * 2).is_inference()
        assert torch.from_numpy(np.ones(1)).is_inference()
        assert not w.detach().is_inference()
    assert (w * 2).requires_grad


def test_the_mode_of_one_thread_is_not_that_of_another():
    entered, done = threading.Event(), threading.Event()
    found = []

    def infer():
        with torch.inference_mode():
            entered.set()
            done.wait(20)
            found.append(torch.ones(2).is_inference())

    other = threading.Thread(target=infer)
    other.start()
    entered.wait(20)
    x = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    (w * x.add_(1)).sum().backward()
    with torch.inference_mode():
        assert torch.ones(2).is_inference()
    assert not torch.ones(2).is_inference()
    done.set()
    other.join()
    assert found == [True]
    assert w.grad.tolist() == [2, 2, 2]
