"""Names that programs and other libraries' loaders import from torch.utils.data._utils."""

import atexit

from flambeau.utils.data._utils import collate, fetch, pin_memory, signal_handling, worker

__all__ = ["HAS_NUMPY", "IS_WINDOWS", "MP_STATUS_CHECK_INTERVAL", "collate", "fetch", "pin_memory", "signal_handling", "worker"]

HAS_NUMPY = True
IS_WINDOWS = False
#: Seconds between looks at whether the other side of a queue still lives.
MP_STATUS_CHECK_INTERVAL = worker.PATIENCE
#: Whether the interpreter is ending.
python_exit_status = False


@atexit.register
def _set_python_exit_flag() -> None:
    global python_exit_status
    python_exit_status = True
