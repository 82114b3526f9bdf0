"""torch.ao.pruning: which weights sparsifiers mask, how sparsity grows, and models without masked rows."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao.pruning import BaseScheduler, BaseSparsifier, CubicSL, LambdaSL, NearlyDiagonalSparsifier, WeightNormSparsifier
from flambeau.ao.pruning._experimental.pruner import BaseStructuredSparsifier, FPGMPruner, LSTMSaliencyPruner, SaliencyPruner

F = nn.functional


def masked(sparsifier: Any, weight: Any) -> Any:
    model = nn.Sequential(nn.Linear(weight.shape[1], weight.shape[0]))
    model[0].weight.data = weight
    sparsifier.prepare(model, None)
    sparsifier.step()
    return model[0].parametrizations.weight[0].mask


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((0.5, (1, 2)), [[0, 0, 1], [0, 0, 1]]),  # [1, 4], [9], [4, 1], [36] by squares: means 2.5 9 2.5 36
        ((0.5, (1, 2), 1), [[0, 1, 1], [1, 0, 1]]),  # the least of each of these blocks
        ((0.25, (2, 1)), [[1, 0, 1], [1, 0, 1]]),
        ((0.0, (1, 2)), [[1, 1, 1], [1, 1, 1]]),
        ((1.0, (1, 2)), [[0, 0, 0], [0, 0, 0]]),
        ((0.5, (1, 1), None, lambda x: -x), [[1, 1, 0], [0, 1, 0]]),
    ],
)
def test_blocks_with_the_least_norm_are_masked(settings: Any, expected: Any) -> None:
    weight = torch.tensor([[1.0, 2.0, 3.0], [2.5, 1.0, 6.0]])
    assert masked(WeightNormSparsifier(*settings), weight).tolist() == expected


def test_what_blocks_can_not_be() -> None:
    with pytest.raises(NotImplementedError, match="L-3 is not yet implemented"):
        WeightNormSparsifier(norm=3)
    for zeros in (3, -1):
        with pytest.raises(ValueError, match="zeros per block"):
            masked(WeightNormSparsifier(0.5, (1, 2), zeros), torch.ones(2, 2))


def test_diagonals_are_left() -> None:
    mask = masked(NearlyDiagonalSparsifier(3), torch.ones(4, 3))
    assert mask.tolist() == [[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]]
    for nearliness, message in ((2, "odd"), (7, "larger than the dimensions")):
        with pytest.raises(ValueError, match=message):
            masked(NearlyDiagonalSparsifier(nearliness), torch.ones(4, 3))


def test_masks_are_kept_apart_and_squashed() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2)))
    sparsifier = WeightNormSparsifier(0.5)
    sparsifier.prepare(model, [{"tensor_fqn": "1.0.weight", "sparsity_level": 0.9}, {"tensor_fqn": "0.weight"}])
    sparsifier.step()
    state = sparsifier.state_dict()
    assert [group["sparsity_level"] for group in state["groups"]] == [0.9, 0.5] and "module" not in state["groups"][0]
    assert not any("mask" in name for name in model.state_dict())
    other, again = copy.deepcopy(model), WeightNormSparsifier()
    other[0].parametrizations.weight[0].mask = torch.ones(4, 4)
    again.model = other
    again.load_state_dict(copy.deepcopy(state))
    assert torch.equal(other[0].weight, model[0].weight)
    sparse = model[0].weight.detach().clone()
    sparsifier.squash_mask(params_to_keep=("sparsity_level",), params_to_keep_per_layer={"0": ("zeros_per_block",)})
    assert torch.equal(model[0].weight, sparse) and (sparse == 0).sum() == 8 and "0.weight" in model.state_dict()
    assert model[0].sparse_params == {"sparsity_level": 0.5, "zeros_per_block": 4}
    assert model[1][0].sparse_params == {"sparsity_level": 0.9}


def test_configurations_that_do_not_agree() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for given, message in (
        ({"module": model[1], "tensor_fqn": "0.weight"}, "Given both `module`"),
        ({}, "tensor_fqn is a required"),
    ):
        with pytest.raises(AssertionError, match=message):
            WeightNormSparsifier().prepare(model, [given])
    with pytest.raises(TypeError, match="abstract"):
        BaseSparsifier()  # type: ignore[abstract]


def test_sparsity_grows() -> None:
    def levels(make: Any, steps: int) -> list[float]:
        sparsifier = WeightNormSparsifier(0.5)
        sparsifier.prepare(nn.Sequential(nn.Linear(4, 4)), None)
        scheduler = make(sparsifier)
        seen = [scheduler.get_last_sl()[0]]
        for _ in range(steps):
            sparsifier.step()
            scheduler.step()
            seen.append(sparsifier.groups[0]["sparsity_level"])
        return seen

    assert levels(lambda s: LambdaSL(s, lambda epoch: epoch / 2), 2) == [0.0, 0.25, 0.5]
    cubic = levels(lambda s: CubicSL(s, init_sl=0.1, init_t=1, delta_t=2, total_t=2, initially_zero=True), 5)
    assert cubic == pytest.approx([0, 0.1, 0.5 - 0.4 * 0.75**3, 0.5 - 0.4 * 0.5**3, 0.5 - 0.4 * 0.25**3, 0.5])
    with pytest.raises(TypeError, match="not an instance of torch"):
        BaseScheduler(3)
    sparsifier = WeightNormSparsifier()
    sparsifier.prepare(nn.Sequential(nn.Linear(4, 4)), None)
    scheduler = LambdaSL(sparsifier, lambda epoch: 1)
    with pytest.warns(UserWarning, match="before `sparsifier.step"):
        scheduler.step()


def test_rows_that_others_can_stand_for() -> None:
    pruner = FPGMPruner(0.5)
    assert pruner._compute_distance(torch.tensor([[0.0], [1.0], [5.0]])).tolist() == [6.0, 5.0, 9.0]
    mask = masked(pruner, torch.tensor([[0.0], [1.0], [5.0], [2.0]]))
    assert mask.tolist() == [True, False, True, False]


class Images(nn.Module):
    def __init__(self, bias: bool, padding: int) -> None:
        super().__init__()
        self.a, self.pool, self.b = nn.Conv2d(2, 6, 3, bias=bias), nn.MaxPool2d(2), nn.Conv2d(6, 4, 3, padding=padding, bias=bias)
        self.mean, self.flat = nn.AdaptiveAvgPool2d(2), nn.Flatten()
        self.c, self.d = nn.Linear(16, 8, bias=bias), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        x = self.b(torch.nn.functional.relu(self.pool(self.a(x))))
        return self.d(F.relu(self.c(self.flat(self.mean(x)))))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("prune_bias", [False, True])
def test_a_model_without_masked_rows_gives_what_it_gave_with_them(bias: bool, padding: int, prune_bias: bool) -> None:
    model, x = Images(bias, padding), torch.randn(2, 2, 12, 12)
    pruner: Any = SaliencyPruner({"sparsity_level": 0.5, "prune_bias": prune_bias})
    pruner.prepare(model, [{"tensor_fqn": f"{name}.weight"} for name in "abc"])
    pruner.step()
    expected, made = model(x).detach(), pruner.prune()
    assert torch.allclose(made(x), expected, atol=1e-5)
    stays = bias and padding > 0  # next to a padding biases can't be handed on
    assert made.a.out_channels == made.b.in_channels == (6 if stays else 3)
    assert (made.b.out_channels, made.c.in_features, made.c.out_features, made.d.in_features) == (2, 8, 4, 4)
    assert not any("_bias" in name for name, _ in made.named_parameters())


@pytest.mark.parametrize("layers", [1, 2])
def test_gates_of_an_lstm_lose_rows_alike(layers: int) -> None:
    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.norm, self.linear = nn.LSTM(3, 4, layers), nn.LayerNorm(4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            outputs, _ = self.lstm(x)
            return self.linear(self.norm(outputs))

    model = Sequences()
    pruner: Any = LSTMSaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": f"lstm.weight_{which}_l{n}"} for which in ("ih", "hh") for n in range(layers)])
    pruner.step()
    made = pruner.prune()
    shapes = {name: tuple(value.shape) for name, value in made.lstm.named_parameters()}
    expected = {f"weight_ih_l{n}": (8, 2 if n else 3) for n in range(layers)}
    expected |= {f"weight_hh_l{n}": (8, 2) for n in range(layers)}
    assert shapes == expected | {f"bias_{which}_l{n}": (8,) for which in ("ih", "hh") for n in range(layers)}
    assert made(torch.randn(5, 2, 3)).shape == (5, 2, 2) and made.norm.normalized_shape == (2,)


def test_a_masked_module_in_no_chain_is_refused() -> None:
    class Keeps(BaseStructuredSparsifier):
        def update_mask(self, module: Any, tensor_name: str, **kwargs: Any) -> None:
            pass

    pruner: Any = Keeps(None, patterns={})
    pruner.prepare(nn.Sequential(nn.Linear(2, 2)), None)
    with pytest.raises(Exception, match="still contains FakeStructuredSparsity"):
        pruner.prune()
