"""torch._export.converter: exported programs of TorchScript, with torch.cond where only values tell."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau._export.converter import TS2EPConverter


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        self.count += 1
        if x.sum() > 0:
            z = self.layer(x)
        else:
            z = y
        n = x.size(0) * 2
        for _ in range(2):
            z = z + n
        return z, self.count


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_branches_and_sizes_of_a_script() -> None:
    model = Branches()
    script = torch.jit.script(model)
    program = TS2EPConverter(torch.jit.script(model), (torch.rand(2, 3), torch.rand(2, 3))).convert()
    assert "higher_order.cond" in program.graph_module.code and set(program.state_dict) == set(model.state_dict())
    model.count.zero_()
    run = program.module()
    for rows in (1 + 1, 4, 5):
        for sign in (1, -1):
            inputs = sign * torch.rand(rows, 3), torch.rand(rows, 3)
            made = [t.clone() for t in run(*inputs)]
            model.count.sub_(1)
            for found, expected in zip(made, script(*inputs), strict=True):
                torch.testing.assert_close(found, expected)
    with pytest.raises(AssertionError, match="Guard failed"):
        run(torch.rand(2, 3), torch.rand(3, 3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_functions_and_what_is_refused() -> None:
    @torch.jit.script
    def by_number(x: torch.Tensor, n: int):
        if n > 3:
            return x.sin()
        return x.cos() + n

    x = torch.rand(2, 3)
    run = TS2EPConverter(by_number, (x, 4)).convert().module()
    torch.testing.assert_close(run(torch.rand(5, 4) * 0 + 1, 4), torch.ones(5, 4).sin())
    with pytest.raises(AssertionError, match="Guard failed: n == 4"):
        run(x, 5)

    @torch.jit.script
    def writes(x: torch.Tensor, y: torch.Tensor):
        z = y
        if x.sum() > 0:
            z = x + 1
        return z.add_(1)

    with pytest.raises(Exception, match="write the program without writes"):
        TS2EPConverter(writes, (x, x.clone())).convert()

    @torch.jit.script
    def counts(x: torch.Tensor):
        n = 1
        if x.sum() > 0:
            n = 2
        return x * n

    with pytest.raises(Exception, match="functions must give tensors"):
        TS2EPConverter(counts, (x,)).convert()
    with pytest.raises(ValueError, match="Exporting a ScriptModule is not supported"):
        torch.export.export(torch.jit.script(nn.Linear(3, 3)), (x,))
