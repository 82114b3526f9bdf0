"""TorchServe's surface: handlers by name, entry points, what handlers import, config.properties, settings in archives."""

from __future__ import annotations

import base64
import io
import json
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.serve import archives, command, models, properties
from flambeau.serve.answers import Item, Refused
from flambeau.serve.handlers import images
from flambeau.serve.settings import ModelSettings, Wrong

MODEL_FILE = """
import flambeau as torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3, 7))

    def forward(self, images):
        return images.mean((2, 3)) @ self.weight
"""
SEGMENTER = MODEL_FILE.replace("images.mean((2, 3)) @ self.weight", '{"out": images[:, :2] + self.weight.sum()}')
DETECTOR = MODEL_FILE.replace(
    "return images.mean((2, 3)) @ self.weight",
    """return [{"boxes": torch.tensor([[0.0, 0.0, float(one.shape[2]), float(one.shape[1])], [1.0, 1.0, 2.0, 2.0]]),
             "labels": torch.tensor([1, 2]), "scores": torch.tensor([0.75, 0.25])} for one in images]""",
)


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., Any]:
    """Writes an archive with a model of weights (3, 7) and loads it."""

    def make(handler: str, *options: str, file: str = MODEL_FILE, **settings: Any) -> Any:
        (tmp_path / "net_file.py").write_text(file)
        weights = {"weight": torch.arange(21.0).reshape(3, 7) / 10}
        torch.save(weights, tmp_path / "net.pt")
        given = [
            "--model-file",
            str(tmp_path / "net_file.py"),
            "--serialized-file",
            str(tmp_path / "net.pt"),
            "--handler",
            handler,
        ]
        assert archives.main(["--model-name", "m", "--export-path", str(tmp_path), "--force", *given, *options]) == 0
        folder = tmp_path / f"unpacked {len(list(tmp_path.iterdir()))}"
        return models.load(ModelSettings("m", str(tmp_path / "m.mar"), **settings), str(folder))

    return make


def answered(service: Any, body: bytes, kind: str = "image/png") -> tuple[int, Any]:
    (answer,) = service.answer([Item("1", "predict", body, kind)])
    return answer.status, json.loads(answer.body) if answer.type == "application/json" else answer.body


def png(height: int, width: int) -> tuple[np.ndarray, bytes]:
    """Pixels, and the file of them."""
    image = pytest.importorskip("PIL.Image", reason="Pillow isn't installed")
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    stream = io.BytesIO()
    image.fromarray(pixels).save(stream, "PNG")
    return pixels, stream.getvalue()


def test_image_classifier(archive: Callable[..., Any], tmp_path: Path) -> None:
    pixels, body = png(256, 256)
    (tmp_path / "index_to_name.json").write_text(json.dumps({str(at): [f"n{at}", f"name {at}"] for at in range(7)}))
    service = archive("image_classifier", "--extra-files", str(tmp_path / "index_to_name.json"), max_batch_size=4)
    middle = pixels[16:240, 16:240].astype(np.float64) / 255  # 256 is the side already, so nothing is resized
    colours = ((middle.mean((0, 1)) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]) @ (np.arange(21.0).reshape(3, 7) / 10)
    chances = np.exp(colours) / np.exp(colours).sum()
    expected = {f"name {at}": chances[at] for at in np.argsort(-chances)[:5]}
    for sent, kind in ((body, "image/png"), (json.dumps({"data": base64.b64encode(body).decode()}).encode(), "application/json")):
        status, found = answered(service, sent, kind)
        assert status == 200 and found == pytest.approx(expected, rel=1e-4) and list(found) == list(expected)
    form = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\n' + body + b"\r\n--b--\r\n"
    assert answered(service, form, "multipart/form-data; boundary=b")[1] == found
    good, bad = service.answer([Item("1", "predict", body, "image/png"), Item("2", "predict", body[:-60], "image/png")])
    assert json.loads(good.body) == found and bad.status == 400


def test_an_image_that_says_it_is_larger_than_memory(archive: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    _, body = png(30, 40)
    monkeypatch.setattr("flambeau.serve.handlers.images.MOST_PIXELS", 30 * 40 - 1)
    assert answered(archive("image_classifier"), body)[0] == 413


def test_image_segmenter_and_object_detector(archive: Callable[..., Any]) -> None:
    _, body = png(300, 400)
    status, found = answered(archive("image_segmenter", file=SEGMENTER), body)
    assert status == 200 and np.shape(found) == (2, 224, 224)
    status, found = answered(archive("object_detector", file=DETECTOR), body)
    assert (status, found) == (200, [{"1": [0.0, 0.0, 400.0, 300.0], "score": 0.75}])


def test_numbers_in_place_of_an_image(archive: Callable[..., Any]) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow isn't installed")
    service = archive("image_classifier")
    assert answered(service, json.dumps(np.zeros((3, 2, 2)).tolist()).encode(), "application/json")[1]["0"] == pytest.approx(
        1 / 7
    )
    assert answered(service, b'{"data": "%%%"}', "application/json")[0] == 400
    assert answered(service, b'["text"]', "application/json")[0] == 400


@pytest.mark.parametrize("size", [(1, 1 << 20), (1 << 20, 1)])
def test_images_that_resizing_would_make_larger_than_memory(size: tuple[int, int]) -> None:
    image = types.SimpleNamespace(size=size)  # nothing else of it is asked for
    with pytest.raises(Refused, match="shorter side") as refusal:
        images.ImageClassifier.image_processing(image)
    assert refusal.value.status == 413


def test_handlers_that_are_not_there(archive: Callable[..., Any]) -> None:
    with pytest.raises(NotImplementedError, match="text_classifier is not implemented in flambeau: it needs torchtext"):
        archive("text_classifier")
    with pytest.raises(NotImplementedError, match="there are base_handler, image_classifier"):
        archive("no_such_handler")


def test_entry_points_and_what_handlers_import(archive: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "entry.py").write_text("""
from ts.torch_handler.image_classifier import ImageClassifier
from ts.torch_handler.vision_handler import VisionHandler
from ts.utils.util import PredictionException, load_label_mapping, map_class_to_label

told = []

def run(data, context):
    if not data:
        told.append(context.model_yaml_config)
        return None
    if data[0]["body"] == "no":
        raise PredictionException("not this", 418)
    return [{"told": told, "mapped": map_class_to_label([[0.5, 0.25]], {"0": "cat"})} for _ in data]
""")
    (tmp_path / "config.json").write_text('{"batchSize": 2, "responseTimeout": 7, "own": [1]}')
    service = archive("entry:run", "--extra-files", str(tmp_path / "entry.py"), "--config-file", str(tmp_path / "config.json"))
    config = {"batchSize": 2, "responseTimeout": 7, "own": [1]}
    assert answered(service, b'"yes"', "application/json") == (200, {"told": [config], "mapped": [{"cat": 0.5, "1": 0.25}]})
    assert answered(service, b'"no"', "application/json") == (418, b"not this")
    found = command.from_archive(ModelSettings("m", str(tmp_path / "m.mar"), timeout=9.0), True)
    assert found.max_batch_size == 2 and found.timeout == 9.0  # what the command line says goes before the archive


def test_a_config_file_that_is_none(archive: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("[1, 2]")
    with pytest.raises(archives.BadArchive, match="is no mapping"):
        archive("base_handler", "--config-file", str(tmp_path / "config.yaml"))
    (tmp_path / "config.yaml").write_text('{"batchSize": "many"}')
    archive("base_handler", "--config-file", str(tmp_path / "config.yaml"))
    with pytest.raises(Wrong, match="max_batch_size is 'many'"):
        command.from_archive(ModelSettings("m", str(tmp_path / "m.mar")), True)


@pytest.mark.parametrize("value", ["2.5", "1e999", "true", "[[2]]"])
def test_numbers_of_config_files_are_not_rounded(value: str) -> None:
    with pytest.raises(Wrong, match="max_batch_size is"):
        properties.of_archive(json.loads(f'{{"batchSize": {value}}}'))
    assert properties.of_archive({"batchSize": 2.0}) == {"max_batch_size": 2}


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    model = {"modelName": "m", "handler": "base_handler", "configFile": "config.json"}
    path = tmp_path / "m.mar"

    def write(**options: Any) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(archives.MANIFEST, json.dumps({"model": model}))
            file.writestr("config.json", json.dumps({"own": list(range(100))}), **options)

    write()
    whole = path.read_bytes()
    at = whole.index(b"config.json") + len("config.json")
    for place in range(at, at + 40):
        path.write_bytes(whole[:place] + bytes(255 - byte for byte in whole[place : place + 6]) + whole[place + 6 :])
        with pytest.raises(archives.BadArchive):
            archives.read_config(str(path), archives.read_manifest(str(path)))
        with pytest.raises(archives.BadArchive):
            archives.unpack(str(path), str(tmp_path / str(place)))
    write(compress_type=zipfile.ZIP_BZIP2)  # TorchServe doesn't read these either
    with pytest.raises(archives.BadArchive, match="packed by a method"):
        archives.read_manifest(str(path))


def test_the_form_of_properties() -> None:
    lines = (
        r"# a comment ends with its line, whatever is at the end" + "\\",
        r"inference_address=http\://0.0.0.0\:8080",
        r"a\ name : the value",
        r"another value=1",
        r"  ! no=1",
        r"long=one, " + "\\",
        r"    two\u00e9\n",
        r"path=a" + "\\\\",
        r"empty",
        r"last=1" + "\\",
    )
    wanted = {
        "inference_address": "http://0.0.0.0:8080", "a name": "the value", "another": "value=1", "long": "one, two\u00e9\n",
        "path": "a\\", "empty": "", "last": "1",
    }  # fmt: skip
    assert properties.pairs("\n".join(lines)) == properties.pairs("\r\n".join(lines)) == wanted


def test_config_properties(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for name in ("a1.mar", "a2.mar", "b.mar"):
        (store / name).touch()
    path = tmp_path / "config.properties"
    path.write_text(f"""# a comment
inference_address=http://0.0.0.0:8085
metrics_address : http://127.0.0.1:9000
model_store={store}
max_request_size=1000
default_response_timeout = 30
install_py_dep_per_model=false
number_of_netty_threads=8
models={{\\
  "a": {{\\
    "1.0": {{"marName": "a1.mar", "batchSize": 2, "minWorkers": 3}}, "2.0": {{"defaultVersion": true, "marName": "a2.mar"}}\\
  }}\\
}}
load_models=c=b.mar
""")
    table, entries, without_effect = properties.read(str(path))
    assert table == {
        "host": "0.0.0.0", "port": 8085, "metrics_host": "127.0.0.1", "metrics_port": 9000, "model_store": str(store),
        "body_bytes": "1000",
    }  # fmt: skip
    assert entries == [
        {"timeout": "30", "name": "a", "version": "2.0", "path": str(store / "a2.mar")},
        {"timeout": "30", "name": "a", "version": "1.0", "path": str(store / "a1.mar"), "workers": 3, "max_batch_size": 2},
        {"timeout": "30", "path": str(store / "b.mar"), "name": "c"},
    ]
    assert without_effect == ["number_of_netty_threads"]
    settings, found, _ = command.settings_of(["--config", str(path), "--port", "1"])
    assert settings.port == 1 and settings.body_bytes == 1000 and [model.name for model in found] == ["a", "a", "c"]
    path.write_text(f"model_store={store}\nload_models=all")
    assert [entry["path"] for entry in properties.read(str(path))[1]] == [
        str(store / name) for name in ("a1.mar", "a2.mar", "b.mar")
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("inference_address=https://0.0.0.0:8443", "TLS is for a proxy"),
        ("install_py_dep_per_model=true", "install what handlers need before"),
        ("keystore=a.p12", "TLS"),
        ("no_such_thing=1", "there is no property 'no_such_thing'"),
        ("load_models=a.mar", "model_store, which isn't set"),
        ("model_store=.\nload_models=../../a.mar", "is no name of a file"),
        ("model_store=.\nload_models=surely-not-there.mar", "there is no surely-not-there.mar"),
        ("model_store=.\nmodels={", "models is"),
        ("model_store=.\nload_workflows=all", "workflows"),
    ],
)
def test_properties_that_ask_for_what_is_not_there(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "config.properties").write_text(text)
    with pytest.raises(Wrong, match=words):
        properties.read(str(tmp_path / "config.properties"))
