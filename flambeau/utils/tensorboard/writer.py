"""SummaryWriter: a program's numbers, pictures and graphs in event files, which TensorBoard follows while they grow.

Stands on `summary` and the third-party package tensorboard, whose thread writes the files.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from flambeau.utils.tensorboard import summary
from flambeau.utils.tensorboard.arrays import make_np
from flambeau.utils.tensorboard.embedding import get_embedding_info, make_mat, make_sprite, make_tsv, write_pbtxt
from flambeau.utils.tensorboard.pictures import figure_to_image

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """An event file in the folder `log_dir`, to which summaries and graphs are added.

    max_queue: events that may wait to be written. flush_secs: how often the file is flushed. filename_suffix: of its name.
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = ""):
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an Event, at a step and a time in seconds (now)."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a Summary."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: tuple[Any, Any], walltime: float | None = None) -> None:
        """Write a graph: a GraphDef and its RunMetadata."""
        graph, stepstats = graph_profile
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)
        tagged = event_pb2.TaggedRunMetadata(tag="step1", run_metadata=stepstats.SerializeToString())
        self.add_event(event_pb2.Event(tagged_run_metadata=tagged), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a GraphDef that was made of a model of ONNX."""
        self.add_event(event_pb2.Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Write to a new file in the same folder."""
        self.event_writer.reopen()


def _default_bins() -> list[float]:
    """Edges from -1e20 to 1e20, each 1.1 times the one before, as TensorFlow's histograms have them."""
    positive = []
    edge = 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return [-edge for edge in reversed(positive)] + [0] + positive


class SummaryWriter:
    """Writes event files into a folder for TensorBoard.

    log_dir: the folder; by default runs/DATE_TIME_HOST with `comment` behind. purge_step: after a crash at a step, what was
    written from there on is hidden. max_queue, flush_secs, filename_suffix: of each FileWriter. A context, closed at its end.
    In every add_ method, tag is a name, global_step a number and walltime the time in seconds (now).
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ):
        if not log_dir:
            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[Any, FileWriter] | None = None
        self._get_file_writer()
        self.default_bins = _default_bins()

    # ---- files

    def _get_file_writer(self) -> FileWriter:
        """The writer of this folder, opened again if it was closed."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                self.file_writer.add_event(Event(step=step, session_log=SessionLog(status=SessionLog.START)))
        return self.file_writer

    def _open(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def get_logdir(self) -> Any:
        """The folder."""
        return self.log_dir

    def flush(self) -> None:
        """Write what waits, in all files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits and close all files; a later add_ method opens a new one."""
        if self.all_writers is None:
            return
        for writer in self.all_writers.values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _add(self, made: Any, global_step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(made, global_step, walltime)

    # ---- numbers

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number; new_style and double_precision: how it is stored."""
        made = summary.scalar(tag, scalar_value, new_style=new_style, double_precision=double_precision)
        self._add(made, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Add numbers that are shown in one chart, each in a file of its own in a folder below."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            path = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if path not in self.all_writers:
                self.all_writers[path] = self._open(path)
            self.all_writers[path].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a whole tensor."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add the distribution of a tensor's or an array's elements; bins: "tensorflow", or what numpy.histogram takes."""
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        self._add(summary.histogram(tag, values, bins, max_bins=max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram that has been counted: right edges and counts, of the same number. Raises ValueError otherwise."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Add a run's hyperparameters and final metrics, in a folder below (`run_name`, by default the time).

        Raises TypeError for what are no dicts.
        """
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for each in made:
                run._add(each, global_step, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    # ---- pictures and sound

    def add_image(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """Add a picture: bytes, or numbers from 0 to 1; dataformats: its dimensions, such as CHW, HWC or HW."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: Any = None, walltime: float | None = None, dataformats: str = "NCHW"
    ) -> None:
        """Add several pictures as one."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Add a picture with frames: box_tensor (N, 4: left, top, right, bottom), labels: a text for each."""
        if isinstance(labels, str):
            labels = [labels]
        if labels is not None and len(labels) != box_tensor.shape[0]:
            labels = None
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale=rescale, dataformats=dataformats, labels=labels)
        self._add(made, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Add what a matplotlib figure shows, or each of a list of figures, and close them."""
        picture = figure_to_image(figure, close)
        add = self.add_images if isinstance(figure, list) else self.add_image
        add(tag, picture, global_step, walltime, dataformats="NCHW" if isinstance(figure, list) else "CHW")

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Add videos (N, time, channels, height, width); needs the package moviepy."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self, tag: str, snd_tensor: Any, global_step: Any = None, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """Add sound of one channel: numbers from -1 to 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate=sample_rate), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Any = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add points in space (batch, N, 3), with their colors (batch, N, 3) and triangles (batch, M, 3)."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    # ---- text, curves, graphs

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a text, which TensorBoard reads as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add the curve of precision over recall of `predictions` (0 to 1) for `labels` (0 or 1)."""
        made = summary.pr_curve(tag, make_np(labels), make_np(predictions), num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Add a curve of precision over recall that has been computed."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        made = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        """Arrange charts of numbers: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Arrange one chart of several lines."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Arrange one chart of a line between two others: tags are value, lower and upper."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True) -> None:
        """Add the graph of the operators that one call of `model` makes, inside its modules. It is called for that."""
        from flambeau.utils.tensorboard.module_graph import graph

        self._get_file_writer().add_graph(graph(model, input_to_model, verbose, use_strict_trace))

    def add_onnx_graph(self, prototxt: str) -> None:
        """Raises NotImplementedError: models of ONNX aren't read."""
        raise NotImplementedError(
            "SummaryWriter.add_onnx_graph is not implemented in flambeau: use add_graph with the module itself"
        )

    @staticmethod
    def _encode(rawstr: str) -> str:
        """A tag as the name of a folder."""
        for character in "%/\\":
            rawstr = rawstr.replace(character, f"%{ord(character):02x}")
        return rawstr

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Add vectors (N, D) for the projector, with N labels (or rows under metadata_header) and N pictures."""
        mat = make_np(mat)
        global_step = 0 if global_step is None else global_step
        subdir = f"{str(global_step).zfill(5)}/{self._encode(tag)}"
        path = os.path.join(self._get_file_writer().get_logdir(), subdir)
        if os.path.isdir(path):
            print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
        os.makedirs(path, exist_ok=True)
        if metadata is not None:
            if mat.shape[0] != len(metadata):
                raise AssertionError("#labels should equal with #data points")
            make_tsv(metadata, path, metadata_header=metadata_header)
        if label_img is not None:
            if mat.shape[0] != label_img.shape[0]:
                raise AssertionError("#images should equal with #data points")
            make_sprite(label_img, path)
        if mat.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        make_mat(mat, path)
        if not hasattr(self, "_projector_config"):
            self._projector_config = ProjectorConfig()
        self._projector_config.embeddings.extend([get_embedding_info(metadata, label_img, subdir, global_step, tag)])
        from google.protobuf import text_format

        write_pbtxt(self._get_file_writer().get_logdir(), text_format.MessageToString(self._projector_config))
