"""torch.use_deterministic_algorithms: what fresh memory holds, and what is refused."""

import math

import pytest

import flambeau as torch
import flambeau.nn.functional as F


@pytest.fixture
def deterministic():
    torch.empty(3), torch.ones(1).new_empty(3)  # plans from before must not serve
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.mark.usefixtures("deterministic")
def test_fresh_memory_shows_up():
    like = torch.ones(2, 3)
    made = [
        torch.empty(3),
        torch.empty((2, 2), dtype=torch.float16),
        torch.empty_strided((2, 2), (3, 1)),
        torch.empty_like(like),
        like.new_empty(3),
        like.new_empty_strided((2,), (2,)),
        torch.empty(0).resize_(3),
        torch.Tensor(3),
        torch.empty(2, dtype=torch.float8_e5m2).float(),
        torch.empty(3, out=torch.empty(0)),
    ]
    assert all(bool(x.isnan().all()) for x in made)
    assert torch.empty(2, dtype=torch.int16).tolist() == [32767, 32767]
    assert torch.empty(1, dtype=torch.bool).tolist() == [True]
    number = torch.empty(1, dtype=torch.complex64).item()
    assert math.isnan(number.real) and number.imag == 0
    assert torch.empty(1, dtype=torch.uint64).item() == 2**64 - 1
    grown = torch.arange(4)[1:].resize_(5)
    assert grown.tolist() == [1, 2, 3, 2**63 - 1, 2**63 - 1]
    assert torch.empty(2, device="meta").shape == (2,)


@pytest.mark.usefixtures("deterministic")
def test_memory_is_left_alone_if_asked():
    torch.utils.deterministic.fill_uninitialized_memory = False
    x = torch.zeros(4)
    assert x.resize_(2).resize_(4).tolist() == [0, 0, 0, 0]
    assert torch.utils.deterministic.fill_uninitialized_memory is False
    with pytest.raises(RuntimeError, match="expected a bool, but got int"):
        torch.utils.deterministic.fill_uninitialized_memory = 1


@pytest.mark.usefixtures("deterministic")
def test_what_varies_in_pytorch_is_refused():
    def put(accumulate=False):
        return torch.zeros(3).put_(torch.tensor([1]), torch.ones(1), accumulate=accumulate)

    def unpool():
        return F.max_unpool2d(torch.ones(1, 1, 1, 1), torch.tensor([[[[0]]]]), 2)

    for operator, name in ((put, "put_"), (unpool, "max_unpooling2d_forward_out")):
        with pytest.raises(RuntimeError, match=f"^{name} does not have a deterministic implementation, but you set"):
            operator()
    assert put(accumulate=True).tolist() == [0, 1, 0]
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="^put_ does not have a deterministic implementation.*warn_only=True"):
        assert put().tolist() == [0, 1, 0]


def test_warnings_said_once_or_always():
    def deprecated():
        return torch.ones(2).add(2, torch.ones(2))

    torch.set_warn_always(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="This overload of add is deprecated"):
                deprecated()
    finally:
        torch.set_warn_always(False)
