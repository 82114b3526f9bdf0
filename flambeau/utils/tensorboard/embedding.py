"""The files that TensorBoard's projector reads: vectors, their labels and pictures, and where these files are."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flambeau.utils.tensorboard.arrays import make_np
from flambeau.utils.tensorboard.pictures import make_grid

__all__ = ["get_embedding_info", "make_mat", "make_sprite", "make_tsv", "write_pbtxt"]


def _line(cells: Iterable[Any]) -> str:
    return "\t".join(str(cell) for cell in cells) + "\n"


def make_tsv(metadata: Sequence[Any], save_path: str, metadata_header: Sequence[str] | None = None) -> None:
    """metadata.tsv: a label per line, or under a header several."""
    if not metadata_header:
        lines = [f"{label}\n" for label in metadata]
    else:
        if len(metadata_header) != len(metadata[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        lines = [_line(row) for row in (metadata_header, *metadata)]
    with open(os.path.join(save_path, "metadata.tsv"), "w", encoding="utf8") as file:
        file.writelines(lines)


def make_sprite(label_img: Any, save_path: str) -> None:
    """sprite.png: the pictures (N, channels, height, width) in a square."""
    from PIL import Image

    side = math.ceil(label_img.shape[0] ** 0.5)
    picture = make_grid(make_np(label_img), ncols=side)
    square = np.zeros((picture.shape[2], picture.shape[2], 3))
    square[: picture.shape[1]] = picture.transpose(1, 2, 0)
    Image.fromarray(np.uint8((square * 255).clip(0, 255))).save(os.path.join(save_path, "sprite.png"))


def make_mat(matlist: np.ndarray, save_path: str) -> None:
    """tensors.tsv: a vector per line."""
    with open(os.path.join(save_path, "tensors.tsv"), "w", encoding="utf8") as file:
        file.writelines(_line(map(str, row.tolist())) for row in matlist)


def get_embedding_info(metadata: Any, label_img: Any, subdir: str, global_step: Any, tag: str) -> Any:
    """What the projector's configuration says of one embedding."""
    from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

    info = EmbeddingInfo()
    info.tensor_name = f"{tag}:{str(global_step).zfill(5)}"
    info.tensor_path = f"{subdir}/tensors.tsv"
    if metadata is not None:
        info.metadata_path = f"{subdir}/metadata.tsv"
    if label_img is not None:
        info.sprite.image_path = f"{subdir}/sprite.png"
        info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
    return info


def write_pbtxt(save_path: str, contents: str) -> None:
    """The projector's configuration, in the folder where it looks for it."""
    with open(os.path.join(save_path, "projector_config.pbtxt"), "w", encoding="utf8") as file:
        file.write(contents)
