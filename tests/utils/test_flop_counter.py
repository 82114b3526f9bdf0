"""FlopCounterMode: what PyTorch counts, by module and operator, and its table. Expected figures are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils import flop_counter
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import checkpoint
from flambeau.utils.flop_counter import FlopCounterMode
from flambeau.utils.module_tracker import ModuleTracker

F = nn.functional


def r(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def counted(call: Callable[[], Any]) -> dict[str, int]:
    with FlopCounterMode(display=False) as counter:
        call()
    return {str(kind): flops for kind, flops in counter.get_flop_counts().get("Global", {}).items()}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: nn.Linear(4, 5)(torch.randn(2, 3, 4)).sum().backward(), {"aten.addmm": 240, "aten.mm": 240}),
        (lambda: nn.Linear(4, 5, bias=False)(r(3, 4)).sum().backward(), {"aten.mm": 360}),
        (lambda: nn.Linear(4, 5)(r(2, 4, 3).transpose(1, 2)).sum().backward(), {"aten.mm": 720}),
        (lambda: (r(2, 3, 4) @ r(4, 5)).sum().backward(), {"aten.mm": 720}),
        (lambda: (r(2, 3, 4, 5) @ r(2, 3, 5, 6)).sum().backward(), {"aten.bmm": 4320}),
        (lambda: (r(3, 4) @ r(4)).sum().backward(), {}),
        (lambda: (r(3) @ r(3, 4)).sum().backward(), {"aten.mm": 72}),
        (lambda: torch.einsum("ij,kj->k", r(2, 3), r(4, 3)).sum().backward(), {"aten.bmm": 72}),
        (lambda: torch.einsum("i,j->ij", r(2), r(4)).sum().backward(), {}),
        (lambda: torch.einsum("ij,jk,kl->il", r(2, 3), r(3, 4), r(4, 5)).sum().backward(), {"aten.bmm": 384}),
        (lambda: torch.baddbmm(torch.randn(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)), {"aten.baddbmm": 240}),
        (lambda: torch.tensordot(r(2, 3, 4), r(3, 4, 5), 2).sum().backward(), {"aten.mm": 720}),
        (
            lambda: F.conv2d(torch.randn(2, 4, 6, 6), r(8, 4, 3, 3)).sum().backward(),
            {"aten.convolution": 18432, "aten.convolution_backward": 18432},
        ),
        (lambda: F.conv_transpose2d(torch.randn(1, 4, 5, 5), torch.randn(4, 6, 3, 3)), {"aten.convolution": 10800}),
        (lambda: F.scaled_dot_product_attention(*[r(1, 2, 4, 8)] * 3).sum().backward(), {}),
        (lambda: F.scaled_dot_product_attention(*[r(2, 4, 8)] * 3).sum().backward(), {"aten.bmm": 3072}),
        (lambda: nn.LSTM(3, 4)(r(5, 2, 3))[0].sum().backward(), {}),
    ],
)
def test_products(call: Callable[[], Any], expected: dict[str, int]) -> None:
    assert counted(call) == expected


def test_multi_head_attention() -> None:
    attention, x = nn.MultiheadAttention(8, 2), r(5, 2, 8)
    whole = {"aten.addmm": 5120, "aten.bmm": 4800, "aten.mm": 10240}
    assert counted(lambda: attention(x, x, x)[0].sum().backward()) == whole
    del whole["aten.bmm"]
    assert counted(lambda: attention(x, x, x, need_weights=False)[0].sum().backward()) == whole


def test_a_second_derivative_and_a_recomputation() -> None:
    x = r(5, 5)

    def twice() -> None:
        first = torch.autograd.grad((x @ x).sum(), x, create_graph=True)[0]
        torch.autograd.grad(first.sum(), x)

    assert counted(twice) == {"aten.mm": 1250}
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())
    again = counted(lambda: checkpoint(layers, r(2, 4), use_reentrant=False).sum().backward())
    assert again == {"aten.addmm": 256, "aten.mm": 256}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with FlopCounterMode(depth=2) as counter:
        Net()(r(7, 3)).sum().backward()
    assert capsys.readouterr().out == counter.get_table() + "\n"
    assert counter.get_table() == (
        "Module          FLOP    % Total\n------------  ------  ---------\n"
        "Net             2604    100.00%\n- aten.addmm     868     33.33%\n- aten.mm       1736     66.67%\n"
        "Net.a            504     19.35%\n- aten.addmm     168      6.45%\n- aten.mm        336     12.90%\n"
        "Net.b           2100     80.65%\n- aten.addmm     700     26.88%\n- aten.mm       1400     53.76%"
    )
    assert counter.get_total_flops() == 2604 and "Net.b.1" in counter.get_table(3)
    assert counter.get_flop_counts()["Net.a"] == {torch.ops.aten.addmm: 168, torch.ops.aten.mm: 336}
    with FlopCounterMode(display=False) as counter:
        torch.mm(torch.randn(10, 20), torch.randn(20, 30))
        nn.Linear(10, 10)(torch.randn(5, 10))
    assert counter.get_table() == (
        "Module           FLOP    % Total\n------------  -------  ---------\n"
        "Global        13.000K    100.00%\n- aten.mm     12.000K     92.31%\n- aten.addmm   1.000K      7.69%\n"
        "Linear         1.000K      7.69%\n- aten.addmm   1.000K      7.69%"
    )
    with FlopCounterMode(display=False) as counter:
        pass
    assert counter.get_table() == "Module      FLOP    % Total\n--------  ------  ---------\nGlobal         0         0%"


def test_formulas_of_ones_own() -> None:
    @torch.library.custom_op("tests_flops::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    packet = torch.ops.tests_flops.twice

    @flop_counter.register_flop_formula(packet)
    def of_twice(shape: Any, out_shape: Any = None) -> int:
        return 7 * shape[0] * out_shape[1]

    try:
        assert counted(lambda: twice(torch.ones(2, 3))) == {"tests_flops.twice": 42}
        with pytest.raises(RuntimeError, match="duplicate registrations"):
            flop_counter.register_flop_formula(packet)(of_twice)
    finally:
        del flop_counter.flop_registry[packet]
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mm: lambda a, b, out_shape: 5}) as counter:
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))
    assert counter.get_total_flops() == 5


def test_modules_in_lists_and_gradients_of_modules() -> None:
    """Figures and names are PyTorch's."""
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(2, 5, 16)).sum().backward()
    found = {name: {str(kind): flops for kind, flops in counts.items()} for name, counts in counter.get_flop_counts().items()}
    assert found["TransformerEncoder.layers.0.linear1"] == {"aten.addmm": 10240, "aten.mm": 20480}
    assert found["TransformerEncoder.layers.0.self_attn"] == {"aten.addmm": 5120, "aten.bmm": 9600, "aten.mm": 40960}
    assert found["TransformerEncoder.layers.1"] == {"aten.addmm": 25600, "aten.bmm": 9600, "aten.mm": 97280}


def test_modules_at_work() -> None:
    tracker, seen = ModuleTracker(), []

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "mm" in str(func):
                seen.append((str(func), sorted(tracker.parents)[1:], tracker.is_bw))
            return func(*args, **(kwargs or {}))

    with tracker, Products():
        Net()(r(7, 3)).sum().backward()
        assert tracker.parents == {"Global"}
    inner = [["Net", "Net.b", "Net.b.1"], ["Net", "Net.b", "Net.b.0"], ["Net", "Net.a"]]
    assert seen[:3] == [("aten.addmm.default", names, False) for names in reversed(inner)]
    assert seen[3:] == [("aten.mm.default", names, True) for names in inner for _ in range(2)]


def test_convolutions_by_formula() -> None:
    assert flop_counter.conv_flop_count((2, 3, 8, 8), (8, 3, 3, 3), (2, 8, 6, 6)) == 2 * 2 * 36 * 8 * 27
    assert flop_counter.sdpa_flop_count((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8)) == 1024
    assert flop_counter.sdpa_backward_flop_count(*[(1, 2, 4, 8)] * 4) == 2560
    assert torch.ops.aten._scaled_dot_product_flash_attention in flop_counter.flop_registry
