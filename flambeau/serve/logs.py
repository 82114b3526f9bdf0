"""Structured logs: a line of JSON per event, with the id of the request that it belongs to.

Stands on the standard library; used by server, app and host.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class AsJson(logging.Formatter):
    """A record as a line of JSON: time, level, message, and whatever else it carries."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "process": record.process,
        }
        found |= {key: value for key, value in vars(record).items() if key not in _KNOWN}
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class AsText(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        rest = "".join(f" {key}={value}" for key, value in vars(record).items() if key not in _KNOWN)
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        text = f"{when} {record.levelname.lower():7} {record.getMessage()}{rest}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def set_up(form: str) -> None:
    """Write the logs of this process to standard error, as "json" or "text"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(AsJson() if form == "json" else AsText())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("flambeau.serve", "torch.serve"):  # what this room is called where `import torch` means flambeau
        logging.getLogger(name).setLevel(logging.INFO)


class AccessLog:
    """A line per request. Lines are gathered and written together, a few times a second."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.lines: list[str] = []

    def write(self, id: str, method: str, path: str, status: int, seconds: float, model: str, version: str) -> None:
        now, took = time.time(), seconds * 1e3
        if self.form == "json":
            # what clients choose is quoted; the rest are numbers, and names of which letters are known
            self.lines.append(
                f'{{"time":{now:.3f},"level":"info","message":"request","request":{json.dumps(id)},"method":{json.dumps(method)},'
                f'"path":{json.dumps(path)},"status":{status},"ms":{took:.2f},"model":"{model}","version":"{version}"}}\n'
            )
        else:
            self.lines.append(f"{now:.3f} {id} {method} {json.dumps(path)} {status} {took:.2f} ms {model} {version}\n")

    def flush(self) -> None:
        lines, self.lines = self.lines, []
        if lines:
            sys.stderr.write("".join(lines))
            sys.stderr.flush()
