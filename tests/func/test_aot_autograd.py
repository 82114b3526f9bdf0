"""functorch.compile: compiled functions do what functions do, to results, arguments, gradients and shared memory."""

from __future__ import annotations

import copy

import pytest

import flambeau as torch
from flambeau._functorch.aot_autograd import aot_export_joint_simple
from flambeau._functorch.functorch import compile as aot

partitions = pytest.mark.parametrize("partition", [aot.default_partition, aot.min_cut_rematerialization_partition])


def compiled(f, graphs=None, **kwargs):
    def compiler(graph, inputs):
        if graphs is not None:
            graphs.append(graph)
        return graph

    return aot.aot_function(f, aot.make_boxed_compiler(compiler), **kwargs)


def fresh(leaves):
    made = [x.detach().clone().requires_grad_(x.requires_grad) for x in leaves]
    return made, [x + 1 for x in made]


def check(f, *leaves, **kwargs):
    """Compare a function with its compiled form: results, what arguments are afterwards, gradients of the leaves."""
    (own, given), (others, passed) = fresh(leaves), fresh(leaves)
    expected, got = f(*given), compiled(f, **kwargs)(*passed)
    expected, got = [x if isinstance(x, (tuple, list)) else [x] for x in (expected, got)]
    for x, y in zip([*expected, *given], [*got, *passed], strict=True):
        torch.testing.assert_close(x, y)
        assert x.requires_grad == y.requires_grad
        assert x.stride() == y.stride()
    for x, y in zip(expected, got):
        assert [x is a for a in given] == [y is a for a in passed]
        assert [x is a for a in expected] == [y is a for a in got]
    for results in (expected, got):
        wanted = [x for x in results if x.requires_grad]
        if wanted:
            sum((x * x).sum() for x in wanted).backward()
    for x, y in zip(own, others):
        assert (x.grad is None) == (y.grad is None)
        if x.grad is not None:
            torch.testing.assert_close(x.grad, y.grad)
    return got


def written(a):
    a.mul_(2)
    return a * 3


def written_and_returned(a):
    a.mul_(2)
    return a


def part_written(a):
    a[0].mul_(3)
    return a.t()


def views(a):
    return a.view(-1), a[0]


def views_of_an_intermediate(a):
    b = a * 2
    return b.view(-1), b[0]


def views_of_a_result(a):
    b = a * 2
    return b.view(-1), b, b[0]


def the_only_view(a):
    return (a * 2).view(-1)


def intermediate_written_through_a_view(a):
    b = a * 2
    c = b[0]
    c.add_(1)
    c.mul_(a[1])
    return b.sin()


def result_twice(a):
    b = a * 2
    return b, b


def written_without_grad(a):
    with torch.no_grad():
        a.mul_(2)
    return a + 1


def turned(a):
    a.transpose_(0, 1)
    b = a * 2
    return b, a.unsqueeze(0)


def argument_returned(a):
    return a, a + 1


def scattered(a):
    b = torch.zeros_like(a)
    b[:, 1] = a[:, 0]
    return b * a


PROGRAMS = [
    written, written_and_returned, part_written, views, views_of_an_intermediate, views_of_a_result, the_only_view,
    intermediate_written_through_a_view, result_twice, written_without_grad, turned, argument_returned, scattered,
]  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled_functions_do_what_functions_do(program, requires_grad, dynamic):
    torch.manual_seed(0)
    check(program, torch.randn(3, 4, requires_grad=requires_grad), dynamic=dynamic)


@pytest.mark.parametrize("program", [written, written_without_grad, part_written], ids=lambda f: f.__name__)
def test_writes_may_be_part_of_the_graph(program):
    graphs = []
    check(program, torch.randn(3, 4), keep_inference_input_mutations=True, graphs=graphs)
    assert any(n.target is torch.ops.aten.copy_.default for n in graphs[0].graph.nodes)


@partitions
def test_gradients_of_products_and_normalizations(partition):
    def f(a, b):
        return (a @ b.t()).softmax(0).sum() * a, torch.nn.functional.layer_norm(b, (4,)).tanh()

    check(f, torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True), partition_fn=partition)


def test_a_graph_without_writes_returns_what_is_to_be_written():
    graphs = []
    check(written, torch.randn(3, 4, requires_grad=True), graphs=graphs)
    assert (
        graphs[0].code.strip()
        == """\
def forward(self, primals_1):
    clone = torch.ops.aten.clone.default(primals_1);  primals_1 = None
    mul = torch.ops.aten.mul.Tensor(clone, 2);  clone = None
    mul_1 = torch.ops.aten.mul.Tensor(mul, 3)
    return (mul, mul_1)"""
    )


# ---------------------------------------------------------------- arguments that share memory


def shared(make, f, **kwargs):
    given, passed = make(), make()
    expected, got = f(*given), compiled(f, **kwargs)(*passed)
    for x, y in zip([*expected, *given], [*got, *passed], strict=True):
        torch.testing.assert_close(x, y)
        assert x.requires_grad == y.requires_grad
    assert [[x is a for a in given] for x in expected] == [[y is a for a in passed] for y in got]


def one_written(a, b):
    b.mul_(2)
    return a, b, a + b, b.t(), a[0]


@pytest.mark.parametrize("requires_grad", [False, True])
def test_arguments_that_share_memory(requires_grad):
    def base():
        return torch.arange(12.0).reshape(3, 4).requires_grad_(requires_grad) + 0

    def with_base():
        x = base()
        return x, x[1]

    def two_parts():
        x = base()
        return x[0, :3], x[:, 0]

    def twice():
        x = base()
        return x, x

    for make in (with_base, two_parts, twice):
        shared(make, one_written)
        shared(make, lambda a, b: (a * b.sum(), b))


def test_parts_of_memory_that_are_views_of_nothing():
    def make():
        x = torch.arange(12.0)
        return x[2:6].detach().data, x[4:8].data

    shared(make, one_written)


def test_the_same_compiled_function_for_other_arguments():
    f = compiled(one_written)
    x = torch.ones(3)
    y = x.clone()
    f(x, y)
    assert x.tolist() == [1, 1, 1] and y.tolist() == [2, 2, 2]
    f(x, x)
    assert x.tolist() == [2, 2, 2]
    assert f(torch.ones(2, 2), torch.ones(2, 2))[2].tolist() == [[3, 3], [3, 3]]
    g = compiled(lambda a, n: a * n)
    assert [g(torch.ones(1), n).item() for n in (2, 3, 2)] == [2, 3, 2]


# ---------------------------------------------------------------- modules, random numbers, gradients


def test_a_module_with_buffers_and_dropout():
    torch.manual_seed(0)
    own = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Flatten(),
        torch.nn.Linear(27, 2),
    )  # fmt: skip
    other = copy.deepcopy(own)
    module = aot.aot_module(other, aot.nop)
    x = torch.randn(2, 2, 5, 5)
    for _ in range(2):
        torch.manual_seed(1)
        expected = own(x)
        torch.manual_seed(1)
        got = module(x)
        torch.testing.assert_close(expected, got)
        expected.sum().backward()
        got.sum().backward()
    for (name, p), (_, q) in zip(own.named_parameters(), other.named_parameters()):
        torch.testing.assert_close(p.grad, q.grad, msg=name)
    for (name, p), (_, q) in zip(own.named_buffers(), other.named_buffers()):
        torch.testing.assert_close(p, q, msg=name)


def test_gradients_in_other_layouts_and_absent_ones():
    def f(a):
        return a.t() * 2, a.view(-1) * 3

    leaf, other = torch.randn(3, 4, requires_grad=True), None
    other = leaf.detach().clone().requires_grad_()
    f(leaf)[0].backward(torch.ones(3, 1).expand(3, 4).t())
    compiled(f)(other)[0].backward(torch.ones(3, 1).expand(3, 4).t())
    torch.testing.assert_close(leaf.grad, other.grad)
    f(leaf)[1].backward(torch.arange(24.0)[::2])
    compiled(f)(other)[1].backward(torch.arange(24.0)[::2])
    torch.testing.assert_close(leaf.grad, other.grad)


def test_a_saved_value_that_was_written_to_is_refused():
    def f(a):
        b = a * 2
        c = b.sin()
        b.add_(1)
        return c

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        compiled(f)(torch.randn(3, requires_grad=True))


def test_second_derivatives_are_refused():
    x = torch.randn(3, requires_grad=True)
    (g,) = torch.autograd.grad(compiled(lambda a: a.sin() * a)(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        g.sum().backward()


def test_a_custom_function_that_hands_its_argument_on():
    class Halved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 0.5

    check(lambda x: Halved.apply(x), torch.ones(2, 2, requires_grad=True))


def test_another_storage_is_refused():
    def f(a, b):
        with torch.no_grad():
            a.set_(b)
        return a + 1

    with pytest.raises(NotImplementedError, match="another storage"):
        compiled(f)(torch.ones(3), torch.zeros(3))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_memory_efficient_fusion():
    def f(a, b):
        return (a * b).tanh().sin() + b

    given, passed = fresh([torch.randn(3, 4, requires_grad=True)] * 2), fresh([torch.randn(3, 4, requires_grad=True)] * 2)
    with torch.no_grad():
        for x, y in zip(given[0], passed[0]):
            y.copy_(x)
    passed = passed[0], [x + 1 for x in passed[0]]
    f(*given[1]).sum().backward()
    aot.memory_efficient_fusion(f)(*passed[1]).sum().backward()
    for x, y in zip(given[0], passed[0]):
        torch.testing.assert_close(x.grad, y.grad)


# ---------------------------------------------------------------- exported graphs


def test_export_of_a_module():
    from flambeau._functorch.aot_autograd import aot_export_module

    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    graph, signature = aot_export_module(module, [torch.randn(4, 3)], trace_joint=False)
    assert signature.parameters == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(signature.buffers_to_mutate.values()) == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert len(signature.user_outputs) == 1
    assert not any(getattr(n.target, "_schema", None) and n.target._schema.is_mutable for n in graph.graph.nodes)


def test_export_with_the_gradients_of_a_loss():
    from flambeau._functorch.aot_autograd import aot_export_module

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, x):
            return (self.linear(x).sum(),)

    module, x = Loss(), torch.randn(4, 3)
    graph, signature = aot_export_module(module, [x], trace_joint=True, output_loss_index=0)
    module(x)[0].backward()
    *_, weight, bias, _ = graph(module.linear.weight, module.linear.bias, x)
    torch.testing.assert_close(weight, module.linear.weight.grad)
    torch.testing.assert_close(bias, module.linear.bias.grad)
    assert set(signature.backward_signature.gradients_to_parameters.values()) == {"linear.weight", "linear.bias"}


def test_simple_export_refuses_writes():
    from flambeau._functorch.aot_autograd import aot_export_joint_simple

    with pytest.raises(RuntimeError, match="does not support input mutations"):
        aot_export_joint_simple(lambda a: (a.mul_(2).sin(),), [torch.ones(3)], trace_joint=False)


def test_export_with_a_size_that_only_a_run_tells():
    from flambeau._functorch.aot_autograd import aot_export_module

    class Filled(torch.nn.Module):
        def forward(self):
            return (torch.full((torch.full((), 11).item(),), 0),)

    graph, _ = aot_export_module(Filled(), (), trace_joint=False, dynamic_shapes=True)
    assert graph()[0].shape == (11,)
    assert "_local_scalar_dense" in graph.code


def test_what_graphs_can_have_nothing_of_is_refused():
    mode = torch._subclasses.FakeTensorMode()
    x, z = mode.from_tensor(torch.randn(4, requires_grad=True)), mode.from_tensor(torch.randn(4))

    class Adds(torch.nn.Module):
        def forward(self, x):
            return (x + z,)

    with pytest.raises(AssertionError, match="Unexpected fake"):
        aot.aot_module_simplified(Adds(), (x,), aot.nop)
    with aot.config.patch(functionalize_rng_ops=True), pytest.raises(RuntimeError, match="CPU RNG operator"):
        compiled(lambda a: torch.rand_like(a) + a)(torch.ones(3))


def test_a_backend_gets_flat_graphs():
    module = torch.nn.Linear(3, 2)

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x):
            return (self.inner(x).relu(),)

    x = torch.randn(4, 3)
    f = aot.aot_module_simplified(Flat(), (x,), aot.nop)
    torch.testing.assert_close(f(x)[0], module(x).relu())
    f(x)[0].sum().backward()
    weight = module.weight.grad.clone()
    module.zero_grad()
    module(x).relu().sum().backward()
    torch.testing.assert_close(module.weight.grad, weight)


def masked(a):
    b = a.clone()
    b[b > 0] = 0
    b.index_add_(0, torch.tensor([0, 1]), a[:2])
    return b * a


def solved(a):
    square = a @ a.t() + 4 * torch.eye(3)
    return torch.linalg.solve(square, a)


def checkpointed(a):
    return torch.utils.checkpoint.checkpoint(lambda b: (b @ b.t()).sin().cos(), a, use_reentrant=False)


def written_by_out(a):
    made = torch.empty(3, 4)
    torch.add(a.detach(), 1, out=made)
    return made * a


@partitions
@pytest.mark.parametrize("program", [masked, solved, checkpointed, written_by_out], ids=lambda f: f.__name__)
def test_constants_systems_and_checkpoints(program, partition):
    torch.manual_seed(0)
    check(program, torch.randn(3, 4, requires_grad=True), partition_fn=partition)


def test_random_numbers_that_a_checkpoint_would_draw_again_are_refused():
    def f(a):
        return torch.utils.checkpoint.checkpoint(lambda b: torch.dropout(b.sin(), 0.5, True), a, use_reentrant=False)

    with pytest.raises(NotImplementedError, match="state of a random stream"):
        compiled(f)(torch.randn(3, requires_grad=True))


def test_exports_that_are_banned():
    """In PyTorch's words."""
    p, x = torch.ones(2, requires_grad=True), torch.rand(2, 2)
    for function, given, joint, words in (
        (lambda p, x: (x.t_() * 2,), [p, x], False, "Found an input that received a metadata mutation, through e.g."),
        (lambda p, x: (p.mul_(2) + x,), [p, x], True, "Found a graph input that requires gradients, and received a mutation."),
        (lambda p, x: (p.mul_(2) + x,), [p, x], False, "aot_export_joint_simple does not support input mutations."),
        (lambda pair: (pair[0] + 1,), [[x, x + 1]], False, "requires individual inputs not to be pytrees. in_spec="),
        (lambda x: ([x + 1],), [x], False, "requires individual outputs not to be pytrees. out_spec="),
        (lambda x: x + 1, [x], False, "requires outputs to be a single list/tuple. out_spec="),
    ):
        with pytest.raises(RuntimeError) as caught:
            aot_export_joint_simple(function, given, trace_joint=joint)
        assert words in str(caught.value)


def test_a_backward_graph_goes_to_its_compiler_when_it_is_asked_for():
    order = []

    def compiler(name):
        def compile(graph, inputs):
            order.append(name)
            return aot.make_boxed_func(graph.forward)

        return compile

    made = aot.aot_function(lambda x: x.sin(), compiler("forward"), compiler("backward"))(torch.rand(2, requires_grad=True))
    order.append("called")
    made.sum().backward()
    assert order == ["forward", "called", "backward"]
