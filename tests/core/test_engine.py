"""The engine, nodes, hooks, in-place history, Functions: behaviour and words that hold under PyTorch as well."""

import gc
import warnings
import weakref

import pytest
from implementation import torch


def leaf(*values, dtype=None):
    return torch.tensor(list(values), dtype=dtype or torch.float32, requires_grad=True)


def words(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value)


def test_graph_and_names():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y + 1).reshape(2, 1).t()
    assert z.grad_fn.name() == "TBackward0"
    assert [type(node).__name__ for node, _ in y.grad_fn.next_functions] == ["AccumulateGrad", "NoneType"]
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.grad_fn.next_functions[1] == (None, 0)
    y.grad_fn.metadata["note"] = 1
    assert y.grad_fn.metadata == {"note": 1}
    assert (x.is_leaf, y.is_leaf, x.grad_fn) == (True, False, None)


def test_gradients_accumulate_in_place():
    x = leaf(1.0, 2.0, 3.0)
    (x * x).sum().backward()
    first = x.grad
    assert first.tolist() == [2, 4, 6]
    (x * x).sum().backward()
    assert x.grad is first
    assert first.tolist() == [4, 8, 12]


def test_a_users_gradient_is_copied():
    x = leaf(1.0, 2.0)
    given = torch.tensor([1.0, 1.0])
    x.backward(given)
    given.fill_(7)
    assert x.grad.tolist() == [1, 1]
    x.grad.zero_()
    x.view(1, 2).backward(given.view(1, 2))
    given.zero_()
    assert x.grad.tolist() == [7, 7]


def test_two_leaves_never_share_a_gradient():
    x, y = leaf(1.0), leaf(2.0)
    (x + y).backward()
    x.grad.add_(1)
    assert y.grad.tolist() == [1]


def test_broadcast_gradients_are_summed():
    x, row = leaf(1.0, 2.0, 3.0), leaf(1.0)
    (x.reshape(3, 1) * row).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    assert row.grad.tolist() == [6]


def test_several_roots_and_shared_nodes():
    x = leaf(2.0)
    y = x * x
    torch.autograd.backward([y, y * 3], [torch.tensor([1.0]), torch.tensor([1.0])])
    assert x.grad.tolist() == [16]


def test_deep_graphs_neither_run_nor_die_by_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(30000):
        y = y + 1
    y.backward()
    assert x.grad.tolist() == [1]
    del y


def test_graphs_are_freed_without_the_collector():
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        y = (x.exp() * x).relu()
        z = torch.Tensor.sum(y)
        z.backward()
        node = weakref.ref(y)
        del y, z
        assert node() is None
        alive = weakref.ref(x)
        del x
        assert alive() is None
    finally:
        gc.enable()


def test_second_backward():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    assert words(y.backward).startswith(
        "Trying to backward through the graph a second time (or directly access saved "
        "tensors after they have already been freed)."
    )
    z = x.sum()  # saves nothing, so it may run again
    z.backward()
    z.backward()


def test_create_graph():
    x = leaf(1.0, 2.0)
    (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert (first.tolist(), second.tolist(), third.tolist()) == ([3, 12], [6, 12], [6, 6])


def test_inputs_of_backward():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    y.sum().backward(inputs=[x])
    assert x.grad.tolist() == [3, 4]
    assert w.grad is None
    z = x * 2
    z.sum().backward(inputs=[z])
    assert z.grad.tolist() == [1, 1]


def test_an_input_may_be_asked_for_several_times():
    x, y = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor(5.0, requires_grad=True)
    inner = x * y
    asked = (x, inner, x, y, inner, x)
    made = torch.autograd.grad((inner * inner).sum(), asked)
    for tensor, gradient in zip(asked, made):
        wanted = {id(x): [100.0, 150.0], id(inner): [20.0, 30.0], id(y): 130.0}[id(tensor)]
        assert gradient.tolist() == wanted


def test_grad_of_inner_tensors_stops_there():
    x = leaf(1.0, 2.0)
    seen = []
    y = x * 2
    x.register_hook(lambda g: seen.append(g))
    assert torch.autograd.grad((y * y).sum(), y)[0].tolist() == [4, 8]
    assert seen == []


def test_unused_inputs():
    x, other = leaf(1.0), leaf(1.0, 2.0)
    assert words(lambda: torch.autograd.grad(x * 2, other)) == (
        "The differentiated Tensor at index 0 appears to not have been used in the graph. Set allow_unused=True if this "
        "is the desired behavior."
    )
    assert torch.autograd.grad(x * 2, [other], allow_unused=True) == (None,)
    assert torch.autograd.grad(x * 2, [x, other], materialize_grads=True)[1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: (x * 2).backward(), "grad can be implicitly created only for scalar outputs"),
        (
            lambda x: (x * 2).backward(torch.ones(2)),
            "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of torch.Size([3]).",
        ),
        (lambda x: torch.ones(3).sum().backward(), "element 0 of tensors does not require grad and does not have a grad_fn"),
        (lambda x: torch.autograd.grad(x.sum(), torch.ones(2)), "One of the differentiated Tensors does not require grad"),
        (lambda x: torch.autograd.grad(x.sum(), []), "`inputs` argument to `grad()` cannot be empty."),
        (lambda x: torch.autograd.backward([x.sum(), x.sum()], [None]), "got 2 tensors and 1 gradients"),
        (lambda x: x.add_(1), "a leaf Variable that requires grad is being used in an in-place operation."),
        (lambda x: x[0].add_(1), "a view of a leaf Variable that requires grad is being used in an in-place operation."),
        (lambda x: torch.ones(3).register_hook(print), "cannot register a hook on a tensor that doesn't require gradient"),
        (lambda x: torch.ones(3).retain_grad(), "can't retain_grad on Tensor that has requires_grad=False"),
        (
            lambda x: (x * 2).register_post_accumulate_grad_hook(print),
            "post accumulate grad hooks cannot be registered on non-leaf tensors",
        ),
        (
            lambda x: setattr(x, "grad", torch.ones(2)),
            "attempting to assign a gradient of size '[2]' to a tensor of size '[3]'. Please ensure that the gradient and the "
            "tensor are the same size",
        ),
        (lambda x: setattr(x, "grad", x), "can't assign Variable as its own grad"),
        (
            lambda x: torch.ones(3, dtype=torch.int64).requires_grad_(),
            "only Tensors of floating point dtype can require gradients",
        ),
        (
            lambda x: setattr(x * 2, "requires_grad", False),
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph "
            "that doesn't require differentiation use var_no_grad = var.detach().",
        ),
    ],
)
def test_errors(call, message):
    assert words(lambda: call(leaf(1.0, 2.0, 3.0))) == message


# ---------------------------------------------------------------- hooks


def test_tensor_hooks_replace_gradients():
    x = leaf(1.0, 2.0)
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.sum().backward()
    assert (y.grad.tolist(), x.grad.tolist()) == ([10, 10], [20, 20])
    handle.remove()
    x.grad = None
    with x.register_hook(lambda g: g + 1):
        (x * 1).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_hooks_are_checked():
    x = leaf(1.0, 2.0)
    with x.register_hook(lambda g: g[:1]):
        assert words(x.sum().backward) == "hook '<lambda>' has changed the size of value"


def test_node_hooks():
    x = leaf(1.0, 2.0)
    y = x * 3
    calls = []
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append((inputs[0].tolist(), outputs[0].tolist())))
    y.sum().backward()
    assert calls == [([6, 6], [2, 2])]


def test_post_accumulate_hooks():
    x = leaf(1.0, 2.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    assert seen == [(True, [2, 2])]


def test_multi_grad_hook():
    x, y = leaf(1.0), leaf(2.0)
    seen = []
    torch.autograd.graph.register_multi_grad_hook([x, y], lambda gs: seen.append([g is not None for g in gs]))
    (x * y).backward()
    assert seen == [[True, True]]


def _sequential():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 2)
    )
    return dict(net.named_parameters()), net(torch.ones(2, 3, 4, 4))


def _concatenated():
    leaves = {name: leaf(1.0) for name in "abcdefg"}
    return leaves, torch.cat([leaves[name] for name in "cabgdfe"])


def _tied():
    table, head, inner = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False), torch.nn.Linear(4, 4)
    head.weight = table.weight
    return {"table": table.weight, **dict(inner.named_parameters())}, head(inner(table(torch.tensor([1, 2, 3]))))


def _mixed():
    leaves = {name: leaf(1.0, 2.0) for name in "abcd"}
    a, b, c, d = leaves.values()
    x = torch.stack([d, b, a, c])
    return leaves, torch.addcmul(a, b, c).sum() + torch.where(x[0] > 0, a, d).sum() + x.sum()


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (_sequential, "4.bias 4.weight 1.weight 1.bias 0.weight 0.bias"),
        (_concatenated, "c b f e d a g"),
        (_tied, "bias weight table"),
        (_mixed, "d a b c"),
    ],
    ids=["layers", "seven equals", "tied", "mixed"],
)
def test_hooks_of_leaves_run_in_pytorchs_order(graph, expected):
    """Leaves that are ready at once are equals in PyTorch's queue, whose order follows from its places."""
    leaves, result = graph()
    ran = []
    for name, tensor in leaves.items():
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: ran.append(name))
    result.sum().backward()
    assert " ".join(ran) == expected


def test_hooks_of_chosen_leaves_run_in_the_order_of_the_run():
    x, w = leaf(1.0, 1.0), leaf(1.0, 1.0)
    y = x * 2
    ran = []
    for name, tensor in (("x", x), ("w", w), ("y", y)):
        tensor.register_hook(lambda _, name=name: ran.append(name))
    for name, tensor in (("x", x), ("w", w)):
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: ran.append("after " + name))
    z = (y * w).sum() + (y * x).sum()
    z.backward(inputs=[x, w], retain_graph=True)
    assert ran == ["w", "after w", "y", "x", "after x"]
    ran.clear()
    torch.autograd.grad(z, [x, w], retain_graph=True)
    assert ran == ["w", "y", "x"]
    ran.clear()
    one = torch.ones(2)
    torch.autograd.backward([w, x], [one, one], inputs=[x])
    assert ran == ["x", "after x"]  # a root that no gradient is asked for is not reached
    assert w.grad.tolist() == [2, 2]


# ---------------------------------------------------------------- in place


def test_overwritten_values_are_noticed():
    x, w = leaf(1.0, 2.0, 3.0), torch.ones(3)
    y = (x * w).sum()
    w.add_(1)
    message = words(y.backward)
    assert message.startswith(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.FloatTensor [3]] is at version 1; expected version 0 instead."
    )
    y = x.exp()
    y.add_(1)
    assert "which is output 0 of Exp, is at version 1" in words(y.sum().backward)


def test_write_to_a_view_rewires_the_base():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    first, rest = y[0], y[:2]
    first.mul_(3)
    assert type(y.grad_fn).__name__ == "CopySlices"
    assert rest.grad_fn.name() == "AsStridedBackward0"
    (y * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [6, 20, 200]
    x.grad = None
    y = x * 2
    rest = y[:2]
    y[0].mul_(3)
    rest.sum().backward()
    assert x.grad.tolist() == [6, 2, 0]


def test_write_to_the_base_is_seen_by_its_views():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    view = y.view(3, 1)
    y.mul_(5)
    view.sum().backward()
    assert x.grad.tolist() == [10, 10, 10]


def test_assignment_into_a_buffer():
    x = leaf(1.0, 2.0)
    out = torch.zeros(2, 2)
    row = out[0]
    row.copy_(x)
    out[1] = x * 3
    (out * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.grad.tolist() == [10, 14]
    assert row.requires_grad


def test_forbidden_writes():
    x = leaf(1.0, 2.0)
    part, _ = (x * 2).unbind(0)
    assert words(lambda: part.add_(1)).startswith(
        "Output 0 of Unbind is a view and is being modified inplace. This view is the output of a function that returns "
        "multiple views."
    )


def test_detach_in_place():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert y.detach_() is y
    assert (y.requires_grad, y.is_leaf) == (False, True)
    assert words((x * 2)[0].detach_).startswith("Can't detach views in-place.")


# ---------------------------------------------------------------- modes


def test_grad_mode_decorators():
    x = leaf(1.0)

    @torch.no_grad()
    def double(t):
        return t * 2

    @torch.no_grad
    def generate():
        received = yield torch.is_grad_enabled()
        yield received, torch.is_grad_enabled()

    assert not double(x).requires_grad
    generator = generate()
    assert next(generator) is False
    assert torch.is_grad_enabled()
    assert generator.send(5) == (5, False)
    with torch.no_grad(), torch.enable_grad():
        assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()
        assert not (x * 2).requires_grad
    assert torch.is_grad_enabled()


# ---------------------------------------------------------------- Functions


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        result = x * factor
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx, g):
        assert ctx.needs_input_grad == (True, False)
        x, result = ctx.saved_tensors
        return g * ctx.factor + 0 * x + 0 * result, None


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * result


def test_function():
    x = leaf(1.0, 2.0)
    y = Scale.apply(x, 3)
    assert y.grad_fn.name() == "ScaleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert not Scale.apply(torch.ones(2), 3).requires_grad


def test_function_saves_its_output_for_higher_derivatives():
    x = leaf(0.5)
    (first,) = torch.autograd.grad(Exp.apply(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert second.tolist() == first.tolist()


def test_function_with_a_wrong_number_of_gradients():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    assert words(Bad.apply(x, x).backward) == (
        "function BadBackward returned an incorrect number of gradients (expected 2, got 1)"
    )


def test_function_materialises_gradients():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, fill):
            ctx.set_materialize_grads(fill)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b if b is None else b.tolist())
            return a, None

    seen = []
    for fill in (True, False):
        Two.apply(leaf(1.0, 2.0), fill)[0].sum().backward()
    assert seen == [[0, 0], None]


def test_function_in_place():
    class AddOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(1.0, 2.0)
    y = x * 1
    assert AddOne.apply(y) is y
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_once_differentiable():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    (first,) = torch.autograd.grad(Once.apply(x) * x, x, create_graph=True)
    assert words(lambda: first.sum().backward()) == (
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )


# ---------------------------------------------------------------- saved tensors, anomaly mode, checks


def test_saved_tensor_hooks():
    packed = []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor * 10

    x = leaf(1.0, 2.0)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept / 10):
        y = (x * torch.tensor([3.0, 4.0])).sum()
    y.backward()
    assert x.grad.tolist() == [3, 4]
    assert packed


@pytest.mark.filterwarnings("ignore")
def test_anomaly_mode():
    class Nan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = leaf(1.0)
    with torch.autograd.detect_anomaly():
        y = Nan.apply(x)
        assert words(y.backward) == "Function 'NanBackward' returned nan values in its 0th output."


def test_anomaly_mode_shows_the_program_and_nothing_else():
    x = leaf(0.0)
    with warnings.catch_warnings(record=True) as given, torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("always")
        root = (x * 0).sqrt()
        with pytest.raises(RuntimeError, match="returned nan values"):
            (root * 0).backward()
    shown = next(str(warning.message) for warning in given if "Traceback of forward call" in str(warning.message))
    assert "root = (x * 0).sqrt()" in shown
    assert not [line for line in shown.splitlines() if "<flambeau" in line or "flambeau/core/" in line]


def test_gradcheck_accepts_and_refuses():
    x = leaf(0.3, -0.7, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda a: a * a.exp(), (x,))
    assert torch.autograd.gradgradcheck(lambda a: a * a.exp(), (x,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        torch.autograd.gradcheck(lambda a: a.detach() * a, (x,))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.t(),
        lambda a: a.unfold(1, 2, 1),
        lambda a: a.diagonal(),
        lambda a: a[:, 1],
        lambda a: a[::2, 1:],
        lambda a: a.as_strided((2, 2, 2), (1, 1, 3)),
        lambda a: a.expand(2, 2, 3),
        lambda a: a.permute(1, 0).reshape(6),
        lambda a: a.narrow(1, 1, 2),
        lambda a: a.split(2, 1)[0],
        lambda a: a.unbind(1)[1],
        lambda a: a.flatten()[None],
    ],
    ids=range(12),
)
def test_views_differentiate_twice(view):
    x = torch.tensor([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: view(a) * view(a), (x,))
    assert torch.autograd.gradgradcheck(lambda a: view(a) * view(a), (x,))


def test_functional():
    x = torch.tensor([1.0, 2.0])
    functional = torch.autograd.functional
    assert functional.jacobian(lambda a: a * a, x).tolist() == [[2, 0], [0, 4]]
    assert functional.hessian(lambda a: (a * a * a).sum(), x).tolist() == [[6, 0], [0, 12]]
    v = torch.tensor([1.0, 3.0])
    assert functional.vjp(lambda a: a * a, x, v)[1].tolist() == [2, 12]
    assert functional.jvp(lambda a: a * a, x, v)[1].tolist() == [2, 12]
    assert functional.hvp(lambda a: (a * a * a).sum(), x, v)[1].tolist() == [6, 36]
    assert functional.vhp(lambda a: (a * a * a).sum(), x, v)[1].tolist() == [6, 36]


def normalized(x):
    return torch.nn.functional.binary_cross_entropy(x.sigmoid(), torch.ones(2, 2), weight=torch.ones(2))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: torch.cdist(x, x + 1), "CdistBackward0"),
        (lambda x: torch.dist(x, x + 1), "DistBackward0"),
        (lambda x: torch.rot90(x), "Rot90Backward0"),
        (lambda x: x.renorm(2, 0, 0.1), "RenormBackward0"),
        (lambda x: torch.block_diag(x, x), "BlockDiagBackward0"),
        (lambda x: torch.polar(x, x), "PolarBackward0"),
        (lambda x: torch.nn.functional.pairwise_distance(x, x + 1), "NormBackward1"),
        (normalized, "BinaryCrossEntropyBackward0"),
        (lambda x: torch.nn.functional.linear(x[None], x), "UnsafeViewBackward0"),
        (lambda x: torch.nn.functional.linear(x[0], x), "SqueezeBackward4"),
        (lambda x: torch.nn.functional.linear(x[0], x, x[0]), "ViewBackward0"),
        (lambda x: torch.nn.functional.l1_loss(x, x + 1, reduction="sum"), "SumBackward0"),
        (lambda x: torch.nn.functional.margin_ranking_loss(x, x, x, reduction="none"), "ClampMinBackward0"),
        (lambda x: torch.nn.functional.cross_entropy(x, x.detach()), "DivBackward1"),
        (lambda x: x.to(x.dtype, copy=True), "ToCopyBackward0"),
        (lambda x: x.clone(), "CloneBackward0"),
    ],
)
def test_names_of_what_is_one_step_in_pytorch(function, name):
    x = torch.tensor([[1.0, 2], [3, 5]], requires_grad=True)
    assert function(x).grad_fn.name() == name
    torch.autograd.grad(function(x).abs().sum(), x)


def test_one_step_renames_no_step_of_others():
    """What hands its argument through, or shows a leaf, has made no step."""
    x = torch.ones(2, 2, requires_grad=True) * 2
    assert torch.rot90(x, 0).grad_fn.name() == "Rot90Backward0"
    assert x.grad_fn.name() == "MulBackward0"


def test_grad_of_chosen_inputs_through_a_write_to_a_view():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    table = torch.zeros(3, 3)
    table[0] = x * 2
    table[:, 1].mul_(x)  # table[0, 1] is 2 x1 x0
    (grad,) = torch.autograd.grad(table[0, 1], x)
    assert grad.tolist() == [4.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: torch.diagonal_copy(x), "DiagonalBackward0_copy"),
        (lambda x: torch.narrow_copy(x, 0, 0, 1), "NarrowCopyBackward0"),
        (lambda x: torch.unbind_copy(x)[1], "UnbindBackward0_copy"),
        (lambda x: x.clone().transpose_(0, 1), "TransposeBackward1"),
        (lambda x: x.clone().unsqueeze_(0), "UnsqueezeBackward1"),
        (lambda x: x[:1].clone().squeeze_(0), "SqueezeBackward4"),
        (lambda x: x.clone().renorm_(1, 0, 1.0), "RenormBackward0"),
        (lambda x: torch.linalg.lu(x)[2], "LinalgLuBackward0"),
        (lambda x: torch.linalg.solve(x, x[0]), "LinalgSolveExBackward0"),
    ],
)
def test_names_of_copies_of_views_and_of_steps_in_place(call, name):
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
    made = call(x)
    assert made.grad_fn.name() == name
    made.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [((4, 5), (5, 1), (5, 1)), ((4, 5), (1, 4), (1, 4)), ((3,), (0,), (1,)), ((2, 3), (0, 1), (3, 1))],
)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("function", "recorded"),
    [(lambda x: x, None), (lambda x: x.t() * 2 if x.ndim == 2 else x * 2, None), (lambda x: x * x, "CopyBackwards")],
)
def test_a_gradient_lies_as_its_leaf_does(shape, strides, expected, create_graph, function, recorded):
    x = torch.ones(6).as_strided(shape, strides) if 0 in strides else torch.ones(20).as_strided(shape, strides)
    x = x.detach().requires_grad_()
    function(x).sum().backward(create_graph=create_graph)
    assert x.grad.stride() == expected
    step = None if recorded is None or not create_graph else "CloneBackward0" if 0 in strides else recorded
    assert (x.grad.grad_fn and type(x.grad.grad_fn).__name__) == step


def test_a_real_angle_has_a_gradient_that_depends_on_nothing():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(x.angle().pow(2).sum(), x, create_graph=True)
    assert not gradient.requires_grad and gradient.tolist() == [0, 0]


@pytest.mark.parametrize("whole", [torch.max, torch.min, torch.median, torch.nanmedian])
def test_what_an_extreme_passes_by_gets_a_positive_zero(whole):
    x = torch.tensor([-2.0, -2.0, -2.0], requires_grad=True)
    y = torch.cat([x, whole(x).detach()[None] * torch.tensor([2.0 if whole is torch.max else 0.5])])
    (gradient,) = torch.autograd.grad(whole(y) * -1, y)
    assert not gradient[gradient == 0].signbit().any()


@pytest.mark.parametrize("function", [torch.add, torch.sub])
def test_a_number_at_its_default_after_one_that_was_not(function):
    x = torch.full((2, 5), 2.0)
    function(x, x, alpha=2)  # the plan of such a call serves any number
    y, z = x.clone().requires_grad_(), x.clone().requires_grad_()
    sign = 1.0 if function is torch.add else -1.0
    for alpha in (1, 3, 1):
        (function(y, z) if alpha == 1 else function(y, z, alpha=alpha)).sum().backward()
        assert y.grad.unique().item() == 1.0 and z.grad.unique().item() == sign * alpha
        y.grad = z.grad = None
