"""PyTorch's own operators by the names of its dispatcher: schemas, tags, the choice of an overload, and what answers it."""

import pytest

import flambeau as torch
from flambeau.dispatcher import builtin, builtin_schemas

aten = torch.ops.aten


def test_schemas_say_arguments_defaults_and_aliases():
    assert str(aten.add.Tensor._schema) == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert str(aten.add_.Tensor._schema) == "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    assert aten.add_.Tensor._schema.is_mutable and not aten.add.Tensor._schema.is_mutable
    assert str(aten.avg_pool2d.default._schema).startswith("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], ")
    alpha = aten.add.Tensor._schema.arguments[2]
    assert (alpha.name, alpha.default_value, alpha.kwarg_only) == ("alpha", 1, True)
    assert aten.view.default.is_view and not aten.add.Tensor.is_view


def test_tags_say_what_an_operator_is():
    assert {torch.Tag.core, torch.Tag.pointwise} <= set(aten.add.Tensor.tags)
    assert torch.Tag.nondeterministic_seeded in aten.bernoulli.default.tags
    assert torch.Tag.pointwise not in aten.mm.default.tags


def test_a_call_finds_the_overload_that_its_arguments_fit():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert aten.sum(x).item() == 10
    assert aten.sum(x, [0]).tolist() == [4, 6]
    assert aten.add(x, 1).tolist() == [[2, 3], [4, 5]]
    assert aten.add(x, x, alpha=2).tolist() == [[3, 6], [9, 12]]
    values, indices = aten.max(x, 1)
    assert (values.tolist(), indices.tolist()) == ([2, 4], [1, 1])
    with pytest.raises(RuntimeError, match="failed to match any schema"):
        aten.sum("no tensor")


def test_results_have_the_forms_of_the_schemas():
    x = torch.arange(6.0)
    assert type(aten.split.Tensor(x, 4)) is list
    assert type(aten.sort.default(x)) is tuple
    assert aten._foreach_add_.Scalar([x], 1) is None and x[0] == 1
    assert aten.slice.Tensor(x, 0, 1, 4).tolist() == [2, 3, 4]
    shown, copied = aten.view.default(x, [2, 3]), aten.view_copy.default(x, [2, 3])
    x[0] = 9
    assert shown[0, 0] == 9 and copied[0, 0] == 1


def test_names_of_arguments_are_those_of_the_schema():
    x = torch.tensor([1.0, -2.0])
    assert aten.mul.Tensor(self=x, other=x).tolist() == [1, 4]
    out = torch.empty(2)
    assert aten.mul.out(x, x, out=out) is out and out.tolist() == [1, 4]
    assert aten.clamp_min.default(x, min=0).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match=r"aten::mul\(\) is missing value for argument .self."):
        aten.mul.Tensor(input=x, other=x)


@pytest.mark.parametrize(
    ("name", "arguments", "reference"),
    [
        ("tanh_backward", lambda g, x: (g, x.tanh()), torch.tanh),
        ("sigmoid_backward", lambda g, x: (g, x.sigmoid()), torch.sigmoid),
        ("gelu_backward", lambda g, x: (g, x), torch.nn.functional.gelu),
        ("silu_backward", lambda g, x: (g, x), torch.nn.functional.silu),
        ("mish_backward", lambda g, x: (g, x), torch.nn.functional.mish),
        ("hardswish_backward", lambda g, x: (g, x), torch.nn.functional.hardswish),
        ("softplus_backward", lambda g, x: (g, x, 1.0, 20.0), torch.nn.functional.softplus),
        ("leaky_relu_backward", lambda g, x: (g, x, 0.01, False), torch.nn.functional.leaky_relu),
        ("elu_backward", lambda g, x: (g, 1.0, 1.0, 1.0, False, x), torch.nn.functional.elu),
        ("threshold_backward", lambda g, x: (g, x, 0.0), torch.relu),
        ("_softmax_backward_data", lambda g, x: (g, x.softmax(1), 1, x.dtype), lambda x: x.softmax(1)),
        ("_log_softmax_backward_data", lambda g, x: (g, x.log_softmax(1), 1, x.dtype), lambda x: x.log_softmax(1)),
        ("glu_backward", lambda g, x: (g[:, :2], x, 1), torch.nn.functional.glu),
    ],
)
def test_gradients_as_operators_are_those_of_autograd(name, arguments, reference):
    torch.manual_seed(0)
    x, g = torch.randn(3, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    result = reference(leaf)
    (expected,) = torch.autograd.grad(result, leaf, g[:, : result.shape[1]])
    torch.testing.assert_close(getattr(aten, name)(*arguments(g, x)), expected)


def test_gradients_of_normalizations_use_what_the_forward_pass_made():
    torch.manual_seed(0)
    x, w, b = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((2, 6, 5), (5,), (5,)))
    out, mean, scale = aten.native_layer_norm.default(x, [5], w, b, 1e-3)
    g = torch.randn_like(out)
    expected = torch.autograd.grad(out, (x, w, b), g)
    made = aten.native_layer_norm_backward.default(g, x.detach(), [5], mean, scale, w.detach(), b.detach(), [True] * 3)
    torch.testing.assert_close(made, expected)
    w, b = torch.randn(6, dtype=torch.float64, requires_grad=True), torch.randn(6, dtype=torch.float64, requires_grad=True)
    out, mean, scale = aten.native_group_norm.default(x, w, b, 2, 6, 5, 3, 1e-3)
    expected = torch.autograd.grad(out, (x, w, b), g)
    made = aten.native_group_norm_backward.default(g, x.detach(), mean, scale, w.detach(), 2, 6, 5, 3, [True] * 3)
    torch.testing.assert_close(made, expected)


def test_the_gradients_of_a_convolution_in_one_operator():
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 6, 6, requires_grad=True), torch.randn(6, 2, 3, 3, requires_grad=True)
    out = torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=2)
    g = torch.randn_like(out)
    expected = (*torch.autograd.grad(out, (x, w), g), g.sum((0, 2, 3)))
    rest = ([6], [2, 2], [1, 1], [1, 1], False, [0, 0], 2)
    made = aten.convolution_backward.default(g, x.detach(), w.detach(), *rest, [True, True, True])
    torch.testing.assert_close(made, expected)
    assert aten.convolution_backward.default(g, x.detach(), w.detach(), *rest, [False, True, False])[0] is None


def test_losses_take_numbers_for_reductions():
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])
    assert [aten.mse_loss.default(x, y, reduction).tolist() for reduction in (0, 1, 2)] == [[1, 4], 2.5, 5]
    assert aten.mse_loss_backward.default(torch.ones(()), x, y, 2).tolist() == [2, -4]
    loss, total = aten.nll_loss_forward.default(torch.tensor([[0.5, 1.5]]), torch.tensor([1]), torch.tensor([1.0, 3.0]), 1, -100)
    assert (loss.item(), total.item()) == (-1.5, 3)


def test_what_flambeau_has_not_says_so_when_it_is_called():
    operator = aten._cudnn_rnn.default
    assert operator.name() == "aten::_cudnn_rnn"
    with pytest.raises(NotImplementedError, match="aten::_cudnn_rnn is not implemented in flambeau"):
        operator(1)


def test_all_core_operators_are_answered():
    core = [
        (name, overload)
        for name in builtin_schemas.names("aten")
        for overload in builtin_schemas.overloads_of(f"aten::{name}")
        if torch.Tag.core in builtin_schemas.tags_of(f"aten::{name}", overload)
    ]
    missing = {pair for pair in core if getattr(builtin.answer_of("aten", *pair), "missing", False)}
    assert len(core) > 180
    assert missing == set()


def test_overloads_with_out_and_functional_forms_are_derived_from_others():
    x = torch.tensor([1.0, 4.0])
    out = torch.empty(0)
    assert aten.mse_loss.out(x, torch.zeros(2), 2, out=out) is out and out.item() == 17
    torch.manual_seed(0)
    drawn = aten.uniform.default(x, 0.0, 1.0)
    torch.manual_seed(0)
    assert drawn.tolist() == torch.rand(2).tolist() and x.tolist() == [1, 4]


def test_recurrent_layers_and_convolutions_are_operators_as_traced_programs_name_them():
    torch.manual_seed(0)
    x, layer = torch.randn(2, 5, 3), torch.nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
    states = [torch.zeros(4, 2, 4), torch.zeros(4, 2, 4)]
    found = aten.lstm.input(x, states, layer._flat_weights, True, 2, 0.0, False, True, True)
    expected, finals = layer(x)
    assert torch.equal(found[0], expected) and torch.equal(found[2], finals[1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
    gru = torch.nn.GRU(3, 4)
    start = torch.zeros(1, 2, 4)
    found = aten.gru.data(packed.data, packed.batch_sizes, start, gru._flat_weights, True, 1, 0.0, False, False)
    assert torch.equal(found[0], gru(packed)[0].data)
    image, weight = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    flags = [False, False, True, True]
    found = aten._convolution.default(image, weight, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, *flags)
    assert torch.equal(found, torch.nn.functional.conv2d(image, weight, stride=2, padding=1))
    found = aten._convolution_mode.default(image, weight, None, [1, 1], "same", [1, 1], 1)
    assert torch.equal(found, torch.nn.functional.conv2d(image, weight, padding="same"))


def test_sparse_tensors_are_made_of_their_parts():
    places, values = torch.tensor([[0, 1], [1, 0]]), torch.tensor([3.0, 4.0])
    bounds, others = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
    expected = [[0, 3, 0], [4, 0, 0]]
    for made in (
        aten.sparse_coo_tensor(places, values, [2, 3], layout=torch.sparse_coo, pin_memory=False),
        aten._sparse_coo_tensor_unsafe(places, values, [2, 3]),
        aten.sparse_csr_tensor(bounds, others, values, [2, 3]),
        aten._sparse_csr_tensor_unsafe(bounds, others, values, [2, 3]),
        aten.sparse_compressed_tensor(bounds, others, values, [2, 3], layout=torch.sparse_csr),
    ):
        assert made.to_dense().tolist() == expected
    assert aten.sparse_csc_tensor(bounds, others, values).layout == torch.sparse_csc
    assert aten.sparse_coo_tensor([2, 3], device="cpu")._nnz() == 0


def test_products_of_sparse_tensors():
    eye, ones = torch.eye(2).to_sparse(), torch.ones(2, 2)
    assert aten._sparse_mm(eye, ones).tolist() == ones.tolist()
    assert aten._sparse_mm(torch.ones(2, 2).to_sparse_csr(), ones, "mean").tolist() == ones.tolist()
    assert aten._sparse_addmm(ones, eye, ones).tolist() == [[2, 2], [2, 2]]
    assert aten.sparse_sampled_addmm(torch.eye(2).to_sparse_csr(), ones, ones).to_dense().tolist() == [[3, 0], [0, 3]]
    assert aten._sparse_softmax(eye, 1).to_dense().tolist() == [[1, 0], [0, 1]]
    assert aten._sparse_log_softmax(eye, 1).to_dense().tolist() == [[0, 0], [0, 0]]
