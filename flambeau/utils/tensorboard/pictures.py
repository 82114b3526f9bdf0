"""Arrays of pictures: in which order their dimensions lie, several as one, figures drawn by matplotlib.

Stands on NumPy; Pillow and matplotlib are imported where a program asks for what they draw. `summary` and `embedding` use it.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

__all__ = ["boxes_drawn", "convert_to_HWC", "encoded", "figure_to_image", "make_grid"]


def make_grid(I: np.ndarray, ncols: int = 8) -> np.ndarray:
    """One picture (3, height, width) of N pictures (N, 1 or 3, height, width), row by row; places left over are black."""
    if not isinstance(I, np.ndarray):
        raise AssertionError("plugin error, should pass numpy array here")
    if I.shape[1] == 1:
        I = np.concatenate([I, I, I], 1)
    if I.ndim != 4 or I.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, channels, height, width = I.shape
    columns = min(count, ncols)
    rows = math.ceil(count / columns)
    places = np.zeros((rows * columns, channels, height, width), dtype=I.dtype)
    places[:count] = I
    grid = places.reshape(rows, columns, channels, height, width).transpose(2, 0, 3, 1, 4)
    return grid.reshape(channels, rows * height, columns * width)


def convert_to_HWC(tensor: np.ndarray, input_format: str) -> np.ndarray:
    """An array whose dimensions are `input_format` (of N, H, W and C, in any order) as (height, width, channels).

    Several pictures become one; grey ones get three channels. Raises AssertionError for a format that doesn't fit.
    """
    if len(set(input_format)) != len(input_format):
        raise AssertionError(f"You can not use the same dimension shorthand twice.             input_format: {input_format}")
    if len(tensor.shape) != len(input_format):
        raise AssertionError(
            "size of input tensor and input format are different.         "
            f"tensor shape: {tensor.shape}, input_format: {input_format}"
        )
    form = input_format.upper()
    if len(form) == 4:
        return make_grid(tensor.transpose([form.find(letter) for letter in "NCHW"])).transpose(1, 2, 0)
    if len(form) == 3:
        picture = tensor.transpose([form.find(letter) for letter in "HWC"])
        return np.concatenate([picture] * 3, 2) if picture.shape[2] == 1 else picture
    if len(form) == 2:
        picture = tensor.transpose([form.find(letter) for letter in "HW"])
        return np.stack([picture] * 3, 2)
    raise AssertionError(f"input_format has two to four letters, not {input_format!r}")


def boxes_drawn(picture: Any, boxes: np.ndarray, labels: Any = None) -> Any:
    """The Pillow picture with a red frame for each of `boxes` (left, top, right, bottom), and its label in the corner."""
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default()
    for number, (left, top, right, bottom) in enumerate(boxes[:, :4]):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(corners, width=2, fill="Red")
        label = None if labels is None else labels[number]
        if label:
            from_left, from_top, to_right, to_bottom = font.getbbox(label)
            width, height = to_right - from_left, to_bottom - from_top
            margin = np.ceil(0.05 * height)
            draw.rectangle([(left, bottom - height - 2 * margin), (left + width, bottom)], fill="Red")
            draw.text((left + margin, bottom - height - margin), label, fill="black", font=font)
    return picture


def encoded(picture: np.ndarray, rescale: float = 1, boxes: Any = None, labels: Any = None) -> bytes:
    """A picture (height, width, channels) of bytes as a PNG file, `rescale` times as large."""
    from PIL import Image

    image = Image.fromarray(picture)
    if boxes is not None:
        image = boxes_drawn(image, boxes, labels)
    height, width = picture.shape[:2]
    image = image.resize((int(width * rescale), int(height * rescale)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def figure_to_image(figures: Any, close: bool = True) -> np.ndarray:
    """What a matplotlib figure shows, (3, height, width), or several of a list, (N, 3, height, width); closes them."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(figure: Any) -> np.ndarray:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba(), dtype=np.uint8)
        if close:
            plt.close(figure)
        return np.ascontiguousarray(pixels[:, :, :3].transpose(2, 0, 1))

    return np.stack([drawn(figure) for figure in figures]) if isinstance(figures, list) else drawn(figures)
