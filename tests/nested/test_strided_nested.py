"""Nested tensors of the layout torch.strided: sizes, views, functions of elements, products, derivatives, files, errors."""

import io

import pytest
from implementation import torch

F = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.fixture
def pair():
    torch.manual_seed(0)
    return [torch.randn(2, 3), torch.randn(4, 3)]


@pytest.fixture
def nested(pair):
    return torch.nested.nested_tensor(pair)


def same(nested, tensors):
    parts = nested.unbind()
    assert len(parts) == len(tensors)
    for part, tensor in zip(parts, tensors):
        torch.testing.assert_close(part, tensor)


def test_it_prints_as_pytorch_does():
    x = torch.nested.nested_tensor([torch.arange(2), torch.arange(3)])
    assert repr(x) == "nested_tensor([\n  tensor([0, 1]),\n  tensor([0, 1, 2])\n])"
    assert (
        repr(torch.nested.nested_tensor([torch.ones(1)], requires_grad=True))
        == "nested_tensor([\n  tensor([1.])\n], requires_grad=True)"
    )


def test_sizes(nested):
    assert nested.is_nested and nested.dim() == 3 and nested.numel() == 18 and nested.layout is torch.strided
    assert nested.size(0) == 2 and nested.size(2) == 3
    assert nested._nested_tensor_size().tolist() == [[2, 3], [4, 3]]
    assert nested._nested_tensor_strides().tolist() == [[3, 1], [3, 1]]
    assert nested._nested_tensor_storage_offsets().tolist() == [0, 6]
    with pytest.raises(RuntimeError, match=r"Given dimension 1 is irregular and does not have a size."):
        nested.size(1)
    with pytest.raises(RuntimeError, match="NestedTensorImpl doesn't support sizes"):
        nested.shape


def test_views_share_the_memory(nested, pair):
    flipped = nested.transpose(1, 2)
    same(flipped, [t.T for t in pair])
    assert flipped._base is nested and not flipped.is_contiguous()
    flipped[1].zero_()
    assert nested[1].abs().sum() == 0 and nested[0].abs().sum() > 0
    same(nested.unsqueeze(1).squeeze(1), list(nested.unbind()))
    same(nested[..., 1], [t[..., 1] for t in nested.unbind()])
    same(nested.view(2, -1, 3, 1), [t.unsqueeze(-1) for t in nested.unbind()])
    parts = nested.chunk(3, -1)
    same(parts[2], [t[:, 2:] for t in nested.unbind()])
    same(parts[2].contiguous(), [t[:, 2:] for t in nested.unbind()])


def test_elements(nested, pair):
    same(nested + 1, [t + 1 for t in pair])
    same(nested * nested, [t * t for t in pair])
    same(nested.transpose(1, 2) - nested.transpose(1, 2), [t.T * 0 for t in pair])
    same(F.gelu(nested), [F.gelu(t) for t in pair])
    same(nested.to(torch.float64), [t.double() for t in pair])
    same(nested.masked_fill(nested > 0, 0.0), [t.masked_fill(t > 0, 0.0) for t in pair])
    with pytest.raises(RuntimeError, match=r"NestedTensor must be contiguous to get buffer."):
        nested.transpose(1, 2).relu()
    with pytest.raises(RuntimeError, match="Expected both self and other to be nested"):
        nested * torch.ones(3)
    with pytest.raises(NotImplementedError, match="Could not run 'aten::exp' with arguments from the 'NestedTensorCPU' backend"):
        nested.exp()
    with pytest.raises(RuntimeError, match="mul requires offsets to match"):
        nested.chunk(3, -1)[0] * nested.chunk(3, -1)[1]


def test_products_and_rows(nested, pair):
    same(torch.bmm(nested, nested.transpose(1, 2)), [t @ t.T for t in pair])
    same(nested.matmul(nested.transpose(1, 2)), [t @ t.T for t in pair])
    weight, bias = torch.randn(5, 3), torch.randn(5)
    same(F.linear(nested, weight, bias), [F.linear(t, weight, bias) for t in pair])
    same(nested.softmax(1), [t.softmax(0) for t in pair])
    same(nested.sum(-1, keepdim=True), [t.sum(-1, keepdim=True) for t in pair])
    ones = torch.ones(3)
    same(F.layer_norm(nested, (3,), ones, ones), [F.layer_norm(t, (3,), ones, ones) for t in pair])
    q = torch.nested.nested_tensor([torch.randn(2, 3, 4), torch.randn(2, 5, 4)])
    same(F.scaled_dot_product_attention(q, q, q), [F.scaled_dot_product_attention(t, t, t) for t in q.unbind()])


def test_padding(nested, pair):
    padded = nested.to_padded_tensor(-1.0, (2, 5, 3))
    assert padded.shape == (2, 5, 3) and (padded[0, 2:] == -1).all() and (padded[1, 4:] == -1).all()
    torch.testing.assert_close(padded[1, :4], pair[1])
    back = torch._nested_tensor_from_mask(padded, torch.arange(5) < torch.tensor([[2], [4]]))
    same(back, pair)
    same(torch._nested_from_padded(padded, nested._nested_tensor_size()), pair)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        nested.to_padded_tensor(0.0, (2, 3, 3))
    with pytest.raises(RuntimeError, match="Mask must be left-aligned without gaps"):
        torch._nested_tensor_from_mask(padded, torch.tensor([[1, 0, 1, 0, 0]] * 2).bool())


def test_gradients_to_second_order(pair):
    def loss(a, b, w):
        x = torch.nested.as_nested_tensor([a, b])
        y = F.linear(torch.bmm(x, x.transpose(1, 2)).softmax(-1).matmul(x), w) * 2
        return F.gelu(y + y).to_padded_tensor(0.0)

    inputs = [t.double().requires_grad_() for t in (*pair, torch.randn(2, 3))]
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


def test_a_leaf_gets_a_nested_gradient(pair):
    x = torch.nested.nested_tensor(pair, requires_grad=True)
    (x * 3).to_padded_tensor(0.0).sum().backward()
    same(x.grad, [torch.full_like(t, 3.0) for t in pair])
    (given,) = torch.autograd.grad((x * x).to_padded_tensor(0.0).sum(), x)
    same(given, [2 * t for t in pair])


def test_files_and_their_parts_are_checked(nested, pair):
    file = io.BytesIO()
    torch.save(nested, file)
    file.seek(0)
    same(torch.load(file), pair)
    buffer, sizes, strides, starts = nested.__reduce_ex__(2)[1]
    with pytest.raises(RuntimeError):
        torch._nested_view_from_buffer(buffer, sizes, strides, starts + 10 if torch.__name__ == "flambeau" else starts[:1])


def test_bad_lists():
    with pytest.raises(TypeError, match="Only lists"):
        torch.nested.nested_tensor((torch.ones(2),))
    with pytest.raises(RuntimeError, match=r"Found dimension 2 for Tensor at index 1 and dimension 1 for Tensor at index 0."):
        torch.nested.nested_tensor([torch.ones(2), torch.ones(2, 2)])
    with pytest.raises(TypeError, match="as_nested_tensor"):
        torch.nested.as_nested_tensor(3)
    with pytest.raises(RuntimeError, match="Specified layout is unsupported"):
        torch.nested.nested_tensor([torch.ones(2)], layout=torch.sparse_coo)


def test_attention_layers_take_nested_tensors_where_pytorch_has_a_kernel():
    torch.manual_seed(0)
    rows = [torch.randn(2, 8), torch.randn(4, 8)]
    x = torch.nested.nested_tensor(rows)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        same(layer(x), [layer(t.unsqueeze(0))[0] for t in rows])
        output, weights = layer.self_attn(x, x, x)
        alone, own = layer.self_attn(rows[0].unsqueeze(0), *[rows[0].unsqueeze(0)] * 2)
        torch.testing.assert_close(output[0], alone[0])
        torch.testing.assert_close(weights[0, :2, :2], own[0])
        assert weights.shape == (2, 4, 4) and (weights[0, 2:] == 0).all() and (weights[0, :, 2:] == 0).all()
        with pytest.raises(AssertionError, match="because non-self attention was used"):
            layer.self_attn(x, x, rows[0])
    with pytest.raises(AssertionError, match="because grad is enabled"):
        layer.self_attn(x, x, x)
    with pytest.raises(AssertionError, match="because training is enabled"):
        layer.train()(x)
