"""TorchServe's names: what handlers import from `ts`, and the handlers that archives name without having a file for them.

Stands on base and images; used by python_handlers and models.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from flambeau.serve.handlers import images
from flambeau.serve.handlers.base import BaseHandler, Context, PredictionException, load_label_mapping
from flambeau.serve.handlers.module_files import classes_of

NAMED: dict[str, type[BaseHandler]] = {
    "base_handler": BaseHandler,
    "image_classifier": images.ImageClassifier,
    "image_segmenter": images.ImageSegmenter,
    "object_detector": images.ObjectDetector,
}
ABSENT = {
    "text_classifier": "it needs torchtext and its pickled vocabulary: write a handler, or serve a folder of transformers with "
    "--task text-classification",
    "request_envelope": "write what it does into the handler",
}

# what handlers import, by the module that TorchServe has it in
NAMES: dict[str, dict[str, Any]] = {
    "ts.torch_handler.base_handler": {"BaseHandler": BaseHandler},
    "ts.torch_handler.vision_handler": {"VisionHandler": images.VisionHandler},
    "ts.torch_handler.image_classifier": {"ImageClassifier": images.ImageClassifier},
    "ts.torch_handler.image_segmenter": {"ImageSegmenter": images.ImageSegmenter},
    "ts.torch_handler.object_detector": {"ObjectDetector": images.ObjectDetector},
    "ts.context": {"Context": Context},
    "ts.utils.util": {
        "PredictionException": PredictionException, "load_label_mapping": load_label_mapping,
        "list_classes_from_module": classes_of, "map_class_to_label": images.map_class_to_label,
    },
}  # fmt: skip


def named(name: str) -> BaseHandler:
    """TorchServe's handler of a name; NotImplementedError for one that isn't here."""
    if name in NAMED:
        return NAMED[name]()
    own = f"there are {', '.join(NAMED)}; give the archive a handler of its own, or serve the program (.pt2) itself"
    why = ABSENT.get(name, own)
    raise NotImplementedError(f"TorchServe's handler {name} is not implemented in flambeau: {why}")


def offer_names() -> None:
    """`from ts.torch_handler.base_handler import BaseHandler` in handlers gives our class, where TorchServe isn't there."""
    if "ts" in sys.modules:
        return
    for name, values in NAMES.items():
        path = ""
        for part in name.split("."):
            parent, path = path, f"{path}.{part}".lstrip(".")
            if path not in sys.modules:
                sys.modules[path] = module = types.ModuleType(path, "A name of TorchServe's.")
                module.__path__ = []
                if parent:
                    setattr(sys.modules[parent], part, module)
        vars(sys.modules[path]).update(values)
