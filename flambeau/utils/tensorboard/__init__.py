"""torch.utils.tensorboard: event files for TensorBoard, written by the third-party package tensorboard.

`summary` makes the protocol buffers, `writer` puts them into files; `pictures`, `embedding`, `module_graph` and `arrays` are
what they need. Importing this room without tensorboard raises ImportError.
"""

import tensorboard as _package

if tuple(map(int, _package.__version__.split(".")[:2])) < (1, 15):
    raise ImportError("TensorBoard logging requires TensorBoard version 1.15 or above")

from tensorboard.summary.writer.record_writer import RecordWriter

from flambeau.utils.tensorboard import summary
from flambeau.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter", "summary"]
