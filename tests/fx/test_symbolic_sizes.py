"""Sizes with symbols: torch.SymInt, ShapeEnv, fake tensors, make_fx(tracing_mode="symbolic"); expected texts are PyTorch's."""

from __future__ import annotations

import math
import operator

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._subclasses.fake_tensor import FakeTensorMode
from flambeau._subclasses.symbolic.rules import RULES
from flambeau.base.symbolic.expressions import as_expr
from flambeau.fx.experimental import symbolic_shapes as shapes
from flambeau.fx.experimental.proxy_tensor import make_fx


def sizes(*shape: int, static: tuple[int, ...] = ()):
    """(environment, mode, fake tensor) with a symbol for each dimension but the static ones."""
    env = shapes.ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    how = [shapes.DimDynamic.STATIC if i in static else shapes.DimDynamic.DYNAMIC for i in range(len(shape))]
    context = shapes.StatelessSymbolicContext(dynamic_sizes=how)
    return env, mode, mode.from_tensor(torch.rand(shape), source="L['x']", symbolic_context=context)


def test_arithmetic_prints_as_pytorch() -> None:
    _, _, x = sizes(5, 6)
    a, b = x.shape
    assert repr(x.shape) == "torch.Size([s77, s27])"
    assert (str(x.stride()), str(x.numel()), str(x.size(-1))) == ("(s27, 1)", "s27*s77", "s27")
    expected = {
        "s77 + 1": 1 + a, "-s27 + s77": a - b, "(s77//2)": a // 2, "Mod(s77, 3)": a % 3, "s77**2": a**2, "3 - s77": 3 - a,
        "IntTrueDiv(s77, 2)": a / 2, "Eq(s77, 5)": a == 5, "s77 < s27": a < b, "Max(s27, s77)": torch.sym_max(a, b),
        "Min(7, s77)": torch.sym_min(a, 7), "TruncToInt(2.5*ToFloat(s77))": torch.sym_int(a * 2.5),
        "s27 + s77 + 1": torch.sym_sum([a, b, 1]),
        "s77 >= s27": torch.sym_not(a < b), "(s77 > 3) & (s77 < s27)": (a < b) & (a > 3), "s77*(s27 + s77)": (a + b) * a,
    }  # fmt: skip
    assert {str(e) for e in expected.values()} == set(expected)
    assert (type(a), type(a / 2), type(a < b)) == (torch.SymInt, torch.SymFloat, torch.SymBool)
    assert (a.node.hint, (a // 2).node.hint, (a < b).node.hint, math.ceil(a / 2).node.hint) == (5, 2, True, 3)
    assert not isinstance(a, int)
    assert a != "x" and a != None  # noqa: E711
    with pytest.raises(TypeError, match="unhashable type: non-nested SymInt"):
        hash(a)


def test_questions_become_guards() -> None:
    env, _, x = sizes(5, 6)
    a, b = x.shape
    assert not env.guards
    assert a > 1 and a + b >= 4 and not a < 2  # known of sizes
    assert not env.guards
    assert a > 3
    assert [str(g.expr) for g in env.guards] == ["s77 > 3"]
    assert a >= 4 and str(env.var_to_range[a.node.expr]) == "VR[4, int_oo]"
    assert len(env.guards) == 1
    assert [10, 11, 12, 13, 14, 15, 16][b] == 16 and str(b) == "6" and b.node.maybe_as_int() == 6
    assert list(range(a)) == [0, 1, 2, 3, 4] and str(x.shape) == "torch.Size([5, 6])"
    env, _, x = sizes(8, 8)
    a, b = x.shape
    assert a == b and str(x.shape) == "torch.Size([s27, s27])"
    assert a % 4 == 0 and str(a % 4) == "Mod(s27, 4)" and (a % 4) == 0 and len(env.guards) == 2


def test_questions_without_guards() -> None:
    env, _, x = sizes(5, 6)
    a, u = x.shape[0], env.create_unbacked_symint()
    assert shapes.statically_known_true(a > 1) and not shapes.statically_known_true(a > 4)
    assert not shapes.guard_or_false(u == 3) and shapes.guard_or_true(u == 3)
    assert (
        shapes.has_free_symbols(x) and not shapes.has_free_symbols(torch.ones(2)) and shapes.free_symbols(a * 2) == {a.node.expr}
    )
    assert shapes.hint_int(a + 1) == 6 and not shapes.has_hint(u) and shapes.is_concrete_int(3) and not shapes.is_concrete_int(a)
    assert str(shapes.sym_eq((a, 3), (5, 3))) == "Eq(s77, 5)" and shapes.sym_eq((a, 3), (5, 4)) is False
    assert str(shapes.sym_and(True, a < 9, u > 2)) == "(u0 > 2) & (s77 < 9)"
    assert not env.guards
    with pytest.raises(shapes.GuardOnDataDependentSymNode, match=r"Could not guard on data-dependent expression Eq\(u0, 3\)"):
        bool(u == 3)
    torch._check(u >= 2)
    torch._check(u < a)
    assert shapes.statically_known_true(u >= 2) and shapes.statically_known_true(u < a) and not env.guards
    with pytest.raises(RuntimeError, match="no such size"):
        torch._check(a > 7, lambda: "no such size")


def test_operators_on_fake_tensors_keep_symbols() -> None:
    env, mode, x = sizes(5, 6)
    with mode:
        made = {
            "s77, s27": x + 1, "s77, s77": x @ x.T, "s27*s77": x.reshape(-1), "3*s77, s27": torch.cat([x, x, x]),
            "s77, s27 + 3": F.pad(x, (1, 2)), "2*s77, 3*s27": x.repeat(2, 3), "s77": torch.arange(x.shape[0]), "s27": x.sum(0),
            "s77, 2, s27": torch.stack([x, x], 1), "4, s77, s27": x.expand(4, -1, -1), "s77 - 1, s27": x[1:],
            "s77, (s27//2), 2": x.unfold(1, 2, 2), "Min(s27, s77)": x.diagonal(),
        }  # fmt: skip
    assert {", ".join(map(str, t.shape)) for t in made.values()} == set(made)
    assert not [g for g in env.guards if "Eq" in str(g.expr)]
    with mode:
        assert (str(x.T.stride()), str(x[1:].storage_offset())) == ("(1, s27)", "s27")
        x + torch.empty(5, 1)
    assert [str(g.expr) for g in env.guards if "Eq" in str(g.expr)] == ["Eq(s77, 5)"]
    assert made["s77, s27"].shape[0] == 5 and str(made["3*s77, s27"].shape) == "torch.Size([15, s27])"


def test_a_wrong_rule_is_found_out(monkeypatch) -> None:
    """What a rule says of a result is compared with what the operator gives at other sizes."""
    _, mode, x = sizes(5, 6)
    monkeypatch.setitem(RULES, "flip", lambda call: [call.sizes()[::-1]])
    monkeypatch.setitem(RULES, "pad", lambda call: [(call.sizes()[0], as_expr(9))])
    with mode:
        assert str(x.flip(0).shape) == "torch.Size([s77, s27])"
        assert str(F.pad(x, (1, 2)).shape) == "torch.Size([s77, s27 + 3])"


CODE = [
    (lambda x: x.view(x.shape[0] * x.shape[1]) + 1, "sym_size_int = torch.ops.aten.sym_size.int(x_1, 0)\n"
     "sym_size_int_1 = torch.ops.aten.sym_size.int(x_1, 1)\nmul = sym_size_int * sym_size_int_1\n"
     "view = torch.ops.aten.view.default(x_1, [mul])\nadd = torch.ops.aten.add.Tensor(view, 1)\nreturn add"),
    (lambda x: torch.zeros(x.shape[0], 3) + x[:, :3], "sym_size_int = torch.ops.aten.sym_size.int(x_1, 0)\n"
     "zeros = torch.ops.aten.zeros.default([sym_size_int, 3], device = device(type='cpu'), pin_memory = False)\n"
     "slice_1 = torch.ops.aten.slice.Tensor(x_1, 0, 0, 9223372036854775807)\n"
     "slice_2 = torch.ops.aten.slice.Tensor(slice_1, 1, 0, 3)\nadd = torch.ops.aten.add.Tensor(zeros, slice_2)\nreturn add"),
    (lambda x: (x.shape[0] * 2, x[1:, 0]), "sym_size_int = torch.ops.aten.sym_size.int(x_1, 0)\nmul = sym_size_int * 2\n"
     "slice_1 = torch.ops.aten.slice.Tensor(x_1, 0, 1, 9223372036854775807)\n"
     "select = torch.ops.aten.select.int(slice_1, 1, 0)\nreturn (mul, select)"),
    (lambda x: x.softmax(-1).mean(0), "_softmax = torch.ops.aten._softmax.default(x_1, -1, False)\n"
     "mean = torch.ops.aten.mean.dim(_softmax, [0])\nreturn mean"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "code"), CODE)
def test_make_fx_with_symbolic_sizes(function, code) -> None:
    made = make_fx(function, tracing_mode="symbolic")(torch.rand(5, 4))
    lines = [line.strip().partition(";")[0] for line in made.code.strip().splitlines()[1:]]
    assert lines == code.split("\n")
    assert 'x_1: "f32[s75, s96]"' in made.print_readable(print_output=False)
    for size in ((5, 4), (3, 7), (9, 11)):
        x = torch.rand(size)
        results, wanted = made(x), function(x)
        for a, b in zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]:
            assert torch.allclose(a, b) if isinstance(a, torch.Tensor) else a == b


def test_make_fx_through_derivatives_and_numbers() -> None:
    def step(w, x):
        return torch.autograd.grad(F.gelu(x @ w.t())[:, 1:].pow(2).mean(), w)[0]

    def attention(x, n):
        return F.scaled_dot_product_attention(x, x, x).transpose(1, 2).flatten(2) * n

    w, x = torch.rand(3, 4, requires_grad=True), torch.rand(5, 4)
    made = make_fx(step, tracing_mode="symbolic")(w, x)
    w, x = torch.rand(6, 2, requires_grad=True), torch.rand(7, 2)
    assert torch.allclose(made(w, x), step(w, x), atol=1e-6)
    made = make_fx(attention, tracing_mode="symbolic")(torch.rand(2, 3, 5, 4), 7)
    x = torch.rand(3, 2, 6, 8)
    assert torch.allclose(made(x, 2), attention(x, 2), atol=1e-6)
    assert any(
        node.target is operator.mul
        for node in make_fx(lambda x: torch.ones(x.size(0) * 2), tracing_mode="symbolic")(x).graph.nodes
    )


def test_make_fx_records_what_it_depends_on() -> None:
    made = make_fx(lambda x: x + 1 if x.shape[0] > 3 else x - 1, tracing_mode="symbolic")(torch.rand(5, 4))
    assert [str(g.expr) for g in made.shape_env.guards] == ["s75 > 3"]
    with pytest.raises(shapes.GuardOnDataDependentSymNode, match="Could not guard on data-dependent expression"):
        make_fx(lambda n: n + 1 if n.item() > 3 else n, tracing_mode="symbolic")(torch.tensor(3))
