"""torch.export with dynamic sizes: programs that hold for other sizes, as PyTorch prints them; what was specialized is an
error.
"""

from __future__ import annotations

import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau._dynamo.exc import UserError
from flambeau._export.serde.dynamic_shapes import _dump_dynamic_shapes, _load_dynamic_shapes
from flambeau.export import AdditionalInputs, Dim, ShapesCollection, dims, export
from flambeau.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
from flambeau.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

B, T = Dim("batch"), Dim("length", min=2, max=64)


def module(forward, **state) -> nn.Module:
    class Made(nn.Module):
        pass

    Made.forward = forward
    made = Made()
    for name, value in state.items():
        setattr(made, name, value)
    return made


def printed(program) -> list[str]:
    lines = [line.strip() for line in str(program).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


class Attention(nn.Module):
    """A block as GPT's: heads by views of computed sizes, a mask cut to the length."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.table, self.place = nn.LayerNorm(width), nn.Embedding(20, width), nn.Embedding(64, width)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)))

    def forward(self, i):
        b, t = i.shape
        x = self.table(i) + self.place(torch.arange(t))
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, dim=-1))
        scores = (q @ k.transpose(-2, -1)) * k.size(-1) ** -0.5
        scores = scores.masked_fill(self.mask[:t, :t] == 0, float("-inf")).softmax(-1)
        return x + self.out((scores @ v).transpose(1, 2).contiguous().view(b, t, -1))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.pool = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.MaxPool2d(3, 2, 1)
        self.same, self.down, self.short = nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(8, 12, 3, 2, 1), nn.Conv2d(8, 12, 1, 2)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.stem(x))))
        x = F.relu(x + self.same(x))
        x = F.relu(self.down(x) + self.short(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def images(*sizes):
    return [(torch.rand(b, 3, h, w),) for b, h, w in sizes]


def tokens(*sizes):
    return [(torch.randint(0, 20, size),) for size in sizes]


def vectors(*sizes):
    return [(torch.rand(size),) for size in sizes]


HW = {0: B, 2: Dim.DYNAMIC, 3: Dim.AUTO}


def _with_sizes(self, x):
    """Sizes as arguments of other operators, rounded, and as values."""
    b, t = x.shape
    made = [F.interpolate(x[None], size=t * 2), F.pad(x, (0, 8 - b % 8)), x.roll(b // 2, 0), x[: math.ceil(b / 2)]]
    made += [x[: round(t * 0.5)], torch.tensor([b, t * 2]), torch.tensor(b) + x, torch.full((b, 2), t), torch.eye(b, t)]
    made += [x.clamp(max=b) / x.numel(), x.masked_fill(x > 0.5, t), x[b - 1], x[None].expand(t, -1, -1), x.tile((t, 1))]
    return (*made, *x.split([1, b - 1], 0), sum(x.shape) * x)


AGREE = {
    "mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), ({0: B},), vectors((3, 4), (7, 4), (1, 4), (20, 4))),
    "attention": (Attention(), ({0: B, 1: T},), tokens((2, 7), (3, 2), (1, 40), (5, 64))),
    "encoder": (
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), ({0: B, 1: T},),
        vectors((2, 3, 8), (4, 9, 8), (1, 20, 8))),
    "residual": (Residual().eval(), (HW,), images((2, 64, 48), (1, 80, 33), (5, 31, 64))),
    "resized": (
        module(lambda self, x: F.interpolate(F.interpolate(x, scale_factor=2.0), size=(x.shape[2], 9), mode="bilinear")), (HW,),
        images((2, 6, 8), (1, 10, 12), (5, 13, 5))),
    "pools": (
        module(lambda self, x: (F.avg_pool2d(x, 3, 2), F.max_pool2d(x, 2, ceil_mode=True), F.unfold(x, 2))), (HW,),
        images((2, 9, 9), (1, 12, 10), (3, 15, 8))),
    "sizes": (
        module(lambda self, x: (x.view(x.shape[0] * x.shape[1], -1), x.reshape(-1), x.flatten(1), x[:, : x.shape[1] // 2],
                                torch.cat([x, x[:, 1:]], 1), x.mean(1) / x.shape[1], torch.zeros(x.shape[1] + 1), x.size(0))),
        ({0: B, 1: T},), vectors((2, 6, 3), (5, 4, 3), (1, 9, 3))),
    "parts": (
        module(lambda self, x: (*x.split([1, 3], 2), x.transpose(0, 1).contiguous(), x.permute(2, 0, 1).flatten(0, 1),
                                x.repeat(2, 1, 1), F.pad(x, (0, 0, 1, 2)), x.unsqueeze(1).expand(-1, 3, -1, -1), x[..., -1])),
        ({0: B, 1: T},), vectors((2, 6, 4), (5, 4, 4), (3, 9, 4))),
    "numbers": (module(_with_sizes), ({0: Dim.AUTO, 1: Dim.AUTO},), vectors((5, 6), (4, 7), (9, 3))),
    "recurrent": (nn.GRU(4, 6), ({1: B},), vectors((3, 5, 4), (3, 2, 4), (3, 8, 4))),
    "losses": (
        module(lambda self, x: F.cross_entropy(x, x.argmax(1)) + torch.einsum("ij,kj->ik", x, x).sum()), ({0: B},),
        vectors((3, 4), (6, 4), (9, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", AGREE)
def test_programs_hold_for_other_sizes(name: str) -> None:
    model, shapes, inputs = AGREE[name]
    run = export(model, inputs[0], dynamic_shapes=shapes).module()
    for args in inputs:
        made, expected = run(*args), model(*args)
        pairs = zip(made, expected, strict=True) if isinstance(expected, tuple) else [(made, expected)]
        for a, b in pairs:
            assert torch.allclose(a, b, atol=1e-5) and a.shape == b.shape if isinstance(b, torch.Tensor) else a == b


def test_printed_program() -> None:
    program = export(
        module(lambda self, x: (x.view(x.shape[0] * x.shape[1], -1) + 1, x.size(0))), (torch.rand(3, 4, 5),),
        dynamic_shapes=({0: B, 1: T},))  # fmt: skip
    assert printed(program) == [
        "ExportedProgram:",
        "class GraphModule(torch.nn.Module):",
        'def forward(self, x: "f32[s77, s27, 5]"):',
        'sym_size_int_2: "Sym(s77)" = torch.ops.aten.sym_size.int(x, 0)',
        'sym_size_int_3: "Sym(s27)" = torch.ops.aten.sym_size.int(x, 1)',
        'mul: "Sym(s27*s77)" = sym_size_int_2 * sym_size_int_3;  sym_size_int_3 = None',
        'view: "f32[s27*s77, 5]" = torch.ops.aten.view.default(x, [mul, -1]);  x = mul = None',
        'add: "f32[s27*s77, 5]" = torch.ops.aten.add.Tensor(view, 1);  view = None',
        "return (add, sym_size_int_2)",
        "Graph signature:",
        "x: USER_INPUT",
        "add: USER_OUTPUT",
        "sym_size_int_2: USER_OUTPUT",
        "Range constraints: {s77: VR[0, int_oo], s27: VR[2, 64]}",
    ]


def test_sizes_of_images() -> None:
    def forward(self, x):
        return F.max_pool2d(F.conv2d(x, self.w, stride=2), 2)

    program = export(module(forward, w=nn.Parameter(torch.rand(6, 3, 3, 3))), (torch.rand(3, 3, 20, 24),), dynamic_shapes=(HW,))
    assert [str(n.meta["val"].shape) for n in program.graph.nodes if n.op == "call_function"] == [
        "torch.Size([s77, 6, (((s53 - 3)//2)) + 1, (((s0 - 3)//2)) + 1])",
        "torch.Size([s77, 6, ((((((s53 - 3)//2)) - 1)//2)) + 1, ((((((s0 - 3)//2)) - 1)//2)) + 1])",
    ]
    assert str(program.range_constraints) == "{s77: VR[0, int_oo], s53: VR[5, int_oo], s0: VR[5, int_oo]}"


def test_dimensions_that_are_related() -> None:
    program = export(
        module(lambda self, x, y: x[1:] + y), (torch.rand(5, 4), torch.rand(4, 4)), dynamic_shapes=({0: B + 1}, {0: B})
    )
    assert 'x: "f32[s17 + 1, 4]", y: "f32[s17, 4]"' in str(program)
    assert str(program.range_constraints) == "{s17 + 1: VR[1, int_oo], s17: VR[0, int_oo]}"
    run = program.module()
    assert run(torch.rand(8, 4), torch.rand(7, 4)).shape == (7, 4)
    with pytest.raises(AssertionError, match=r"^Guard failed: "):
        run(torch.rand(8, 4), torch.rand(8, 4))
    program = export(
        module(lambda self, x, y: x + y), (torch.rand(5), torch.rand(5)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO})
    )
    assert 'x: "f32[s17]", y: "f32[s17]"' in str(program)
    with pytest.raises(AssertionError, match=r"^Guard failed: y\.size\(\)\[0\] == x\.size\(\)\[0\]$"):
        program.module()(torch.rand(6), torch.rand(7))


def test_ranges_are_checked() -> None:
    run = export(nn.ReLU(), (torch.rand(8, 3),), dynamic_shapes=({0: Dim("n", min=4, max=9)},)).module()
    assert run(torch.rand(9, 3)).shape == (9, 3)
    for size, text in (((3, 3), r"input\.size\(\)\[0\] >= 4"), ((10, 3), r"input\.size\(\)\[0\] <= 9"), ((5, 2), r"\[1\] == 3")):
        with pytest.raises(AssertionError, match=r"^Guard failed: .*" + text + "$"):
            run(torch.rand(size))
    run = export(module(lambda self, x: x.reshape(-1, 4)), (torch.rand(8),), dynamic_shapes=({0: Dim.AUTO},)).module()
    assert run(torch.rand(12)).shape == (3, 4)
    with pytest.raises(AssertionError, match=r"^Guard failed: \(?x\.size\(\)\[0\] % 4\)? == 0$"):
        run(torch.rand(10))


GUARDS = {  # by the text that PyTorch prints: what a program asks of 12 and 8, and sizes for which it isn't so
    "x.size()[0] % 2 == 0": (lambda a, b: a % 2 == 0, (9, 8)),
    "2 + x.size()[0] // 2 == y.size()[0]": (lambda a, b: a // 2 + 2 == b, (9, 8)),
    "2 + x.size()[0] % 5 < y.size()[0]": (lambda a, b: a % 5 + 2 < b, (9, 3)),
    "(y.size()[0] + x.size()[0]) % 4 == 0": (lambda a, b: (a + b) % 4 == 0, (9, 8)),
    "y.size()[0] * x.size()[0] // 4 > 3": (lambda a, b: (a * b) // 4 > 3, (2, 2)),
    "x.size()[0] // 3 == y.size()[0] // 2": (lambda a, b: a // 3 == b // 2, (20, 8)),
    "x.size()[0] * x.size()[0] > y.size()[0]": (lambda a, b: a**2 > b, (2, 8)),
}


@pytest.mark.parametrize("text", GUARDS)
def test_the_text_of_guards(text: str) -> None:
    asks, sizes = GUARDS[text]
    program = export(
        module(lambda self, x, y: x + 1 if asks(x.shape[0], y.shape[0]) else x - 1),
        (torch.rand(12), torch.rand(8)),
        dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}),
    )
    with pytest.raises(AssertionError) as caught:
        program.module()(*map(torch.rand, sizes))
    assert str(caught.value) == f"Guard failed: {text}"


def test_roots_that_no_dimension_is() -> None:
    """What the program asks of a multiple of one is checked, and how two multiples are related."""
    root = Dim("d", min=3, max=6)
    run = export(
        module(lambda self, x: x[::2] if x.shape[0] % 2 == 0 else x[1:-1:2]), (torch.rand(10),), dynamic_shapes=({0: 2 * root},)
    ).module()
    assert run(torch.rand(8)).shape == (4,)
    with pytest.raises(AssertionError, match=r"^Guard failed: x\.size\(\)\[0\] % 2 == 0$"):
        run(torch.rand(9))
    for said, sizes, wrong in (((2 * root, 2 * root + 1), (8, 9), (8, 10)), ((2 * root, 4 * root), (8, 16), (8, 18))):
        run = export(
            module(lambda self, x, y: (x + 1, y + 1)),
            (torch.rand(10), torch.rand(11 if said[1].max == 13 else 20)),
            dynamic_shapes=({0: said[0]}, {0: said[1]}),
        ).module()
        assert [x.shape[0] for x in run(*map(torch.rand, sizes))] == list(sizes)
        with pytest.raises(AssertionError, match="Guard failed"):
            run(*map(torch.rand, wrong))


def _loop(self, x):
    return sum(x[i] for i in range(x.shape[0]))


def _big(self, x):
    return x + 1 if x.shape[0] > 4 else x - 1


def _fourths(self, x):
    return x + 1 if x.shape[0] % 4 == 0 else x - 1


@pytest.mark.parametrize(("forward", "size", "text", "fixes", "line"), [
    (lambda self, x: x + self.w, 3, "  - You marked batch as dynamic but your code specialized it to be a constant (3). If "
     "you're using "
     "mark_dynamic, either remove it or use maybe_mark_dynamic. If you're using Dim.DYNAMIC, replace it with either Dim.STATIC "
     "or "
     "Dim.AUTO.", "  batch = 3", "lambda self, x: x + self.w"),
    (_loop, 5, "specialized it to be a constant (5)", "  batch = 5", "for i in range(x.shape[0])"),
    (_big, 5, "  - Not all values of batch = L['x'].size()[0] in the specified range satisfy the generated guard "
     "5 <= L['x'].size()[0] "
     "and L['x'].size()[0] <= IntInfinity()", "  batch = Dim('batch', min=5)", "x + 1 if x.shape[0] > 4"),
    (_fourths, 8, "satisfy the generated guard (L['x'].size()[0] % 4) == 0.",
     "  _batch = Dim('_batch', min=1, max=oo)\n  batch = 4*_batch", "x.shape[0] % 4 == 0"),
])  # fmt: skip
def test_what_was_specialized_is_an_error_that_names_the_line(forward, size, text, fixes, line) -> None:
    model = module(forward, w=nn.Parameter(torch.rand(3, 4)))
    with pytest.raises(UserError) as caught:
        export(model, (torch.rand(size, 4),), dynamic_shapes=({0: B},))
    message = str(caught.value)
    assert message.startswith('Constraints violated (batch)! For more information, run with TORCH_LOGS="+dynamic".\n  - ')
    assert text in message
    assert f"\nSuggested fixes:\n{fixes}\n\nThe error above occurred when calling torch.export.export." in message
    assert line in message
    shapes = refine_dynamic_shapes_from_suggested_fixes(message, ({0: B},))
    export(model, (torch.rand(size, 4),), dynamic_shapes=shapes)


def test_dimensions_that_must_be_equal() -> None:
    model = module(lambda self, x, y: x + y)
    with pytest.raises(UserError, match=r"\(b2\)!(.|\n)*The values of b2 = L\['y'\]\.size\(\)\[0\] and batch = L\['x'\]"
                       r"\.size\(\)\[0\] must always be equal\.(.|\n)*Suggested fixes:\n  b2 = batch\n"):  # fmt: skip
        export(model, (torch.rand(5), torch.rand(5)), dynamic_shapes=({0: B}, {0: Dim("b2")}))
    with pytest.raises(UserError, match=r"L\['y'\]\.size\(\)\[0\] = 4 is not equal to L\['x'\]\.size\(\)\[0\] = 5"):
        export(module(lambda self, x, y: (x, y)), (torch.rand(5), torch.rand(4)), dynamic_shapes=({0: B}, {0: B}))


def test_hints() -> None:
    model = module(lambda self, x: x + self.w, w=nn.Parameter(torch.rand(3)))
    assert export(model, (torch.rand(3),), dynamic_shapes=({0: Dim.AUTO},)).range_constraints == {}
    assert export(model, (torch.rand(3),), dynamic_shapes=({0: Dim.STATIC},)).range_constraints == {}
    with pytest.raises(UserError, match=r"You marked L\['x'\]\.size\(\)\[0\] as dynamic but your code specialized it"):
        export(model, (torch.rand(3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    with pytest.raises(
        ValueError, match=r"conflicting with the inferred min/max range of \[4, int_oo\], for inputs\['x'\]\.shape\[0\]"
    ):
        export(module(lambda self, x: x if x.shape[0] > 3 else -x), (torch.rand(5),), dynamic_shapes=({0: Dim.AUTO(max=3)},))
    assert repr(Dim.DYNAMIC(min=2)) == "DimHint(DYNAMIC, min=2)"


def test_ways_to_say_it() -> None:
    model, x, y = module(lambda self, x, d: x + d["k"][0]), torch.rand(4, 3), torch.rand(4, 3)
    collection = ShapesCollection()
    collection[x] = {0: B}
    collection[y] = (B, None)
    more = AdditionalInputs()
    more.add((torch.rand(6, 3), {"k": [torch.rand(6, 3)]}))
    for said in (
        {"x": {0: B}, "d": {"k": [{0: B}]}},
        ((B, None), {"k": [(B, 3)]}),
        [[B, Dim.STATIC], {"k": [{0: B}]}],
        collection,
        more,
    ):
        program = export(model, (x, {"k": [y]}), dynamic_shapes=said)
        assert program.module()(torch.rand(7, 3), {"k": [torch.rand(7, 3)]}).shape == (7, 3)
    more.verify(program)
    one, two = dims("one", "two", min=3)
    assert (repr(one), repr(2 * two + 1), (2 * two + 1).min) == ("Dim('one', min=3)", "2*two + 1", 7)
    with pytest.raises(NotImplementedError, match=r"Attempted to multiply -1 with one, where a positive integer was expected"):
        one * -1
    for said, text in (({"x": {0: B}}, r"keys must be the arg names \['x', 'd'\] of `inputs`, but here they are \['x'\]"),
                       (({0: B}, None), r"`inputs\[1\]` is a <class 'dict'>, but `dynamic_shapes\[1\]` is not"),
                       (((B,), {"k": [None]}), r"to have the same length as the actual tensor shape torch\.Size\(\[4, 3\]\)"),
                       (({0: "b"}, {"k": [None]}), r"expected None, an int, a Dim, Dim\.AUTO, Dim\.STATIC, or Dim")):  # fmt: skip
        with pytest.raises(UserError, match=text):
            export(model, (x, {"k": [y]}), dynamic_shapes=said)


def test_numbers_that_are_inputs() -> None:
    program = export(module(lambda self, x, n: x * n + torch.ones(n, 1)), (torch.rand(4), 3), dynamic_shapes=(None, Dim.DYNAMIC))
    assert 'n: "Sym(s86)"' in str(program)
    assert program.module()(torch.zeros(4), 5).shape == (5, 4)


def test_what_only_a_run_tells() -> None:
    program = export(module(lambda self, x, n: x[: n.item()]), (torch.rand(5, 4), torch.tensor(3)))
    assert printed(program)[3:11] == [
        'item: "Sym(u0)" = torch.ops.aten.item.default(n);  n = None',
        'slice_1: "f32[u1, 4]" = torch.ops.aten.slice.Tensor(x, 0, None, item);  x = item = None',
        'sym_size_int: "Sym(u1)" = torch.ops.aten.sym_size.int(slice_1, 0)',
        'ge: "Sym(u1 >= 0)" = sym_size_int >= 0',
        '_assert_scalar_default = torch.ops.aten._assert_scalar.default(ge, "Runtime assertion failed for expression '
        "u1 >= 0 on node "
        "'ge'\");  ge = _assert_scalar_default = None",
        'le: "Sym(u1 <= 5)" = sym_size_int <= 5;  sym_size_int = None',
        '_assert_scalar_default_1 = torch.ops.aten._assert_scalar.default(le, "Runtime assertion failed for expression '
        "u1 <= 5 on "
        "node 'le'\");  le = _assert_scalar_default_1 = None",
        "return (slice_1,)",
    ]
    assert program.module()(torch.rand(5, 4), torch.tensor(2)).shape == (2, 4)
    for forward in (
        lambda self, x: torch.nonzero(x) + 1,
        lambda self, x: x[x > 0.5] * 2,
        lambda self, x: x.masked_select(x > 0.5),
    ):
        model, x = module(forward), torch.rand(4, 3)
        run = export(model, (x,), dynamic_shapes=({0: B},)).module()
        for size in (4, 6):
            x = torch.rand(size, 3)
            assert torch.equal(run(x), model(x))
    with pytest.raises(GuardOnDataDependentSymNode, match=r"Could not guard on data-dependent expression u0 > 3"):
        export(module(lambda self, n: n + 1 if n.item() > 3 else n), (torch.tensor(5),))


def test_a_place_before_the_end_of_a_transposed_tensor() -> None:
    program = export(module(lambda self, x: x.transpose(0, 1)[:, -2].relu()), (torch.randn(5, 3, 6),),
                     dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},))  # fmt: skip
    x = torch.randn(7, 4, 6)
    assert torch.equal(program.module()(x), x.transpose(0, 1)[:, -2].relu())


def test_products_along_dimensions_of_any_size() -> None:
    def forward(self, x, y):
        return torch.tensordot(x, y, 1), torch.tensordot(x, y, ([0], [1]))

    program = export(module(forward), (torch.randn(4, 3), torch.randn(3, 4)), dynamic_shapes=(
        {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}))  # fmt: skip
    x, y = torch.randn(6, 5), torch.randn(5, 6)
    for made, wanted in zip(program.module()(x, y), (torch.tensordot(x, y, 1), torch.tensordot(x, y, ([0], [1])))):
        torch.testing.assert_close(made, wanted)


def test_numbers_that_only_a_run_tells_keep_their_names() -> None:
    def forward(self, x, n):
        k = n.item()
        torch._check(k <= 4)
        return x[:k] * 2, x[x > 0.5]

    model, x = module(forward), torch.rand(5, 3)
    program = export(model, (x, torch.tensor(2))).run_decompositions()
    assert "_local_scalar_dense" in program.graph_module.code and "u3" not in str(program)
    for made, expected in zip(program.module()(x, torch.tensor(3)), model(x, torch.tensor(3)), strict=True):
        assert torch.equal(made, expected)
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 <= 4"):
        program.module()(x, torch.tensor(5))


def test_one_tensor_in_two_places() -> None:
    """The graph, which is PyTorch's, uses the second only: what is not the same may not be given."""

    def forward(self, x, y):
        return x[:, None] + y, x * 2

    model, x = module(forward), torch.rand(4)
    for shapes in (({0: B}, {0: B}), ({0: Dim.AUTO}, {0: Dim.AUTO}), ({0: B}, None)):
        program = export(model, (x, x), dynamic_shapes=shapes)
        for run in (program.module(), program.run_decompositions().module()):
            for given in (x, torch.rand(7)):
                torch.testing.assert_close(run(given, given.clone()), model(given, given))
            with pytest.raises(AssertionError, match="Guard failed: x is y"):
                run(x, x + 1)
            with pytest.raises(AssertionError, match=r"Guard failed: y.size\(\)\[0\] == x.size\(\)\[0\]"):
                run(x, torch.rand(5))


def test_a_parameter_as_an_input_is_an_input() -> None:
    def forward(self, x):
        return self.p * x

    model = module(forward, p=nn.Parameter(torch.rand(3)))
    run = export(model, (model.p,)).module()
    torch.testing.assert_close(run(torch.ones(3)), model.p)


def test_sizes_that_a_derived_dimension_does_not_take() -> None:
    def forward(self, x):
        return x * 2

    n = Dim("n", min=3, max=6)
    with pytest.raises(UserError, match=r"Expected shape\[0\] = 10 of input Tensor to be of the form 2\*n \+ 1, where n is an"):
        export(module(forward), (torch.rand(10),), dynamic_shapes=({0: 2 * n + 1},))
    run = export(module(forward), (torch.rand(9),), dynamic_shapes=({0: 2 * n + 1},)).module()
    assert run(torch.rand(13)).shape == (13,)


def test_what_is_said_of_sizes_as_data() -> None:
    n = Dim("n", min=4, max=16)
    inputs = torch.rand(4, 5), [torch.rand(8, 8), {"k": torch.rand(5)}], 3
    said = {"x": (n, n + 1), "y": [{0: 2 * n}, {"k": None}], "z": None}
    written = _dump_dynamic_shapes(said, inputs)
    assert str(written) == (
        "DynamicShapesSpec(dynamic_shapes=(['n', 'n + 1'], [['2*n', 8], {'k': ['_DimHint.STATIC']}], None), "
        "dims={'n': RootDim(min=4, max=16, derived=['2*n', 'n + 1'])})"
    )
    data = _dump_dynamic_shapes(said, inputs, to_dict=True)
    for read in (_load_dynamic_shapes(written), _load_dynamic_shapes(data, from_dict=True)):
        assert str(read) == "([Dim('n', min=4, max=16), n + 1], [[2*n, 8], {'k': [DimHint(STATIC)]}], None)"
        assert str(_dump_dynamic_shapes(read, inputs)) == str(written)
    for wrong, words in (
        ({"dynamic_shapes": [["m"]], "dims": {}}, "got m which is not in"),
        ({"dynamic_shapes": [["n"]], "dims": {"n": {"min": 2, "max": 4, "derived": ["n*n"]}}}, "linear expressions, got n"),
        ({"dynamic_shapes": [["n"]], "dims": {"n": {"min": 2, "max": 4, "derived": ["m + 1"]}}}, "n as the only free symbol"),
        ({"dynamic_shapes": [["n"]], "dims": {"n": {"min": None, "max": 4, "derived": []}}}, "map `min` to an int"),
        ({"dims": {}}, "to have keys"),
        (3, "expected `spec` to be a dict"),
    ):
        with pytest.raises(UserError, match=words):
            _load_dynamic_shapes(wrong, from_dict=True)


def test_fixes_of_sizes_that_are_one() -> None:
    """What is found of one of them is a fix of their name, and said once."""

    def f(self, x, y):
        return torch.matmul(x, y) if x.shape[0] < 16 and y.shape[1] % 3 == 0 else x + y

    batch, rows, inner, columns = dims("batch", "M", "K", "N")
    said = (batch, rows, inner), (batch, inner, columns)
    with pytest.raises(UserError) as caught:
        export(module(f), (torch.rand(10, 2, 3), torch.rand(10, 3, 4)), dynamic_shapes=said)
    text = str(caught.value)
    assert "Suggested fixes:\n  batch = Dim('batch', max=15)\n  _K = Dim('_K', min=1, max=oo)\n  K = 3*_K\n" in text
    assert text.count("Not all values of batch") == text.count("Not all values of K") == 1


def test_inputs_that_are_fake() -> None:
    """The program is traced in their mode."""
    mode = torch._subclasses.fake_tensor.FakeTensorMode()
    with mode, torch.device("meta"):
        x, linear = torch.rand(5, 2), nn.Linear(2, 3)
        program = export(linear, (x,))
        values = [n.meta["val"] for n in program.graph.nodes if "val" in n.meta]
        assert {v.fake_mode for v in values} == {mode} and {v.device.type for v in values} == {"meta"}
        for p in (program, program.run_decompositions()):
            assert p.module()(x).shape == (5, 3)
