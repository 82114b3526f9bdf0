"""Nested tensors of the layout torch.jagged: sizes, views, elements, reductions, products, attention, derivatives."""

import copy
import importlib
import io

import pytest
from implementation import torch

F = torch.nn.functional


@pytest.fixture
def rows():
    torch.manual_seed(0)
    return [torch.randn(n, 3) for n in (2, 4, 1)]


@pytest.fixture
def nested(rows):
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


def same(nested, tensors):
    parts = nested.unbind()
    assert len(parts) == len(tensors)
    for part, tensor in zip(parts, tensors):
        torch.testing.assert_close(part, tensor)


def test_sizes(nested):
    j = nested.shape[1]
    assert type(nested).__name__ == "NestedTensor" and nested.layout is torch.jagged and nested.is_nested
    assert type(j) is torch.SymInt and nested.shape == (3, j, 3) and str(nested.stride()) == f"(3*{j}, 3, 1)"
    assert nested.numel() == 21 and len(nested) == 3 and nested.offsets().tolist() == [0, 2, 6, 7]
    assert (nested + 1).shape[1] == j and j != torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged).shape[1]
    assert j >= 2 and j != 2 and j * 2 == 2 * j and hash(j) == hash(nested.size(1))
    with pytest.raises(ValueError, match="indeterminate"):
        j >= 3
    assert repr(nested) == f"NestedTensor(size=(3, {j}, 3), offsets=tensor([0, 2, 6, 7]), contiguous=True)"
    assert (nested._max_seqlen, nested._min_seqlen) == (4, 1)


def test_views(nested, rows):
    flipped = nested.transpose(1, 2)
    same(flipped, [t.T for t in rows])
    assert flipped.shape == (3, 3, nested.shape[1]) and flipped._ragged_idx == 2 and not flipped.is_contiguous()
    same(nested.unsqueeze(-1).squeeze(-1), rows)
    same(nested.view(3, -1, 3, 1).flatten(2), rows)
    same(nested.unflatten(-1, [3, 1]).permute(0, 2, 1, 3), [t.T.unsqueeze(-1) for t in rows])
    same(nested[..., 1:], [t[:, 1:] for t in rows])
    same(nested.select(2, 1), [t[:, 1] for t in rows])
    same(torch.cat([nested, nested * 2], -1), [torch.cat([t, t * 2], -1) for t in rows])
    same(nested.chunk(2, 0)[1], rows[2:])
    torch.testing.assert_close(nested[1], rows[1])
    with pytest.raises(ValueError, match="Transpose is not supported on the batch dimension"):
        nested.transpose(0, 1)
    with pytest.raises(RuntimeError, match=r"select\(\): not supported for NestedTensor on ragged dim"):
        nested.select(1, 0)


def test_elements_and_dense_tensors_that_broadcast(nested, rows):
    same(nested.sin() * nested, [t.sin() * t for t in rows])
    for dense in (torch.randn(3), torch.randn(1, 1, 3), torch.randn(3, 1, 3), torch.randn(3, 1, 1), torch.tensor(2.0)):
        own = dense if dense.dim() < 3 or dense.shape[0] == 1 else None
        expected = [
            t + (dense[n] if own is None else own.reshape(own.shape[-1:] if own.dim() else ())) for n, t in enumerate(rows)
        ]
        same(nested + dense, expected)
        same(dense + nested, expected)
        same(
            (nested.transpose(1, 2) + dense.transpose(1, 2)) if dense.dim() == 3 else nested.transpose(1, 2) + 0,
            [e.T for e in expected] if dense.dim() == 3 else [t.T for t in rows],
        )
    same(torch.where(nested > 0, nested, 0.0), [t.clamp(min=0) for t in rows])
    other = torch.nested.nested_tensor(rows, layout=torch.jagged)
    with pytest.raises(RuntimeError, match=r"cannot call binary pointwise function add.Tensor with inputs of shapes"):
        nested + other
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        nested + torch.ones(2, 3)


def test_reductions(nested, rows):
    torch.testing.assert_close(nested.sum(), torch.cat(rows).sum())
    torch.testing.assert_close(nested.mean(1), torch.stack([t.mean(0) for t in rows]))
    torch.testing.assert_close(nested.amax(1, keepdim=True), torch.stack([t.amax(0, keepdim=True) for t in rows]))
    torch.testing.assert_close(nested.max(1).indices, torch.stack([t.argmax(0) for t in rows]))
    torch.testing.assert_close(nested.sum((0, 1)), torch.cat(rows).sum(0))
    same(nested.sum(-1), [t.sum(-1) for t in rows])
    same(nested.softmax(1), [t.softmax(0) for t in rows])
    with pytest.raises(RuntimeError, match="reducing along the batch dimension but not the ragged dimension"):
        nested.sum(0)
    with pytest.raises(NotImplementedError):
        nested.cumsum(1)


def test_products_norms_and_attention(nested, rows):
    weight = torch.randn(5, 3)
    same(F.linear(nested, weight), [F.linear(t, weight) for t in rows])
    batch = torch.randn(3, 3, 2)
    same(nested @ batch, [t @ m for t, m in zip(rows, batch)])
    torch.testing.assert_close(nested.transpose(1, 2) @ nested, torch.stack([t.T @ t for t in rows]))
    same(F.layer_norm(nested, (3,)), [F.layer_norm(t, (3,)) for t in rows])
    table = torch.randn(10, 4)
    index = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([3])], layout=torch.jagged)
    same(F.embedding(index, table), [table[[1, 2]], table[[3]]])
    q = torch.nested.nested_tensor([torch.randn(n, 2, 4) for n in (3, 5)], layout=torch.jagged).transpose(1, 2)
    k = torch.nested.nested_tensor([torch.randn(n, 2, 4) for n in (6, 2)], layout=torch.jagged).transpose(1, 2)
    attended = F.scaled_dot_product_attention(q, k, k)
    same(attended, [F.scaled_dot_product_attention(a, b, b) for a, b in zip(q.unbind(), k.unbind())])
    assert attended.shape == q.shape


def test_packed_rows_and_holes(rows):
    packed = torch.cat(rows)
    whole = torch.nested.nested_tensor_from_jagged(packed, torch.tensor([0, 2, 6, 7]))
    same(whole, rows)
    assert whole._base is packed
    whole[1].zero_()
    assert packed[2:6].abs().sum() == 0
    holes = torch.nested.nested_tensor_from_jagged(packed, torch.tensor([0, 2, 6, 7]), lengths=torch.tensor([1, 3, 1]))
    same(holes, [t[:-1] if len(t) > 1 else t for t in [packed[:2], packed[2:6], packed[6:]]])
    assert not holes.is_contiguous() and holes.contiguous().is_contiguous() and holes.numel() == 15
    same(holes * 2, [t * 2 for t in holes.unbind()])
    padded = holes.to_padded_tensor(-1.0)
    assert padded.shape == (3, 3, 3) and (padded[0, 1:] == -1).all()
    with pytest.raises(RuntimeError, match="with holes"):
        holes.sum(1)
    base = torch.arange(24.0).reshape(2, 4, 3)
    same(
        torch.nested.narrow(base, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged), [base[0, :2], base[1, 1:]]
    )


def test_rows_outside_of_the_values_are_refused():
    if torch.__name__ != "flambeau":
        pytest.skip("PyTorch reads them")
    for offsets in ([0, 2, 9], [-1, 2, 5], [0, 4, 2]):
        with pytest.raises(RuntimeError, match="lies outside"):
            torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), torch.tensor(offsets))


def test_gradients_to_second_order(rows):
    def loss(a, b, w, d):
        x = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
        y = F.layer_norm(F.linear(x, w) * d, (3,)).softmax(1)
        q = y.unflatten(-1, [1, 3]).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(2).to_padded_tensor(0.0), (x * x).mean(1)

    inputs = [t.double().requires_grad_() for t in (rows[0], rows[1], torch.randn(3, 3), torch.randn(2, 1, 3))]
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


def test_a_leaf_gets_a_nested_gradient(rows):
    x = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    (x * x).sum().backward()
    same(x.grad, [2 * t for t in rows])
    assert x.grad.shape == x.shape
    y = x * 2
    y.backward(torch.ones_like(y))
    same(x.grad, [2 * t + 2 for t in rows])


def test_a_model_trains_on_rows_of_different_lengths():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.nested.nested_tensor([torch.randn(n, 3) for n in (5, 2, 7)], layout=torch.jagged)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x).mean(1) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    single = torch.stack([model(t).mean(0) for t in x.unbind()])
    torch.testing.assert_close(model(x).mean(1), single)


def test_files_and_copies(nested, rows):
    file = io.BytesIO()
    torch.save({"x": nested}, file)
    file.seek(0)
    loaded = torch.load(file)["x"]
    same(loaded, rows)
    assert type(loaded) is type(nested)
    copied = copy.deepcopy(nested)
    copied[0].zero_()
    same(nested, rows)
    same(nested.to(torch.float64), [t.double() for t in rows])


def test_bad_lists():
    with pytest.raises(RuntimeError, match="only allows for a single ragged dimension"):
        torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 4)], layout=torch.jagged)
    with pytest.raises(RuntimeError, match="Cannot construct a nested tensor from an empty tensor list"):
        torch.nested.nested_tensor([], layout=torch.jagged)
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths is required"):
        torch.nested.nested_tensor_from_jagged(torch.ones(2))


def test_a_copy_of_the_rows_can_be_given_their_size(nested):
    internal = importlib.import_module(f"{torch.__name__}.nested._internal.nested_tensor")
    NestedTensor, _tensor_symint_registry = internal.NestedTensor, internal._tensor_symint_registry
    extract_kwargs = importlib.import_module(f"{torch.__name__}.nested._internal.ops").extract_kwargs
    given = extract_kwargs(nested)
    assert NestedTensor(nested._values, **given).shape == nested.shape
    given["offsets"] = nested._offsets.clone()
    assert NestedTensor(nested._values, **given).shape != nested.shape
    given["offsets"] = nested._offsets.clone()
    _tensor_symint_registry[given["offsets"]] = _tensor_symint_registry[nested._offsets]
    assert NestedTensor(nested._values, **given).shape == nested.shape
    same(NestedTensor(nested._values, **given) + nested, [2 * t for t in nested.unbind()])
