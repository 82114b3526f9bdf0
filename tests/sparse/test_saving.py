"""Sparse tensors in files and pickles, as modules' buffers, copied and collected."""

from __future__ import annotations

import base64
import copy
import io
import pickle
import zlib
from typing import Any

import pytest

import flambeau as torch

OF_PYTORCH = (  # torch.save({"coo": an uncoalesced tensor, "csr": torch.eye(2).to_sparse_csr()})
    "eNqllU9s21Qcx1+cNAkutGkZa1egBBjDG13qxPm7sjWykC9GWuqBqBCS5SUmsfDi/pyXTpuEVAk5UqUdECdOCG67c4ALgjPagUnj"
    "xo3TTrvuyHtxkvq9kQS6Jz352Xmf3/f7c37v54YeTyCUTqNnRgatIstvdpxDe7tlYSt38IWrqUvoU2YcCV8CkvbjBGh6HsSa2CNM"
    "zuxjx+2Jpm/f7Dtuy+wdWH7PNrHd7Xm+CMJoW8/2Hct17lrY8bqi2bax6Vp3vD4WIb6fITFH20KaCiQCWDAgKU3RCQXMw4IIKUna"
    "T5EQPbLTatuQDhHxQ6/bvhE+E+GF/RjZIoMYZnDQh0U9jeHFPR3pgp4YwEt6Qo8NYOm42fRc125Soz3xut+yfbv1gdMkTpcvGpDB"
    "sGLAaoeIdsZCmutZeKL08lApD2c6i3oCwytUgSRzVo8FsHbcoUHWMZwzYGOE33DuEuxVYiM+gNcCeN2AzWMMbwwga8Cbod+eD291"
    "hM6/vSvy09sBnDfgHSl01QlzLcAF4iCO4V3qIB6ARB1cDB1cwvCeAVsMoMDl0HJuj3gRAtimgBwCeQwFA5QREOZYhCIBBAyl4VsM"
    "oEyBSghUMdQMuNKheQkD2AngfQOuYrg2gF0D6v1cQ0+l9d9/ubcnIERnY2qBrqFLkwLNfe75tyxsHtp+j/xDmnqBq9NpI0/1fnry"
    "11fUOZ3T9TZQ5URvVFUmqd5295bdxZqq/EdJZpSL1MDubXhMckXCTAMraHdi4OYdbHu0CjV15zS64+E6GLs29RBc/ftckqgkZ3pY"
    "QteYrrAta+qV5zAwjhvjruMhTLkfX6nz8o+P79fJuj7HeYJ1ntdU+rxOsCMyvyfztzqNd/D04aPMsAPOjldk4xU0VUbPm380rwef"
    "3bu+Ttbrc3xssT4UTZXQafX5e+rjjBx8lCXr7Bwf51kfRU3Novn6R7t0Up2v95J/0sDpmTrLaGeiMznuldOWoCJS5YfftT+ef/42"
    "UeGkAQxTZL5fptPS1Nz/NCLLpVK+JuerJaUgK6WaXKlWyF21WirXqvlapaYotVK5WKAuH63sfCIRH9LQZWxYKmOf0ZaZecY5/x3n"
    "6WgDXGPIHwQ0rcnyQaJNbINtXHE0o3PycaKNaIWJ800kzqQB8ni0Gywx+NkE4noXz0ZPPsv+wbN5no2eVpbNLnBsgWejJ4xl7/Os"
    "wrPRU8OycpJjizwbrftlhv02wk75v6PluMnAqyk056A09GRya3ys4pcn5CJ3/XXUD39OjdtRcri6LZ60qYa+kAyZxeH+cO8/NgZR"
    "JQ=="
)


def uncoalesced() -> Any:
    return torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4, 5, 6], (2, 3))


KINDS = {
    "coo": uncoalesced,
    "coalesced": lambda: uncoalesced().coalesce(),
    "csr": lambda: torch.eye(2).to_sparse_csr(),
    "csc": lambda: torch.eye(2).double().to_sparse_csc(),
    "bsr": lambda: torch.eye(4).to_sparse_bsr((2, 2)),
    "hybrid": lambda: torch.arange(6.0).reshape(2, 3).to_sparse(1),
}


def same(x: Any, y: Any) -> bool:
    alike = x.layout is y.layout and x.dtype is y.dtype and x._nnz() == y._nnz() and torch.equal(x.to_dense(), y.to_dense())
    return alike and (not x.is_sparse or x.is_coalesced() == y.is_coalesced())


def there_and_back(x: Any, **named: Any) -> Any:
    file = io.BytesIO()
    torch.save(x, file, **named)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind: str) -> None:
    x = KINDS[kind]()
    assert same(there_and_back({"x": x})["x"], x) and same(pickle.loads(pickle.dumps(x)), x) and same(copy.deepcopy(x), x)
    assert same(there_and_back(x, _use_new_zipfile_serialization=False), x) and same(x.clone(), x) and same(copy.copy(x), x)


def test_a_file_of_pytorch() -> None:
    content = torch.load(io.BytesIO(zlib.decompress(base64.b64decode(OF_PYTORCH))), weights_only=True)
    assert same(content["coo"], uncoalesced()) and same(content["csr"], torch.eye(2).to_sparse_csr())


def test_parts_that_don_t_fit() -> None:
    """They are refused when they are loaded, if that is asked for, or else when they are used."""
    for x in (
        torch.sparse_coo_tensor([[0, 9], [0, 1]], [1.0, 2], (2, 2)),
        torch.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2], (2, 2)),
        torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0], (2, 2)),
        torch.sparse_csr_tensor([0, 9, 2], [0, 1], [1.0, 2], (2, 2)),
        torch.sparse_csr_tensor([0, -9, 2], [0, 1], [1.0, 2], (2, 2)),
    ):
        with torch.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError):
            there_and_back(x)
        made = there_and_back(x)
        square = torch.ones(2, 2)
        for use in (lambda x, m: x @ m, lambda x, m: m @ x, lambda x, m: x.to_dense()):
            with pytest.raises((RuntimeError, IndexError)):
                use(made, square)


def test_what_the_graph_made_is_not_saved() -> None:
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        there_and_back(torch.eye(2).requires_grad_().to_sparse())
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(torch.eye(2).requires_grad_().to_sparse())


def test_a_leaf_is_copied_with_its_gradient() -> None:
    x = torch.eye(2).to_sparse().requires_grad_()
    (x * 3).to_dense().sum().backward()
    made = copy.deepcopy(x)
    assert made.requires_grad and made.is_leaf and made.grad.values().tolist() == [3, 3]


class Graph(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("adjacency", uncoalesced())
        self.weight = torch.nn.Parameter(torch.eye(3).to_sparse())


def test_buffers_and_parameters() -> None:
    first, second = Graph(), Graph()
    assert isinstance(first.weight, torch.nn.Parameter) and [n for n, _ in first.named_parameters()] == ["weight"]
    with torch.no_grad():
        first.adjacency.mul_(2)
    second.load_state_dict(first.state_dict())
    assert second.adjacency.to_dense().tolist() == [[0, 0, 18], [8, 0, 10]]
    assert first.double().adjacency.dtype is torch.float64 and first.weight.dtype is torch.float64


def test_steps_on_a_sparse_parameter() -> None:
    net = Graph()
    optimizer = torch.optim.SGD([net.weight], lr=0.5)
    torch.sparse.mm(net.weight, torch.ones(3, 2)).sum().backward()
    optimizer.step()
    assert net.weight.to_dense().tolist() == torch.zeros(3, 3).tolist() and net.weight.requires_grad
    optimizer.zero_grad()
    assert net.weight.grad is None
