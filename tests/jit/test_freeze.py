"""torch.jit.freeze: constants for attributes, norms folded, what the program changes and what is preserved stays."""

from __future__ import annotations

import io

import pytest

import flambeau as torch

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5)
        self.layer, self.scale, self.sizes, self.calls = nn.Linear(2, 2), 3, [1, 2], 0
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.training:
            x = x * 2
        x = self.norm(self.conv(x)).mean((2, 3))
        return self.drop(self.layer(x)) * self.scale + len(self.sizes) + self.shift

    @torch.jit.export
    def other(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def net() -> Net:
    made = Net()
    made.norm.running_mean.uniform_(-1, 1)
    made.norm.running_var.uniform_(0.5, 2)
    return made.eval()


def test_frozen_programs_give_the_same_without_parameters_norms_dropout_and_branches() -> None:
    plain, image = net(), torch.randn(2, 1, 6, 6)
    frozen = torch.jit.freeze(torch.jit.script(plain))
    torch.testing.assert_close(frozen(image), plain(image))
    text = str(frozen.graph)
    for gone in ("batch_norm", "dropout", "prim::If", "CallMethod", 'name="weight"'):
        assert gone not in text
    assert list(frozen.state_dict()) == [] and not hasattr(frozen, "training") and not hasattr(frozen, "other")
    assert frozen.calls == 1
    again = torch.jit.load(io.BytesIO(frozen.save_to_buffer()))
    torch.testing.assert_close(again(image), plain(image))
    exact = torch.jit.freeze(torch.jit.script(plain), optimize_numerics=False)
    assert "batch_norm" in str(exact.graph)
    torch.jit.run_frozen_optimizations(exact)
    assert "batch_norm" not in str(exact.graph)
    torch.testing.assert_close(exact(image), plain(image))


def test_what_is_preserved_stays() -> None:
    plain, image = net(), torch.randn(1, 1, 4, 4)
    frozen = torch.jit.freeze(torch.jit.script(plain), preserved_attrs=["other", "layer", "scale"])
    assert torch.equal(frozen.other(torch.ones(2)), plain.other(torch.ones(2)))
    assert set(frozen.state_dict()) == {"layer.weight", "layer.bias"} and frozen.scale == 3
    before = frozen(image)
    frozen.scale = 0
    assert not torch.equal(frozen(image), before)


def test_traced_programs_are_frozen_too() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout()).eval()
    image = torch.randn(1, 1, 5, 5)
    frozen = torch.jit.freeze(torch.jit.trace(model, image))
    assert frozen.code.count("torch.") == 2 and "_convolution" in frozen.code
    torch.testing.assert_close(frozen(image), model(image))


def test_attributes_that_the_program_changes_are_no_constants() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1)
            return x + self.seen

    frozen = torch.jit.freeze(torch.jit.script(Counting().eval()))
    assert [frozen(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3] and list(frozen.state_dict()) == ["seen"]


def test_errors_are_pytorchs() -> None:
    with pytest.raises(RuntimeError, match="Freezing expects a ScriptModule as input"):
        torch.jit.freeze(nn.Linear(1, 1).eval())
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        torch.jit.freeze(torch.jit.script(nn.Linear(1, 1)))
    with pytest.raises(RuntimeError, match="Unknown name: nothing"):
        torch.jit.freeze(torch.jit.script(nn.Linear(1, 1).eval()), ["nothing"])
    with pytest.raises(RuntimeError, match="optimize_for_inference expects a ScriptModule"):
        torch.jit.optimize_for_inference(nn.Linear(1, 1))
    made = torch.jit.optimize_for_inference(torch.jit.script(nn.Linear(2, 2)))
    assert made(torch.ones(2)).shape == (2,)
