"""Event files: TensorBoard reads back what was written. Expected contents are those of PyTorch's files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.graph_pb2 import GraphDef

from flambeau.utils.tensorboard import SummaryWriter, summary


def events(folder: Path) -> list[Any]:
    return [event for file in sorted(folder.glob("events*")) for event in LegacyEventFileLoader(str(file)).Load()]


def values(folder: Path) -> dict[str, Any]:
    return {value.tag: value for event in events(folder) for value in event.summary.value}


def test_numbers(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", torch.tensor([1.5 * step]), step, walltime=7)
        writer.add_scalar("half", torch.tensor(0.25, dtype=torch.bfloat16))
        writer.add_scalar("new", 2.5, 1, new_style=True, double_precision=True)
        writer.add_scalars("run/all", {"x": 1, "y": 2}, 5)
    read = EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(each.wall_time, each.step, each.value) for each in read.Scalars("loss")] == [(7, 0, 0), (7, 1, 1.5), (7, 2, 3)]
    found = values(tmp_path)
    assert found["half"].simple_value == 0.25
    assert found["new"].tensor.double_val == [2.5] and found["new"].metadata.plugin_data.plugin_name == "scalars"
    assert values(tmp_path / "run_all_y")["run/all"].simple_value == 2
    for bad, error in ((torch.ones(2), AssertionError), ("x", ValueError), (None, NotImplementedError)):
        with pytest.raises(error):
            summary.scalar("a", bad)


def test_histograms(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    made = summary.histogram("h", x, 3).value[0].histo
    assert (made.min, made.max, made.num, made.sum, made.sum_squares) == (1, 3, 3, 6, 14)
    assert list(made.bucket_limit) == [1, 1.6666666666666665, 2.333333333333333, 3] and list(made.bucket) == [0, 1, 1, 1]
    few = summary.histogram("h", torch.arange(10.0), 10, max_bins=3).value[0].histo
    assert list(few.bucket) == [0, 3, 3, 3, 1]
    middle = summary.histogram("h", x, np.arange(10.0)).value[0].histo
    assert list(middle.bucket_limit) == [1, 2, 3, 4] and list(middle.bucket) == [0, 1, 1, 1]
    with pytest.raises(ValueError, match="has no element"):
        summary.histogram("h", torch.ones(0), 3)
    with SummaryWriter(tmp_path) as writer:
        assert len(writer.default_bins) == 1549 and writer.default_bins[-1] == 9.920775621859783e19
        writer.add_histogram("weights", x, 1)
        writer.add_histogram_raw("raw", 0, 1, 2, 3, 4, [1, 2], [1, 1])
        with pytest.raises(ValueError, match="bucket_limits"):
            writer.add_histogram_raw("raw", 0, 1, 2, 3, 4, [1], [1, 1])
    assert sum(values(tmp_path)["weights"].histo.bucket) == 3 and list(values(tmp_path)["raw"].histo.bucket_limit) == [1, 2]


def pixels(made: Any) -> Any:
    image = pytest.importorskip("PIL.Image")
    (value,) = made.value
    return np.array(image.open(io.BytesIO(value.image.encoded_image_string)))


def test_pictures() -> None:
    picture = torch.tensor([[[0.0, 0.5], [1.0, 2.0]]] * 3)
    assert pixels(summary.image("i", picture, dataformats="CHW"))[:, :, 0].tolist() == [[0, 127], [255, 255]]
    assert pixels(summary.image("i", picture.permute(1, 2, 0), dataformats="HWC")).shape == (2, 2, 3)
    assert pixels(summary.image("i", picture[0], dataformats="HW")).shape == (2, 2, 3)
    assert pixels(summary.image("i", torch.full((9, 1, 2, 2), 7, dtype=torch.uint8)))[2:, 2:].max() == 0
    assert pixels(summary.image("i", torch.full((9, 1, 2, 2), 7, dtype=torch.uint8))).shape == (4, 16, 3)
    assert pixels(summary.image("i", picture, rescale=3, dataformats="CHW")).shape == (6, 6, 3)
    framed = pixels(summary.image_boxes("i", torch.zeros(3, 20, 20), torch.tensor([[2.0, 3, 15, 15]])))
    assert framed[3, 2].tolist() == [255, 0, 0] and framed[9, 9].tolist() == [0, 0, 0]
    with pytest.raises(AssertionError, match="size of input tensor and input format are different"):
        summary.image("i", picture)
    with pytest.raises(AssertionError, match="same dimension shorthand twice"):
        summary.image("i", picture, dataformats="CCW")


def test_sound_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    sound = summary.audio("s", torch.tensor([0.0, 0.5, -1.0, 2.0]), 8000).value[0].audio
    assert sound.encoded_audio_string[-8:] == b"\x00\x00\xff\x3f\x01\x80\xff\x7f" and sound.length_frames == 4
    assert "auto clipped" in capsys.readouterr().out
    text = summary.text("t", "*x*").value[0]
    assert text.tag == "t/text_summary" and list(text.tensor.string_val) == [b"*x*"]


def test_curves() -> None:
    made = summary.pr_curve("p", np.array([0, 1]), np.array([0.2, 0.8]), num_thresholds=3).value[0]
    assert list(made.tensor.float_val) == [1, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0.5, 1, 0, 1, 1, 0]
    assert made.metadata.plugin_data.content == b"\x10\x03"
    layout = summary.custom_scalars({"A": {"x": ["Multiline", ["a", "b"]], "y": ["Margin", ["c", "d", "e"]]}}).value[0]
    charts = b"\x12\x0b\n\x01x\x12\x06\n\x01a\n\x01b\x12\x10\n\x01y\x1a\x0b\n\t\n\x01c\x12\x01d\x1a\x01e"
    assert layout.tensor.string_val[0] == b"\x12\x22\n\x01A" + charts
    mesh = summary.mesh("m", torch.zeros(1, 4, 3), None, torch.zeros(1, 2, 3), {"a": 1})
    assert [value.tag for value in mesh.value] == ["m_VERTEX", "m_FACE"]
    assert mesh.value[0].metadata.plugin_data.content == b'\x12\x01m\x18\x01*\x08{"a": 1}2\x03\x01\x04\x038\x06'


@pytest.mark.parametrize(
    ("dtype", "field", "expected"),
    [
        (torch.float32, "float_val", [0, 1]), (torch.int64, "int64_val", [0, 1]), (torch.bool, "bool_val", [False, True]),
        (torch.uint8, "uint32_val", [0, 1]), (torch.complex64, "scomplex_val", [0, 0, 1, 0]),
        (torch.float16, "half_val", [0, 1065353216]),
    ],
)  # fmt: skip
def test_tensors(dtype: Any, field: str, expected: list[Any]) -> None:
    made = summary.tensor_proto("t", torch.tensor([0, 1]).to(dtype)).value[0].tensor
    assert list(getattr(made, field)) == expected and [dim.size for dim in made.tensor_shape.dim] == [2]
    with pytest.raises(ValueError, match=r"t has unsupported tensor dtype torch\.uint16"):
        summary.tensor_proto("t", torch.tensor(3, dtype=torch.uint16))


def test_hyperparameters(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        domain = {"lr": [0.1, 0.2]}
        writer.add_hparams({"lr": 0.1, "none": None}, {"acc": 1.0}, domain, run_name="r", global_step=3)
        with pytest.raises(TypeError, match="should be dictionary"):
            writer.add_hparams(1, 2)  # type: ignore[arg-type]
    found = values(tmp_path / "r")
    about = {tag: found[f"_hparams_/{tag}"].metadata.plugin_data.content for tag in ("experiment", "session_start_info")}
    assert about["experiment"] == (
        b'\x12)"\x1e\n\x02lr \x03*\x16\n\t\x11\x9a\x99\x99\x99\x99\x99\xb9?'
        b"\n\t\x11\x9a\x99\x99\x99\x99\x99\xc9?*\x07\n\x05\x12\x03acc"
    )
    assert about["session_start_info"] == b"\x1a\x11\n\x0f\n\x02lr\x12\t\x11\x9a\x99\x99\x99\x99\x99\xb9?"
    assert found["acc"].simple_value == 1
    for bad in ({"lr": ["x"]}, {"other": [1]}, {"lr": 3}):
        with pytest.raises(TypeError, match="should be a list of same type as"):
            summary.hparams({"lr": 0.1}, {}, bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one of int, float, str, bool"):
        summary.hparams({"a": [1]}, {})


def test_embeddings(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(torch.arange(4.0).reshape(2, 2), metadata=["a", "b"], global_step=1)
        rows = [["a", "1"], ["b", "2"]]
        writer.add_embedding(torch.arange(4.0).reshape(2, 2), metadata=rows, metadata_header=["n", "v"], tag="x/y")
        with pytest.raises(AssertionError, match="labels should equal"):
            writer.add_embedding(torch.ones(2, 2), metadata=["a"])
    assert (tmp_path / "00001/default/tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n"
    assert (tmp_path / "00000/x%2fy/metadata.tsv").read_text() == "n\tv\na\t1\nb\t2\n"
    assert (tmp_path / "projector_config.pbtxt").read_text().count("embeddings {") == 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.body(x)) + 1


def test_the_graph_of_a_module(tmp_path: Path) -> None:
    model = Model()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, torch.ones(1, 2))
    (written,) = [event.graph_def for event in events(tmp_path) if event.graph_def]
    nodes = {node.name: node for node in GraphDef.FromString(written).node}
    linear = nodes["Model/Sequential[body]/Linear[0]/linear.1"]
    parameters = [f"Model/Sequential[body]/Linear[0]/{name}" for name in ("weight", "bias")]
    assert linear.op == "aten::linear" and list(linear.input) == ["input/0", *parameters]
    assert [dim.size for dim in linear.attr["_output_shapes"].list.shape[0].dim] == [1, 3]
    assert list(nodes["Model/add.1"].input) == ["Model/sigmoid.1"] and list(nodes["output/output.1"].input) == ["Model/add.1"]
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SummaryWriter(tmp_path / "a", filename_suffix=".suffix", purge_step=4)
    writer.add_scalar("q", 1.0, 5)
    writer.flush()
    assert [event.step for event in events(tmp_path / "a")] == [0, 4, 4, 5]
    assert events(tmp_path / "a")[2].session_log.status == 1 and next((tmp_path / "a").glob("*.suffix"))
    writer.close()
    writer.close()
    writer.add_scalar("late", 1.0)
    writer.close()
    assert {"q", "late"} <= set(values(tmp_path / "a"))
    monkeypatch.chdir(tmp_path)
    other = SummaryWriter(comment="_c")
    assert other.get_logdir().startswith("runs/") and other.get_logdir().endswith("_c")
    other.close()


def test_figures() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from flambeau.utils.tensorboard.pictures import figure_to_image

    figure = pyplot.figure(figsize=(0.2, 0.1), dpi=100)
    assert figure_to_image(figure, close=False).shape == (3, 10, 20) and pyplot.fignum_exists(figure.number)
    assert figure_to_image([figure]).shape == (1, 3, 10, 20) and not pyplot.fignum_exists(figure.number)
