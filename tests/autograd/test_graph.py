"""Edges, hooks and saved tensors of the graph."""

import warnings

import pytest

import flambeau as torch
from flambeau.autograd import graph


def test_edges_stand_for_tensors():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    middle = x.sin()
    edge = graph.get_gradient_edge(middle)
    out = (middle * 3).sum()
    (rate,) = torch.autograd.grad(out, edge, retain_graph=True)
    assert rate.tolist() == [3, 3]
    assert torch.allclose(torch.autograd.grad(edge, x, rate, retain_graph=True)[0], 3 * x.cos())
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        torch.autograd.grad(edge, x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        torch.autograd.grad(edge, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="doesn't know the shape"):
        torch.autograd.grad(graph.GradientEdge(middle.grad_fn, 0), x)
    torch.autograd.backward(out, inputs=(graph.get_gradient_edge(x), x))
    assert torch.allclose(x.grad, 3 * x.cos())
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used"):
        torch.autograd.grad(x.sum(), graph.get_gradient_edge(torch.ones(1, requires_grad=True)), materialize_grads=True)


def test_zeros_for_unused_inputs_can_be_differentiated():
    x, unused = torch.ones((), requires_grad=True), torch.ones((), requires_grad=True)
    (zero,) = torch.autograd.grad(x * 2, unused, create_graph=True, materialize_grads=True)
    assert zero.requires_grad and zero == 0
    assert torch.autograd.grad(zero, x, materialize_grads=True)[0] == 0


def test_hooks_hear_of_missing_gradients():
    x = torch.ones(3, requires_grad=True)
    parts, heard = x.unbind(), []
    parts[0].register_hook(heard.append)
    parts[1].backward()
    assert heard == [None]


def test_the_order_of_hooks_at_a_leaf():
    x = torch.rand(3, requires_grad=True)
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_hook(lambda nothing, gradients: setattr(x, "grad", gradients[0].mul(10)))
    x.register_post_accumulate_grad_hook(lambda tensor: setattr(tensor, "grad", tensor.grad.add_(0.5)))
    node.register_prehook(lambda gradients: (gradients[0].div(5),))
    x.register_hook(lambda gradient: gradient.sub(2))
    x.sum().backward()
    assert torch.allclose(x.grad, torch.full((3,), 3.0))
    y = torch.ones(2, requires_grad=True)
    y.register_post_accumulate_grad_hook(lambda tensor: tensor.grad)
    with pytest.raises(RuntimeError, match="hooks should return None"):
        y.sum().backward()


def test_hooks_of_several_tensors_by_pass():
    a, b = (torch.rand(2, requires_grad=True) for _ in range(2))
    heard = []
    graph.register_multi_grad_hook((a, b), lambda gradients: heard.append([g is not None for g in gradients]))
    out = (a * b).sum()
    out.backward(inputs=(a,), retain_graph=True)
    out.backward(inputs=(a, b))
    assert heard == [[True, False], [True, True]]


def test_an_unpacked_tensor_takes_the_place_of_the_saved_one():
    a = torch.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda x: 2 * x, lambda x: x):
        y = a**3
    (first,) = torch.autograd.grad(y.sum(), a, create_graph=True)
    assert first.tolist() == [12, 12]  # 3 (2a)^2
    assert torch.autograd.grad(first.sum(), a)[0].tolist() == [12, 12]  # 6 (2a), by a


def test_hooks_on_one_saved_tensor():
    a = torch.ones(2, requires_grad=True) * 2
    y = a * a
    saved = y.grad_fn._raw_saved_self
    saved.register_hooks(lambda x: 2 * x, lambda x: x / 2)
    assert y.grad_fn._saved_self.tolist() == [2, 2] and y.grad_fn._saved_self.grad_fn is a.grad_fn
    with pytest.raises(RuntimeError, match="already been set"):
        saved.register_hooks(lambda x: x, lambda x: x)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        saved.register_hooks(1, 1)
    with pytest.raises(RuntimeError, match="modifying its input in place"):
        b = a * 1
        (b * b).grad_fn._raw_saved_self.register_hooks(lambda x: x.mul_(2), lambda x: x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after it has been freed"):
        saved.register_hooks(lambda x: x, lambda x: x)
    with pytest.raises(RuntimeError, match="forbidden"):
        torch.autograd.SavedTensor()


def test_saved_tensors_of_functions():
    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    y = Keeping.apply(torch.ones(2, requires_grad=True))
    kept, nothing = y.grad_fn._raw_saved_tensors
    assert isinstance(kept, torch._C._autograd.SavedTensor) and kept.data.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="None is forbidden"):
        nothing.register_hooks(lambda x: x, lambda x: x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = y.grad_fn._raw_saved_tensors


def test_saved_tensors_may_be_written_to():
    a = torch.full((2,), 3.0, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        b = a.clone()
        out = (b**2).sum()
        b.zero_()
        with pytest.raises(RuntimeError, match="cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
        out.backward(retain_graph=True)
    assert a.grad.tolist() == [6, 6]
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        out.backward()


def test_replaced_memory_makes_a_new_leaf():
    x = torch.rand(2, requires_grad=True)
    out = x.clone().sum()
    with torch.no_grad():
        x.set_(torch.rand(2))
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(out, x)


def test_names_of_modes():
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
    assert torch._C._current_graph_task_id() == -1


def test_gradients_of_extremes_that_are_nan():
    for name in ("min", "max", "median", "nanmedian"):
        x = torch.full((3,), float("nan"), requires_grad=True)
        getattr(torch, name)(x).backward()
        assert torch.allclose(x.grad, torch.full((3,), 1 / 3)), name


def test_several_weights_of_complex_numbers_at_once():
    z = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    (made,) = torch.autograd.grad(torch.real(z), z, weights, is_grads_batched=True)
    assert made.tolist() == [[1, 2], [3, 4]]


def test_index_tensors_are_saved_as_others_are():
    weight = torch.ones(2, 3, requires_grad=True)
    ways = [
        lambda index: weight[:, index],
        lambda index: weight[index, index],
        lambda index: torch.zeros(3).index_put((index,), weight[0, :2]),
        lambda index: torch.zeros(3, 2).index_put_((None, index), weight[0, :2]),
    ]
    for way in ways:
        index = torch.tensor([0, 1])
        out = way(index)
        index.add_(0)
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.LongTensor \[2\]\]"):
            out.sum().backward()
        out = way(index)
        out.sum().backward()
        with pytest.raises(RuntimeError, match="Specify retain_graph=True"):
            out.sum().backward()
    seen = []
    with graph.saved_tensors_hooks(lambda x: seen.append(x.tolist()) or x.tolist(), torch.tensor):
        out = weight[0, torch.tensor([2, 2])].sum()
    weight.grad = None
    out.backward()
    assert [2, 2] in seen
    assert weight.grad.tolist() == [[0, 0, 2], [0, 0, 0]]


def test_views_of_inference_tensors_are_in_no_graph():
    with torch.inference_mode():
        x = torch.ones(1, 2, 3, requires_grad=True)
        assert not x[0]._is_view() and x[0]._base is None
        x.resize_(1, 2)
        assert x.shape == (1, 2) and x.requires_grad
    for view in (x.view(-1), x[0], x.t(), *x.unbind(1), *x.split(1), x.as_strided((1,), (1,))):
        assert view.is_inference() and view.is_leaf
        assert not view.requires_grad and not view._is_view()
    assert (x * 1).requires_grad


def test_writes_to_views_of_views_name_the_mode():
    x = torch.ones(2, requires_grad=True) * 1
    for mode, words in (
        (torch.no_grad, "no_grad mode and is being modified inplace with grad mode enabled"),
        (torch.inference_mode, "inference mode and is being modified inplace in normal mode"),
    ):
        with mode():
            view = x.view(2)
        with pytest.raises(RuntimeError, match=f"Output 0 of View is a view of a view which was created in {words}"):
            view.view(2).mul_(2)
        with pytest.raises(RuntimeError, match=f"^A view was created in {words}"):
            view.mul_(2)


def test_warnings_of_anomaly_mode_hide_no_error(capsys):
    x = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            middle = x + 1
            out = middle**2
            middle += 1
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                out.sum().backward()
    assert "Error detected in PowBackward0" in capsys.readouterr().err
