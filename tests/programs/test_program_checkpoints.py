"""Programs that save and load: state dicts, full checkpoints, whole models, resuming."""

import pickle

import pytest
from implementation import torch

nn = torch.nn


class SimpleMLP(nn.Module):
    def __init__(self, input_dim=4, hidden_dim=8, output_dim=2):
        super().__init__()
        self.fc1 = nn.Linear(input_dim, hidden_dim)
        self.norm = nn.BatchNorm1d(hidden_dim)
        self.fc2 = nn.Linear(hidden_dim, output_dim)

    def forward(self, x):
        return self.fc2(self.norm(self.fc1(x)).relu())


class Training:
    """A model, an optimizer and a scheduler, for a few seeded steps."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = SimpleMLP()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=10)

    def steps(self, first, last):
        loss = torch.zeros(())
        for step in range(first, last):
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(16, 4, generator=generator)
            self.optimizer.zero_grad()
            loss = (self.model(x) - x[:, :2]).pow(2).mean()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
        return loss.item()

    def state(self, **more):
        return {
            "model_state_dict": self.model.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "scheduler_state_dict": self.scheduler.state_dict(),
            **more,
        }


def test_weights_only(tmp_path):
    model, other = SimpleMLP(), SimpleMLP()
    torch.save(model.state_dict(), tmp_path / "model_weights.pt")
    answer = other.load_state_dict(torch.load(tmp_path / "model_weights.pt", weights_only=True))
    assert str(answer) == "<All keys matched successfully>"
    other.eval(), model.eval()
    x = torch.randn(3, 4)
    assert torch.equal(other(x), model(x))


def test_a_resumed_run_goes_on_as_if_never_interrupted(tmp_path):
    whole, first, second = Training(0), Training(0), Training(1)
    expected = whole.steps(0, 6)
    loss = first.steps(0, 3)
    torch.save(first.state(epoch=3, loss=loss), tmp_path / "checkpoint.pt")
    checkpoint = torch.load(tmp_path / "checkpoint.pt", map_location="cpu", weights_only=True)
    second.model.load_state_dict(checkpoint["model_state_dict"])
    second.optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
    second.scheduler.load_state_dict(checkpoint["scheduler_state_dict"])
    assert checkpoint["loss"] == loss
    assert second.steps(checkpoint["epoch"], 6) == expected


def test_a_whole_model_needs_trust(tmp_path):
    model = SimpleMLP()
    torch.save(model, tmp_path / "model_full.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(tmp_path / "model_full.pt")
    loaded = torch.load(tmp_path / "model_full.pt", weights_only=False)
    assert isinstance(loaded, SimpleMLP) and torch.equal(loaded.fc1.weight, model.fc1.weight)


def test_what_a_file_may_hold(tmp_path):
    whole = torch.arange(6.0)
    content = {
        "half": torch.ones(2).half(),
        "bfloat16": torch.ones(2).bfloat16(),
        "bool": torch.tensor([True, False]),
        "view": whole[2:5],
        "transposed": whole.view(2, 3).t(),
        "parameter": nn.Parameter(torch.ones(1)),
        "list": [1, 2.5, "three", None, (4, 5)],
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
    }
    torch.save(content, tmp_path / "content.pt")
    loaded = torch.load(tmp_path / "content.pt")
    assert list(loaded) == list(content)
    for name, value in content.items():
        if isinstance(value, torch.Tensor):
            assert loaded[name].dtype is value.dtype and torch.equal(loaded[name], value)
        else:
            assert loaded[name] == value
    assert loaded["transposed"].stride() == (1, 3) and isinstance(loaded["parameter"], nn.Parameter)
    assert loaded["view"].untyped_storage().data_ptr() == loaded["transposed"].untyped_storage().data_ptr()


def test_a_mismatch_names_every_key():
    state = SimpleMLP().state_dict()
    state["extra"] = state.pop("fc2.bias")
    with pytest.raises(RuntimeError) as caught:
        SimpleMLP().load_state_dict(state)
    assert 'Missing key(s) in state_dict: "fc2.bias".' in str(caught.value)
    assert 'Unexpected key(s) in state_dict: "extra".' in str(caught.value)
    answer = SimpleMLP().load_state_dict(state, strict=False)
    assert answer.missing_keys == ["fc2.bias"] and answer.unexpected_keys == ["extra"]
