"""Kernels of programs in the place of those of PyTorch's own operators; what is expected is what PyTorch does."""

import threading
from collections.abc import Iterator

import pytest

import flambeau as torch
from flambeau.core.modes import interception

X = torch.tensor([1.0, 2.0])
F = torch.nn.functional


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("aten", "IMPL") as made:
        yield made
    assert not interception.replaced()


def seven(x: torch.Tensor) -> torch.Tensor:
    return x * 0 + 7


def test_every_call_asks_for_it_and_gradients_are_the_operators(library: torch.library.Library) -> None:
    library.impl("sin", seven, "CPU")
    packet = torch.ops.aten.sin
    for call in (torch.sin, torch.Tensor.sin, packet, packet.default):
        assert call(X).tolist() == [7, 7]
    y = X.clone().requires_grad_()
    made = y.sin()
    made.sum().backward()
    assert made.grad_fn.name() == "SinBackward0" and torch.equal(y.grad, X.cos())
    assert torch.sin(X, out=torch.empty(2)).tolist() != [7, 7]  # another overload
    assert X.clone().sin_().tolist() != [7, 7]
    assert F.softplus(X).tolist() == pytest.approx([1.3132617, 2.126928])
    library._destroy()
    assert torch.sin(X).tolist() == pytest.approx([0.841471, 0.9092974])


def test_what_is_made_of_an_operator_asks_for_it_too(library: torch.library.Library) -> None:
    library.impl("mm", lambda a, b: torch.zeros(a.shape[0], b.shape[1]), "CPU")
    square = torch.ones(2, 2)
    for made in (square @ square, torch.mm(square, square), F.linear(square, square), torch.nn.Linear(2, 2, bias=False)(square)):
        assert made.tolist() == [[0, 0], [0, 0]]
    assert torch.bmm(square[None], square[None]).tolist() == [[[2, 2], [2, 2]]]


def test_bodies_and_kernels_above_autograd(library: torch.library.Library) -> None:
    library.impl("linear", lambda i, w, b=None: i @ w.t() + 100, "CompositeImplicitAutograd")
    library.impl("mul.Tensor", lambda a, b: a - b, "Autograd")
    library.impl("cos", seven, "CompositeImplicitAutograd")  # which has a kernel of its own
    weight = torch.ones(1, 2, requires_grad=True)
    made = F.linear(torch.ones(1, 2), weight)
    assert made.tolist() == [[102]] and made.grad_fn.name() == "AddBackward0"
    y = X.clone().requires_grad_()
    assert (y * X).tolist() == [0, 0] and (y * X).grad_fn.name() == "SubBackward0"
    assert torch.cos(X).tolist() == pytest.approx([0.5403023, -0.4161468])


def test_shapes_without_data(library: torch.library.Library) -> None:
    library.impl("add.Tensor", lambda a, b, *, alpha=1: a.new_empty((5,)), "Meta")
    assert (torch.ones(2, device="meta") + torch.ones(2, device="meta")).shape == (5,)
    assert (X + X).tolist() == [2, 4]
    with torch._subclasses.FakeTensorMode():
        assert (torch.ones(2) + torch.ones(2)).shape == (5,)


def test_beside_a_mode_and_in_other_threads(library: torch.library.Library) -> None:
    seen, found = [], []

    class Log(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    library.impl("sin", seven, "CPU")
    with Log():
        assert torch.sin(X).tolist() == [7, 7]
    assert seen[0] == "aten.sin.default"
    thread = threading.Thread(target=lambda: found.append(torch.sin(X).tolist()))
    thread.start()
    thread.join()
    assert found == [[7, 7]]


def test_the_last_library_wins_and_refusals(library: torch.library.Library) -> None:
    library.impl("exp", seven, "CPU")
    with torch.library._scoped_library("aten", "IMPL") as other:
        other.impl("exp", torch.zeros_like, "CPU")
        assert X.exp().tolist() == [0, 0]
    assert X.exp().tolist() == [7, 7]
    with pytest.raises(RuntimeError, match="could not parse dispatch key"):
        library.impl("exp", seven, "NoKey")
    with pytest.raises(NotImplementedError, match="kernels for AutocastCPU"):
        library.impl("exp", seven, "AutocastCPU")
    with pytest.raises(NotImplementedError, match="with_keyset=True"):
        library.impl("exp", seven, "CPU", with_keyset=True)
    with pytest.raises(RuntimeError, match="Cannot define an operator inside of a TORCH_LIBRARY_IMPL block"):
        library.define("fresh(Tensor x) -> Tensor")
    library.impl("exp", seven, "CUDA")  # never asked for


def test_a_failing_kernel_leaves_the_others_as_they_are(library: torch.library.Library) -> None:
    def fail(x):
        raise ValueError("no sine")

    library.impl("sin", fail, "CPU")
    with pytest.raises(ValueError, match="no sine"):
        torch.sin(X)
    assert torch.cos(X).tolist() == pytest.approx([0.5403023, -0.4161468])
    assert not interception.local.own_kernels
