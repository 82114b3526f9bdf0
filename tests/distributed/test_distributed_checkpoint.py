"""torch.distributed.checkpoint in one process: PyTorch's format both ways, replacing a checkpoint, damaged and hostile files.

`pytorch_checkpoint` was written by PyTorch 2.13.
"""

import pathlib
import pickle
import shutil
import subprocess

import pytest

import flambeau as torch
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed._state_dict_utils import (
    _check_state_dict_similarity,
    _copy_state_dict,
    _create_cpu_state_dict,
    _gather_state_dict,
)
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)

WRITTEN_BY_PYTORCH = pathlib.Path(__file__).with_name("pytorch_checkpoint")

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def sample():
    return {
        "m": {"w": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)},
        "step": 3,
        "l": [torch.zeros(2), {"a": "x"}],
        "name": "hi",
    }


def blank():
    return {
        "m": {"w": torch.full((2, 3), -1.0), "b": torch.zeros(2, dtype=torch.bfloat16)},
        "step": 0,
        "l": [torch.ones(2), {"a": ""}],
        "name": "",
    }


def same(found, wanted):
    if isinstance(wanted, torch.Tensor):
        return found.dtype == wanted.dtype and torch.equal(found, wanted)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return found == wanted


def test_pytorchs_checkpoint_is_read():
    state = blank()
    kept = state["m"]["w"]
    dcp.load(state, checkpoint_id=WRITTEN_BY_PYTORCH)
    assert same(state, sample())
    assert state["m"]["w"] is kept  # tensors are filled in place


def test_what_is_saved_is_loaded(tmp_path):
    dcp.save(sample(), checkpoint_id=tmp_path / "there")
    state = blank()
    dcp.load(state, checkpoint_id=tmp_path / "there")
    assert same(state, sample())


READ = """
import sys, torch, torch.distributed.checkpoint as dcp
state = {"m": {"w": torch.zeros(2, 3)}, "step": 0}
dcp.load(state, checkpoint_id=sys.argv[1])
assert state["step"] == 3 and state["m"]["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
"""


def test_pytorch_reads_ours(tmp_path, torch_python):
    dcp.save(sample(), checkpoint_id=tmp_path / "there")
    subprocess.run([torch_python, "-W", "ignore", "-c", READ, tmp_path / "there"], check=True)


def test_metadata_bears_pytorchs_names(tmp_path):
    dcp.save(sample(), checkpoint_id=tmp_path / "there")
    content = (tmp_path / "there" / ".metadata").read_bytes()
    assert b"torch.distributed.checkpoint.metadata" in content
    assert b"flambeau" not in content


def test_a_failed_save_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    dcp.save(sample(), checkpoint_id=tmp_path / "there")
    changed = sample()
    changed["step"] = 4
    changed["bad"] = lambda: None  # can't be pickled
    with pytest.raises(dcp.CheckpointException):
        dcp.save(changed, checkpoint_id=tmp_path / "there")
    state = blank()
    dcp.load(state, checkpoint_id=tmp_path / "there")
    assert same(state, sample())
    changed.pop("bad")
    dcp.save(changed, checkpoint_id=tmp_path / "there")
    dcp.load(state, checkpoint_id=tmp_path / "there")
    assert state["step"] == 4
    assert len(list((tmp_path / "there").iterdir())) == 2  # files of neither earlier save are left


def test_in_the_background(tmp_path):
    state = sample()
    future = dcp.async_save(state, checkpoint_id=tmp_path / "there")
    state["m"]["w"].zero_()  # what is saved is what it was
    future.result()
    loaded = blank()
    dcp.load(loaded, checkpoint_id=tmp_path / "there")
    assert same(loaded, sample())


def test_objects_with_state_dicts(tmp_path):
    def made():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
        return model, torch.optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer):
        model(torch.ones(2, 3) * torch.arange(2.0).unsqueeze(1)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    model, optimizer = made()
    step(model, optimizer)
    names, states = get_state_dict(model, optimizer)
    assert set(states["state"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    dcp.save({"model": names, "optim": states, "module": model}, checkpoint_id=tmp_path / "there")
    other, its = made()
    names, states = get_state_dict(other, its)
    state = {"model": names, "optim": states, "module": other}
    dcp.load(state, checkpoint_id=tmp_path / "there")
    set_state_dict(other, its, model_state_dict=state["model"], optim_state_dict=state["optim"])
    step(model, optimizer)
    step(other, its)
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_one_file_and_back(tmp_path):
    dcp_to_torch_save(WRITTEN_BY_PYTORCH, tmp_path / "one.pt")
    assert same(torch.load(tmp_path / "one.pt"), sample())
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "there")
    state = blank()
    dcp.load(state, checkpoint_id=tmp_path / "there")
    assert same(state, sample())


def test_what_doesnt_fit_is_refused(tmp_path):
    dcp.save(sample(), checkpoint_id=tmp_path / "there")
    for state, words in (
        ({"other": torch.zeros(1)}, "Missing key in checkpoint state_dict: other."),
        ({"m": {"w": torch.zeros(3, 2)}}, "Size mismatch between saved"),
    ):
        with pytest.raises(dcp.CheckpointException, match=words):
            dcp.load(state, checkpoint_id=tmp_path / "there")


class Harmful:
    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path("harmed"),)


def test_hostile_metadata_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(dcp.CheckpointException, match="not read"):
        dcp.load({"a": torch.zeros(1)}, checkpoint_id=tmp_path)
    assert not (tmp_path / "harmed").exists()


def test_damaged_files_are_errors(tmp_path):
    whole = (WRITTEN_BY_PYTORCH / ".metadata").read_bytes()
    folder = tmp_path / "there"
    shutil.copytree(WRITTEN_BY_PYTORCH, folder)
    for end in range(0, len(whole), 37):
        (folder / ".metadata").write_bytes(whole[:end])
        with pytest.raises(dcp.CheckpointException):
            dcp.load(blank(), checkpoint_id=folder)
    (folder / ".metadata").write_bytes(whole)
    data = (folder / "__0_0.distcp").read_bytes()
    (folder / "__0_0.distcp").write_bytes(data[: len(data) // 2])
    with pytest.raises(dcp.CheckpointException, match="cut off"):
        dcp.load(blank(), checkpoint_id=folder)


class Hooked(torch.nn.Module):
    """A model whose state dict has more than its tensors."""

    def __init__(self):
        super().__init__()
        self.module, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self._register_state_dict_hook(lambda module, state, prefix, _: state.update(version=3))


def test_names_of_a_models_state():
    inside = torch.nn.Sequential(checkpoint_wrapper(Hooked()), torch.nn.Linear(2, 2))
    names = {"0.module.weight", "0.module.bias", "0.second.weight", "0.second.bias", "1.weight", "1.bias"}
    state = get_model_state_dict(torch.nn.DataParallel(inside))
    assert set(state) == {*names, "version"}  # wrappers leave no trace, what is called module by itself does
    options = StateDictOptions(keep_submodule_prefixes=False)
    with pytest.warns(FutureWarning, match="Getting submodules only"):
        assert set(get_model_state_dict(inside, submodules={inside[1]}, options=options)) == {"weight", "bias"}
    inside[1].weight.requires_grad_(False)
    assert "1.weight" not in get_model_state_dict(inside, options=StateDictOptions(ignore_frozen_params=True))


def test_states_that_dont_fit_a_model():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    state = get_optimizer_state_dict(model, optimizer)
    state["state"].pop("0.bias")
    state["param_groups"][0]["lr"] = 0.5
    with pytest.raises(RuntimeError, match=r"Missing optimizer state for parameter '0\.bias'"):
        set_optimizer_state_dict(model, optimizer, state)
    assert optimizer.param_groups[0]["lr"] == 0.001
    set_optimizer_state_dict(model, optimizer, state, options=StateDictOptions(strict=False))
    assert optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0\.bias"'):
        set_model_state_dict(model, {"0.weight": torch.zeros(2, 2)})
    with pytest.raises(RuntimeError, match="is empty"):
        set_model_state_dict(model, {})
    found = set_model_state_dict(model, {}, options=StateDictOptions(strict=False))
    assert found.missing_keys == ["0.weight", "0.bias"]
    with pytest.raises(KeyError, match="that the model has not"):
        get_optimizer_state_dict(model, torch.optim.SGD([torch.zeros(1, requires_grad=True)]))
    flat = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    flat["param_groups.0.weight.lr"] = flat["param_groups.0.bias.lr"] = 0.25
    set_optimizer_state_dict(model, optimizer, flat)
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_tensors_on_the_meta_device_are_given_memory(tmp_path):
    dcp.save({"m": {"w": torch.ones(2, 3)}, "l": [torch.ones(1)]}, checkpoint_id=tmp_path)
    state = {"m": {"w": torch.empty(2, 3, device="meta")}, "l": [torch.empty(1, device="meta")]}
    dcp.load(state, checkpoint_id=tmp_path)
    assert torch.equal(state["m"]["w"], torch.ones(2, 3))
    assert torch.equal(state["l"][0], torch.ones(1))


def test_the_optimizers_own_state_is_loaded():
    model = torch.nn.Linear(2, 2)
    first, second = (torch.optim.Adam(model.parameters(), lr=rate) for rate in (0.1, 0.2))
    model(torch.ones(1, 2)).sum().backward()
    first.step()
    set_optimizer_state_dict(model, second, first.state_dict())
    assert second.param_groups[0]["lr"] == 0.1
    assert torch.equal(second.state[model.weight]["exp_avg"], first.state[model.weight]["exp_avg"])


def test_whole_and_copied_state_dicts():
    state = {"a": torch.ones(2), "n": [torch.zeros(1), {"b": 3}]}
    copy = _create_cpu_state_dict(state, share_memory=True)
    assert _check_state_dict_similarity(state, copy)
    place = copy["a"].data_ptr()
    state["a"].fill_(5.0)
    state["n"][1]["b"] = 4
    _copy_state_dict(state, copy)
    assert copy["a"].tolist() == [5.0, 5.0]
    assert copy["a"].data_ptr() == place
    assert copy["n"][1]["b"] == 4
    assert not _check_state_dict_similarity(state, {**copy, "a": torch.ones(3)})
    assert same(_gather_state_dict(state), state)
