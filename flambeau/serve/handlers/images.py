"""TorchServe's handlers of images by their names: image_classifier, image_segmenter, object_detector.

An image is a body as it is, a field of a form, or base64 in JSON; nested lists of numbers are taken as the model's input. Pillow
reads and resizes images as torchvision does. Stands on base; used by torchserve.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import io
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.serve.answers import Refused
from flambeau.serve.handlers.base import BaseHandler, Context

MOST_PIXELS = 1 << 25  # of one image: a short file can say that it is larger than memory
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours


def opened(data: bytes) -> Any:
    """Pillow's image of a file's bytes; Refused for what is none."""
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data))
        if image.width * image.height > MOST_PIXELS:
            raise Refused(413, f"an image has at most {MOST_PIXELS} pixels; this one has {image.width} x {image.height}")
        image.load()
    except Refused:
        raise
    except Exception:  # each format's reader raises what it likes
        raise Refused(400, "the body is no image that Pillow reads") from None
    return image


def to_tensor(image: Any) -> torch.Tensor:
    """An image as (3, height, width), from 0 to 1."""
    array = np.asarray(image.convert("RGB"), np.float32).transpose(2, 0, 1) / 255
    return torch.from_numpy(np.ascontiguousarray(array))


def resized(side: int, crop: int) -> Callable[[Any], torch.Tensor]:
    """What makes an input of ImageNet's kind: the shorter side, the middle of it, and colours by mean and deviation."""
    mean, deviation = (torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))

    def run(image: Any) -> torch.Tensor:
        width, height = image.size
        short = min(width, height)
        width, height = int(side * width / short), int(side * height / short)
        if width * height > MOST_PIXELS:
            raise Refused(413, f"an image whose shorter side is made {side} pixels long has at most {MOST_PIXELS}, this one more")
        image = image.convert("RGB").resize((width, height), 2)  # bilinear
        left, top = round((width - crop) / 2), round((height - crop) / 2)
        return (to_tensor(image.crop((left, top, left + crop, top + crop))) - mean) / deviation

    return run


class VisionHandler(BaseHandler):
    """A handler of images. `image_processing` makes a tensor of one, and may be torchvision's transforms."""

    image_processing: Callable[[Any], Any] = staticmethod(to_tensor)

    def initialize(self, context: Context) -> None:
        super().initialize(context)
        if importlib.util.find_spec("PIL") is None:  # said when the model is loaded, not at the first request
            raise ImportError("images are read by Pillow: pip install pillow")

    def preprocess(self, data: list[dict[str, Any]]) -> Any:
        """A batch of images as one tensor."""
        return torch.stack([self.image(row.get("data", row.get("body"))) for row in data]).to(self.device)

    def image(self, given: Any) -> torch.Tensor:
        """The tensor of one request. Refused for what is no image."""
        if isinstance(given, dict):
            given = given.get("data", given.get("body"))
        if isinstance(given, str):
            try:
                given = base64.b64decode(given, validate=True)
            except (binascii.Error, ValueError):
                raise Refused(400, "an image in JSON is written in base64") from None
        if isinstance(given, (bytes, bytearray)):
            return self.image_processing(opened(bytes(given)))
        try:
            return torch.as_tensor(given, dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError):
            raise Refused(400, "the body is neither an image nor nested lists of numbers") from None


class ImageClassifier(VisionHandler):
    """The five likeliest classes of an image and their probabilities, by name where index_to_name.json has them."""

    topk = 5
    image_processing = staticmethod(resized(256, 224))

    def set_max_result_classes(self, topk: int) -> None:
        self.topk = topk

    def get_max_result_classes(self) -> int:
        return self.topk

    def postprocess(self, data: Any) -> list[Any]:
        chances = torch.softmax(data, 1)
        values, classes = chances.topk(min(self.topk, chances.shape[1]), 1)
        return map_class_to_label(values.tolist(), self.mapping, classes.tolist())


class ImageSegmenter(VisionHandler):
    """The scores of all classes for every pixel: (classes, height, width)."""

    image_processing = staticmethod(resized(255, 224))

    def postprocess(self, data: Any) -> list[Any]:
        return list((data["out"] if isinstance(data, dict) else data).tolist())


class ObjectDetector(VisionHandler):
    """What is seen in an image, where, and how surely, of what has a score above `threshold`."""

    threshold = 0.5

    def preprocess(self, data: list[dict[str, Any]]) -> Any:
        return [self.image(row.get("data", row.get("body"))).to(self.device) for row in data]

    def postprocess(self, data: Any) -> list[Any]:
        answers = []
        for row in data:
            sure = row["scores"] > self.threshold
            boxes, classes, scores = (row[key][sure].tolist() for key in ("boxes", "labels", "scores"))
            named = map_class_to_label([[box] for box in boxes], self.mapping, [[one] for one in classes])
            answers.append([{**box, "score": score} for box, score in zip(named, scores)])
        return answers


def map_class_to_label(values: list[Any], mapping: dict[str, str] | None = None, classes: list[Any] | None = None) -> list[Any]:
    """Values of a batch by the names of their classes; by the classes' numbers where there are no names."""
    if classes is None:
        classes = [range(len(row)) for row in values]
    names = mapping or {}
    return [{names.get(str(one), str(one)): value for one, value in zip(own, row)} for own, row in zip(classes, values)]
