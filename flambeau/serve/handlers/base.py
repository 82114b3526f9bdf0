"""Handlers written in Python: TorchServe's interface, so that its handlers run as they are.

`BaseHandler` is what they inherit from; `Context` is what they are told. Stands on the public API; used by torchserve,
python_handlers and models, and by handlers of users through flambeau.serve.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import flambeau as torch
from flambeau.serve.handlers.module_files import classes_of, module_of

log = logging.getLogger(__name__)


class PredictionException(Exception):
    """A request that the handler refuses, with the status of the answer; the message is its body."""

    def __init__(self, message: str, error_code: int = 513) -> None:
        super().__init__(message)
        self.message, self.error_code = message, error_code


def load_label_mapping(mapping_file_path: str) -> dict[str, str] | None:
    """The names of classes, by their numbers as texts, of index_to_name.json; None where there is no such file."""
    path = mapping_file_path
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if isinstance(content, dict) and isinstance(content.get("object_type_names"), list):
        content = {str(number): name for number, name in enumerate(content["object_type_names"])}
    if isinstance(content, dict):
        content = {key: name[-1] if isinstance(name, list) and name else name for key, name in content.items()}
        if all(isinstance(name, str) for name in content.values()):
            return content
    raise ValueError(f'{path}: names of classes are {{"0": "cat", ...}}, or lists of texts of which the last is the name')


class Metrics:
    """What handlers measure: a line of the log each."""

    def add_metric(self, name: str, value: float, unit: str = "", **_: Any) -> None:
        log.info("metric %s", name, extra={"metric": name, "value": value, "unit": unit})

    add_counter = add_time = add_size = add_percent = add_error = add_metric


class Context:
    """What a handler is told: where the model's files are, the manifest of its archive, and of a batch the headers."""

    def __init__(
        self,
        folder: str,
        manifest: dict[str, Any],
        batch_size: int,
        name: str,
        version: str,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.manifest = manifest
        self.model_name, self.model_version = name, version
        self.model_yaml_config = config or {}
        self.system_properties: dict[str, Any] = {
            "model_dir": folder, "gpu_id": None, "batch_size": batch_size, "server_name": "flambeau", "server_version": "1",
        }  # fmt: skip
        self.metrics = Metrics()
        self._requests: list[dict[str, str]] = []
        self.request_ids: dict[int, str] = {}
        self.statuses: dict[int, int] = {}
        self.types: dict[int, str] = {}
        self.headers: dict[int, dict[str, str]] = {}

    def begin(self, ids: list[str], headers: list[dict[str, str]]) -> None:
        """A batch: the ids of its requests and their headers."""
        self.request_ids, self._requests = dict(enumerate(ids)), headers
        self.statuses, self.types, self.headers = {}, {}, {}

    def get_request_id(self, idx: int = 0) -> str | None:
        return self.request_ids.get(idx)

    def get_request_header(self, idx: int, key: str) -> str | None:
        return self._requests[idx].get(key.lower())

    def get_all_request_header(self, idx: int) -> dict[str, str]:
        return self._requests[idx]

    def set_response_content_type(self, idx: int, value: str) -> None:
        self.types[idx] = value

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self.statuses[idx] = code

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        self.statuses = dict.fromkeys(self.request_ids, code)

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        self.headers.setdefault(idx, {})[key.lower()] = value


class BaseHandler:
    """A handler in TorchServe's form: override `preprocess`, `inference` or `postprocess`, or all of it by `handle`."""

    def __init__(self) -> None:
        self.model: Any = None
        self.device = torch.device("cpu")
        self.map_location = "cpu"
        self.context: Any = None
        self.manifest: dict[str, Any] = {}
        self.mapping: dict[str, str] | None = None  # names of classes
        self.model_yaml_config: dict[str, Any] = {}
        self.initialized = False

    def initialize(self, context: Context) -> None:
        """Load the model that the archive's manifest names: TorchScript, an exported program, or weights for its modelFile."""
        self.context, self.manifest = context, context.manifest
        self.model_yaml_config = context.model_yaml_config
        self.mapping = load_label_mapping(os.path.join(context.system_properties["model_dir"], "index_to_name.json"))
        named = context.manifest.get("model", {})
        file = named.get("serializedFile")
        if file:
            path = os.path.join(context.system_properties["model_dir"], file)
            self.model = self._load(path, named.get("modelFile"), context.system_properties["model_dir"])
        self.initialized = True

    def _load(self, path: str, model_file: str | None, folder: str) -> Any:
        if model_file:
            classes = [one for one in classes_of(module_of(os.path.join(folder, model_file))) if issubclass(one, torch.nn.Module)]
            if len(classes) != 1:
                raise ValueError(f"{model_file} must have one class that is a torch.nn.Module; it has {len(classes)}")
            model = classes[0]()
            model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
            return model.eval()
        if path.endswith(".pt2"):
            return torch.export.load(path).module()
        return torch.jit.load(path, map_location="cpu").eval()

    def preprocess(self, data: list[dict[str, Any]]) -> Any:
        """A batch of requests as a tensor: bodies are nested lists of numbers."""
        return torch.as_tensor([row.get("data", row.get("body")) for row in data])

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.inference_mode():
            return self.model(data, *args, **kwargs)

    def postprocess(self, data: Any) -> list[Any]:
        """One answer per request."""
        return data.tolist()

    def handle(self, data: list[dict[str, Any]], context: Context) -> list[Any]:
        self.context = context
        return self.postprocess(self.inference(self.preprocess(data)))
