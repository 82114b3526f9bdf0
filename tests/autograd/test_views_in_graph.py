"""Views that must not be written to in a graph, views taken without recording, and what is behind them afterwards."""

import pytest

import flambeau as torch
from flambeau.autograd import Function, gradcheck, gradgradcheck


class Shown(Function):
    """Returns a view of its input."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Returned(Shown):
    """Returns its input."""

    @staticmethod
    def forward(ctx, x):
        return x


def leaf():
    return torch.ones(2, 3, requires_grad=True)


@pytest.mark.parametrize("function", [Shown, Returned])
def test_views_from_functions_are_not_written_to(function):
    view = function.apply(leaf() * 1)
    assert view._is_view()
    with pytest.raises(
        RuntimeError,
        match=r"Output 0 of (Shown|Returned) is a view and is being modified inplace. This view was "
        r"created inside a custom Function",
    ):
        view.add_(1)
    with pytest.raises(RuntimeError, match=r"A view was created in no_grad mode .* custom Function"):
        function.apply(torch.ones(2)).mul_(torch.ones(2, requires_grad=True))


def test_views_of_several_views_are_not_written_to():
    part = (leaf() * 1).unbind(0)[0]
    with pytest.raises(RuntimeError, match=r"Output 0 of Unbind .* function that returns multiple views"):
        part.add_(1)
    with pytest.raises(RuntimeError, match=r"Output 0 of View .* function that returns multiple views"):
        part.view(3, 1).add_(1)
    with pytest.raises(RuntimeError, match="multiple views"):
        part.t_()
    part = torch.ones(2, 3).unbind(0)[0]
    assert part.add_(1).tolist() == [2, 2, 2]  # nothing is recorded
    with pytest.raises(RuntimeError, match="multiple views"):
        part.add_(torch.ones(3, requires_grad=True))


def test_parts_of_unsafe_splits_are_written_to():
    a = leaf()
    one, other = (a * 2).unsafe_split(1)
    one.mul_(other)
    one.sum().backward()
    assert a.grad.tolist() == [[4, 4, 4], [4, 4, 4]]


@pytest.mark.parametrize("quiet", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("make", [leaf, lambda: leaf() * 1])
def test_views_taken_without_recording_require_grad(quiet, make):
    source = make()
    with quiet():
        view = source.view(6)
        part = source.unbind(0)[0]
        row = source[0]
    for x in (view, part, row):
        assert x.requires_grad and x.is_leaf and x._base is source
    assert (view * 2).requires_grad
    with pytest.raises(RuntimeError, match=r"A view was created in (no_grad|inference) mode and is being modified inplace"):
        view.add_(1)
    (view * 2).sum().backward()
    assert view.grad is None and source.detach().requires_grad is False


def test_a_view_loses_its_place_in_the_graph():
    source = leaf() * 1
    with torch.no_grad():
        quiet = source.view(6)
    parts = source.unbind(0)
    plain = source[0]
    source.add_(1)
    assert plain.grad_fn.name() == "AsStridedBackward0"
    for view in (quiet, parts[0]):
        with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
            _ = view.grad_fn
        assert repr(view).endswith("grad_fn=<Invalid>)")
        assert view.requires_grad
        with pytest.raises(RuntimeError, match="its base or another view"):
            (view * 2).sum().backward()


def test_views_made_before_their_base_required_grad():
    base = torch.zeros(2, 3)
    view = base[:]
    base.requires_grad = True
    assert view.requires_grad and view.is_leaf
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        view.add_(5)


def test_views_that_retain_their_gradients():
    base = torch.tensor([1.0], requires_grad=True).clone()
    one, other = base[:], base[:]
    one.retain_grad()
    other.retain_grad()
    one.mul_(2)
    (one + other).sum().backward()
    assert one.grad.tolist() == other.grad.tolist() == [1]


def test_a_written_base_runs_backward_once():
    total = torch.zeros(3)
    total[1:].add_(torch.ones(2, requires_grad=True))
    total.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        total.sum().backward()


def test_numpy_of_what_requires_grad():
    with pytest.raises(RuntimeError, match="that requires grad"):
        leaf().numpy()
    with torch.no_grad():
        assert leaf().numpy().shape == (2, 3)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.expand(3, 2).as_strided((3, 2), (1, 0), 0),
        lambda x: x[0].expand(4).as_strided((2,), (0,)),
        lambda x: x.expand(3, 4).sum(0, keepdim=True).expand(2, 4).as_strided((4, 2), (1, 0)),
        lambda x: (x[:, 0] * 1).as_strided((2, 2), (1, 1)).as_strided((3,), (1,)),
    ],
)
def test_as_strided_of_what_overlaps_itself(view):
    x = torch.tensor([[0.5], [1.5], [-2.0]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(view, [x])
    assert gradgradcheck(view, [x])
