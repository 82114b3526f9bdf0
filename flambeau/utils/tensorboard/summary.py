"""Summaries: the protocol buffers that TensorBoard shows, made from numbers, arrays and tensors.

Stands on the third-party packages tensorboard and NumPy. `writer` uses it; so do the loggers of other libraries.
"""

from __future__ import annotations

import io
import json
import struct
import tempfile
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

import flambeau as torch
from flambeau.utils.tensorboard.arrays import make_np
from flambeau.utils.tensorboard.pictures import convert_to_HWC, encoded

__all__ = [
    "audio",
    "compute_curve",
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "image",
    "image_boxes",
    "make_histogram",
    "make_image",
    "make_video",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
    "video",
]


def _metadata(plugin: str, content: bytes = b"") -> Any:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def _shape(sizes: Sequence[int]) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


# ---------------------------------------------------------------- numbers


def scalar(name: str, tensor: Any, collections: Any = None, new_style: bool = False, double_precision: bool = False) -> Any:
    """A number: a Python number, or a tensor or array of one element.

    new_style: as a tensor of the plugin "scalars"; double_precision: of that in 64 bits.
    """
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions).             "
            f"Was given size: {array.size} and {array.ndim} dimensions."
        )
    number = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=number)])
    proto = (
        TensorProto(double_val=[number], dtype="DT_DOUBLE")
        if double_precision
        else TensorProto(float_val=[number], dtype="DT_FLOAT")
    )
    return Summary(value=[Summary.Value(tag=name, tensor=proto, metadata=_metadata("scalars"))])


def _half_bits(t: torch.Tensor) -> list[int]:
    # The bits of single precision, which is what PyTorch's event files have there.
    return [struct.unpack("I", struct.pack("f", value))[0] for value in t.flatten().tolist()]


def _pairs(t: torch.Tensor) -> list[float]:
    return torch.view_as_real(t).flatten().tolist()


def _plain(t: torch.Tensor) -> list[Any]:
    return t.flatten().tolist()


_TENSOR_TYPES = {
    torch.half: ("DT_HALF", "half_val", _half_bits),
    torch.bfloat16: ("DT_BFLOAT16", "half_val", _half_bits),
    torch.float32: ("DT_FLOAT", "float_val", _plain),
    torch.float64: ("DT_DOUBLE", "double_val", _plain),
    torch.int8: ("DT_INT8", "int_val", _plain),
    torch.uint8: ("DT_UINT8", "uint32_val", _plain),
    torch.int16: ("DT_INT16", "int_val", _plain),
    torch.int32: ("DT_INT32", "int_val", _plain),
    torch.int64: ("DT_INT64", "int64_val", _plain),
    torch.complex64: ("DT_COMPLEX64", "scomplex_val", _pairs),
    torch.complex128: ("DT_COMPLEX128", "dcomplex_val", _pairs),
    torch.bool: ("DT_BOOL", "bool_val", _plain),
}


def tensor_proto(tag: str, tensor: torch.Tensor) -> Any:
    """A whole tensor. Raises ValueError for a dtype that TensorBoard doesn't have."""
    if tensor.dtype not in _TENSOR_TYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    dtype, field, values = _TENSOR_TYPES[tensor.dtype]
    proto = TensorProto(dtype=dtype, tensor_shape=_shape(tensor.shape), **{field: values(tensor)})
    return Summary(value=[Summary.Value(tag=tag, tensor=proto, metadata=_metadata("tensor"))])


# ---------------------------------------------------------------- histograms


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How the elements are distributed; bins: edges, their number, or the name of a rule of numpy.histogram."""
    return Summary(value=[Summary.Value(tag=name, histo=make_histogram(make_np(values).astype(float), bins, max_bins))])


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Sequence[float],
    bucket_counts: Sequence[float],
) -> Any:
    """A histogram that has been counted: `bucket_limits` are the right edges of `bucket_counts`."""
    counted = HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return Summary(value=[Summary.Value(tag=name, histo=counted)])


def make_histogram(values: np.ndarray, bins: Any, max_bins: int | None = None) -> Any:
    """Counts between edges, without the empty ones at both ends; above `max_bins` of them, several are put together.

    Raises ValueError for no values, and for values that are all outside the edges.
    """
    if values.size == 0:
        raise ValueError("The input has no element.")
    values = values.reshape(-1)
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        together = len(counts) // max_bins
        starts = np.arange(0, len(counts), together)
        limits = np.append(limits[:-1:together], limits[-1])
        counts = np.add.reduceat(counts, starts)
    (full,) = np.nonzero(counts)
    if full.size == 0:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = full[0], full[-1]
    # TensorBoard draws from the left edge of a bucket that is empty.
    shown = np.concatenate([counts[first - 1 : first] if first > 0 else [0], counts[first : last + 1]])
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=len(values),
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits[first : last + 2].tolist(),
        bucket=shown.tolist(),
    )


# ---------------------------------------------------------------- pictures and sound


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """Values 0 to 255 of a picture of bytes, or of numbers from 0 to 1."""
    scale = 1 if array.dtype == np.uint8 else 255
    return (array.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def make_image(tensor: np.ndarray, rescale: float = 1, rois: Any = None, labels: Any = None) -> Any:
    """The Summary.Image of bytes (height, width, channels), with frames for the boxes `rois`."""
    height, width, channel = tensor.shape
    content = encoded(tensor, rescale, rois, labels)
    return Summary.Image(height=height, width=width, colorspace=channel, encoded_image_string=content)


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or several in a grid: bytes, or numbers from 0 to 1; dataformats says which dimension is what."""
    picture = convert_to_HWC(make_np(tensor), dataformats)
    return Summary(value=[Summary.Value(tag=tag, image=make_image(_as_bytes(picture), rescale=rescale))])


def image_boxes(
    tag: str, tensor_image: Any, tensor_boxes: Any, rescale: float = 1, dataformats: str = "CHW", labels: Any = None
) -> Any:
    """A picture with a frame for each of the boxes (N, 4: left, top, right, bottom)."""
    picture = convert_to_HWC(make_np(tensor_image), dataformats)
    made = make_image(_as_bytes(picture), rescale=rescale, rois=make_np(tensor_boxes), labels=labels)
    return Summary(value=[Summary.Value(tag=tag, image=made)])


def _prepare_video(V: np.ndarray) -> np.ndarray:
    """Videos (N, time, channels, height, width) side by side in one: (time, height, width, channels)."""
    count, time, channels, height, width = V.shape
    if V.dtype == np.uint8:
        V = np.float32(V) / 255.0
    full = 1 << (count - 1).bit_length()
    if full > count:
        V = np.concatenate([V, np.zeros((full - count, time, channels, height, width))])
    rows = 2 ** ((full.bit_length() - 1) // 2)
    V = V.reshape(rows, full // rows, time, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    return V.reshape(time, rows * height, full // rows * width, channels)


def make_video(tensor: np.ndarray, fps: float) -> Any:
    """The Summary.Image of a moving GIF of bytes (time, height, width, channels); None without the package moviepy."""
    try:
        from moviepy import editor as mpy
    except ImportError:
        try:
            import moviepy as mpy
        except ImportError:
            print("add_video needs package moviepy")
            return None
    _, height, width, channel = tensor.shape
    with tempfile.NamedTemporaryFile(suffix=".gif") as file:
        mpy.ImageSequenceClip(list(tensor), fps=fps).write_gif(file.name, logger=None)
        content = file.read()
    return Summary.Image(height=height, width=width, colorspace=channel, encoded_image_string=content)


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Videos (N, time, channels, height, width), side by side."""
    frames = _as_bytes(_prepare_video(make_np(tensor)))
    return Summary(value=[Summary.Value(tag=tag, image=make_video(frames, fps))])


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Sound of one channel: numbers from -1 to 1."""
    array = make_np(tensor)
    if abs(array).max() > 1:
        print("warning: audio amplitude out of range, auto clipped.")
        array = array.clip(-1, 1)
    array = array.squeeze()
    if array.ndim != 1:
        raise AssertionError("input tensor should be 1 dimensional.")
    samples = (array * np.iinfo(np.int16).max).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes(samples.data)
    made = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=samples.shape[-1],
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=made)])


# ---------------------------------------------------------------- text, curves, layouts


def text(tag: str, text: str) -> Any:
    """A text, which TensorBoard reads as Markdown."""
    proto = TensorProto(dtype="DT_STRING", string_val=[text.encode("utf_8")], tensor_shape=_shape([1]))
    content = TextPluginData(version=0).SerializeToString()
    return Summary(value=[Summary.Value(tag=tag + "/text_summary", metadata=_metadata("text", content), tensor=proto)])


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """A curve of precision over recall that has been computed: six numbers for each threshold (127 at most)."""
    data = np.stack((tp, fp, tn, fn, precision, recall))
    proto = TensorProto(dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(data.shape))
    content = PrCurvePluginData(version=0, num_thresholds=min(num_thresholds, 127)).SerializeToString()
    return Summary(value=[Summary.Value(tag=tag, metadata=_metadata("pr_curves", content), tensor=proto)])


def pr_curve(tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None) -> Any:
    """Precision over recall of `predictions` (0 to 1) for `labels` (0 or 1), arrays of one shape."""
    num_thresholds = min(num_thresholds, 127)  # what TensorBoard can read
    curve = compute_curve(labels, predictions, num_thresholds=num_thresholds, weights=weights)
    return pr_curve_raw(tag, *curve, num_thresholds=num_thresholds)


def compute_curve(labels: np.ndarray, predictions: np.ndarray, num_thresholds: int = 127, weights: Any = None) -> Any:
    """True and false positives, true and false negatives, precision and recall: (6, num_thresholds)."""
    weight = 1.0 if weights is None else weights
    bucket = np.int32(np.floor(predictions * (num_thresholds - 1)))
    truth = labels.astype(float)
    span = (0, num_thresholds - 1)

    def at_least(amount: np.ndarray) -> np.ndarray:
        """How much lies at or above each threshold."""
        return np.histogram(bucket, bins=num_thresholds, range=span, weights=amount)[0][::-1].cumsum()[::-1]

    tp, fp = at_least(truth * weight), at_least((1.0 - truth) * weight)
    tn, fn = fp[0] - fp, tp[0] - tp
    least = 1e-7  # no division by zero
    return np.stack((tp, fp, tn, fn, tp / np.maximum(least, tp + fp), tp / np.maximum(least, tp + fn)))


def custom_scalars(layout: dict[str, dict[str, list[Any]]]) -> Any:
    """Charts by category and title: ["Multiline", tags], or ["Margin", [value, lower, upper]]."""
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError("len(tags) != 3")
                series = layout_pb2.MarginChartContent.Series(value=tags[0], lower=tags[1], upper=tags[2])
                content = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            made.append(layout_pb2.Chart(title=title, **content))
        categories.append(layout_pb2.Category(title=category, chart=made))
    written = layout_pb2.Layout(category=categories).SerializeToString()
    proto = TensorProto(dtype="DT_STRING", string_val=[written], tensor_shape=TensorShapeProto())
    value = Summary.Value(tag="custom_scalars__config__", tensor=proto, metadata=_metadata("custom_scalars"))
    return Summary(value=[value])


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Any,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """Points in space (batch, N, 3), their colors (batch, N, 3) and the triangles between them (batch, M, 3)."""
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    config = json.dumps({} if config_dict is None else config_dict, sort_keys=True)
    parts = [(vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE), (colors, MeshPluginData.COLOR)]
    given = [(part, kind) for part, kind in parts if part is not None]
    components = metadata.get_components_bitmask([kind for _, kind in given])
    values = []
    for part, kind in given:
        array = make_np(part)
        proto = TensorProto(dtype="DT_FLOAT", float_val=array.reshape(-1).tolist(), tensor_shape=_shape(array.shape))
        about = metadata.create_summary_metadata(
            tag, display_name, kind, components, array.shape, description, json_config=config
        )
        values.append(Summary.Value(tag=metadata.get_instance_name(tag, kind), tensor=proto, metadata=about))
    return Summary(value=values)


# ---------------------------------------------------------------- hyperparameters


def _plugin_summary(tag: str, **content: Any) -> Any:
    from tensorboard.plugins.hparams.metadata import PLUGIN_DATA_VERSION, PLUGIN_NAME
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    data = HParamsPluginData(version=PLUGIN_DATA_VERSION, **content)
    return Summary(value=[Summary.Value(tag=tag, metadata=_metadata(PLUGIN_NAME, data.SerializeToString()))])


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """Three summaries of a run: which hyperparameters and metrics there are, this run's values, and that it has ended.

    hparam_dict: numbers, strings, bools and tensors of one element by name; None is left out. hparam_domain_discrete: all
    values that a hyperparameter has in any run. Raises TypeError and ValueError for what is none of this.
    """
    from tensorboard.plugins.hparams.api_pb2 import DataType, Experiment, HParamInfo, MetricInfo, MetricName, Status
    from tensorboard.plugins.hparams.metadata import EXPERIMENT_TAG, SESSION_END_INFO_TAG, SESSION_START_INFO_TAG
    from tensorboard.plugins.hparams.plugin_data_pb2 import SessionEndInfo, SessionStartInfo

    for name, given in (("hparam_dict", hparam_dict), ("metric_dict", metric_dict)):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    assert hparam_dict is not None and metric_dict is not None
    domains = hparam_domain_discrete or {}
    if not isinstance(domains, dict):
        raise TypeError("parameter: hparam_domain_discrete should be a dictionary, nothing logged.")
    for name, domain in domains.items():
        same = isinstance(domain, list) and name in hparam_dict
        if not (same and all(isinstance(value, type(hparam_dict[name])) for value in domain)):
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}].")

    start = SessionStartInfo()
    infos = []
    for name, value in hparam_dict.items():
        if value is None:
            continue
        domain = None
        if isinstance(value, (int, float)):  # bools too
            start.hparams[name].number_value = value
            kind = DataType.Value("DATA_TYPE_FLOAT64")
            domain = [struct_pb2.Value(number_value=each) for each in domains.get(name, ())]
        elif isinstance(value, str):
            start.hparams[name].string_value = value
            kind = DataType.Value("DATA_TYPE_STRING")
            domain = [struct_pb2.Value(string_value=each) for each in domains.get(name, ())]
        elif isinstance(value, torch.Tensor):
            start.hparams[name].number_value = make_np(value)[0]
            kind = DataType.Value("DATA_TYPE_FLOAT64")
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        discrete = struct_pb2.ListValue(values=domain) if name in domains and domain is not None else None
        infos.append(HParamInfo(name=name, type=kind, domain_discrete=discrete))
    metrics = [MetricInfo(name=MetricName(tag=name)) for name in metric_dict]
    ended = SessionEndInfo(status=Status.Value("STATUS_SUCCESS"))
    return (
        _plugin_summary(EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=metrics)),
        _plugin_summary(SESSION_START_INFO_TAG, session_start_info=start),
        _plugin_summary(SESSION_END_INFO_TAG, session_end_info=ended),
    )
