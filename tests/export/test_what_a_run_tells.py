"""Exported programs with numbers and sizes that only a run tells: values against those of the module at other inputs, and checks
of what a program needs.
"""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, export


class Called(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


def runs(function, *inputs, shapes=None):
    """The exported program as it is, without writes, and taken apart."""
    program = export(Called(function), inputs, dynamic_shapes=None if shapes is None else (shapes,))
    return [p.module() for p in (program, program.run_decompositions({}), program.run_decompositions())]


A, B = torch.tensor([3, 1, 3]), torch.tensor([2, 5, 7])
ROWS = torch.rand(2, 3), torch.rand(2, 3)
PROGRAMS = {
    "what is different": (lambda x: x.unique(), (A,), (B,)),
    "and where, and how often": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), (A,), (B,)),
    "rows that differ": (lambda x: torch.unique(x[:, None], dim=0, return_inverse=True), (A,), (B,)),
    "what follows": (lambda x: torch.unique_consecutive(x, return_counts=True), (A,), (B,)),
    "repeated elements": (lambda x, y: torch.repeat_interleave(y, x), (A, B), (B, A)),
    "repeated columns": (lambda x, y: torch.repeat_interleave(y, x, dim=1), (A, ROWS[0]), (B, ROWS[1])),
    "indices": (lambda x: torch.repeat_interleave(x), (A,), (B,)),
    "counts": (lambda x: torch.bincount(x, minlength=4), (A,), (B,)),
    "weighted counts": (lambda x, w: torch.bincount(x, w), (A, torch.rand(3)), (B, torch.rand(3))),
    "a part": (lambda i, x: x[i.item()] * 2, (torch.tensor(1), ROWS[0]), (torch.tensor(-1), ROWS[1])),
    "a part of a view": (lambda i, x: x.T[i.item()] + 1, (torch.tensor(2), ROWS[0]), (torch.tensor(0), ROWS[1])),
    "a view": (lambda n, x: x.view(n.item(), -1).sum(0).sum(), (torch.tensor(2), ROWS[0]), (torch.tensor(3), ROWS[1])),
    "numbers in a list": (lambda x: torch.stack([x * i for i in x.tolist()]), (A,), (B,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_at_other_inputs(name):
    function, first, second = PROGRAMS[name]
    for run in runs(function, *first):
        for inputs in (first, second):
            torch.testing.assert_close(run(*inputs), function(*inputs), rtol=0, atol=0)


def test_indices_of_open_sizes():
    for run in runs(torch.where, torch.tensor([[0.0, 1], [2, 0]]), shapes=({0: Dim("n", max=100)},)):
        x = torch.tensor([[0.0, 3], [4, 0], [5, 6]])
        torch.testing.assert_close(run(x), torch.where(x))


def test_what_a_program_needs_is_checked_also_when_it_is_taken_apart():
    def needs(k):
        torch._check(k.item() == 6)
        return torch.zeros(k.item())

    for function, x in ((lambda k, x: x.view(k.item(), 4), torch.rand(24)), (lambda k, x: needs(k), torch.rand(6))):
        for run in runs(function, torch.tensor(6), x):
            assert run(torch.tensor(6), x).shape[0] == 6
            for n, sign in ((5, ">="), (8, "<=")):
                with pytest.raises(RuntimeError, match=f"Runtime assertion failed for expression u0 {sign} 6"):
                    run(torch.tensor(n), x)


def test_sizes_that_a_run_compares():
    shapes = (None, {0: Dim.AUTO})
    for run in runs(lambda k, x: x.view(k.item(), 4).sum(0), torch.tensor(6), torch.rand(24), shapes=shapes):
        x = torch.rand(20)
        torch.testing.assert_close(run(torch.tensor(5), x), x.view(5, 4).sum(0))
        with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression Eq\(s\d+, 4\*u0\)"):
            run(torch.tensor(4), x)


def test_an_operator_of_the_program_says_which_sizes_depend_on_data():
    with torch.library._scoped_library("what_a_run_tells", "FRAGMENT") as library:
        library.define("places(Tensor x) -> Tensor")
        library.impl("places", lambda x: x.nonzero(), "CPU")

        @torch.library.register_fake("what_a_run_tells::places", lib=library)
        def fake(x):
            context = torch.library.get_ctx()
            with pytest.raises(ValueError, match="greater than or equal to 0"):
                context.new_dynamic_size(min=-1)
            return x.new_empty([context.new_dynamic_size(max=1000), x.dim()], dtype=torch.int64)

        def function(x):
            places = torch.ops.what_a_run_tells.places(x)
            return places * 2, places[:, 0] + 1

        x = torch.tensor([[0.0, 1], [2, 0]])
        for shapes in (None, ({0: Dim.AUTO},)):
            for run in runs(function, x, shapes=shapes):
                for given in (x, x + 1):
                    torch.testing.assert_close(run(given), function(given))
        text = str(export(Called(function), (x,)))
        assert 'places: "i64[u0, 2]"' in text and "Range constraints: {u0: VR[0, 1000]}" in text


def test_an_operator_of_a_program_gives_several_numbers() -> None:
    """What its fake asserts of them is checked."""
    with torch.library._scoped_library("told", "FRAGMENT"):

        @torch.library.custom_op("told::places", mutates_args=())
        def places(t: torch.Tensor, x: torch.Tensor) -> tuple[int, int]:
            return x[0].item(), x[1].item()

        @places.register_fake
        def _(t, x):
            sizes = tuple(torch.library.get_ctx().new_dynamic_size() for _ in range(2))
            for n, most in zip(sizes, t.shape):
                torch._check(n <= most)
            return sizes

        def f(t, x):
            i, j = places(t, x)
            return t[i, j], t[:i, :j]

        t = torch.rand(4, 5)
        run = export(Called(f), (t, torch.tensor([2, 3]))).module()
        for x in (torch.tensor([0, 4]), torch.tensor([3, 3])):
            for made, expected in zip(run(t, x), f(t, x)):
                assert torch.equal(made, expected)
        with pytest.raises(RuntimeError, match="u0 <= 4"):
            run(t, torch.tensor([5, 0]))


def test_bounds_of_counts() -> None:
    """As many as the greatest sizes have elements, and one of a number."""
    shapes = ({0: Dim("a", max=100), 1: Dim("b", max=7)},)
    program = export(Called(lambda x: x.nonzero()), (torch.rand(3, 4, 5),), dynamic_shapes=(shapes,))
    assert {str(e): r.upper for e, r in program.range_constraints.items()}["u0"] == 3500
    program = export(Called(lambda x: torch.nonzero(x, as_tuple=True)), (torch.tensor(10),))
    assert [r.upper for r in program.range_constraints.values()] == [1]


def test_expanded_sizes_are_asserted() -> None:
    """That they are equal, or no less than nothing."""

    def f(x):
        a, b = x.tolist()
        return torch.zeros(a).expand(b)

    run = export(Called(f), (torch.tensor([2, 2]),)).module()
    assert run(torch.tensor([5, 5])).shape == (5,)
    with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression Eq\(u0, u1\)"):
        run(torch.tensor([1, 5]))
    run = export(Called(lambda x: torch.zeros(3, 1).expand(3, x.item())), (torch.tensor(2),)).module()
    assert run(torch.tensor(0)).shape == (3, 0)
    with pytest.raises(RuntimeError, match="u0 >= 0"):
        run(torch.tensor(-1))


def test_guards_that_are_deferred_are_in_the_graph() -> None:
    def f(x, y):
        return (x * 2, y * 2) if x.shape[0] ** 2 - y.shape[0] ** 2 <= 20 else None

    program = export(
        Called(f),
        (torch.rand(5), torch.rand(3)),
        dynamic_shapes=(({0: Dim("a")}, {0: Dim("b")}),),
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression .*<= 20"):
        program.graph_module(torch.rand(9), torch.rand(3))
