"""Handlers in files of Python: found, initialized, and called with batches of requests.

A file has a class with `handle(data, context)` (TorchServe's form), a function of that name or of one that is given, a class
with `encode(texts)` (vectors of texts), or a `TextModel` (generated text). Stands on torchserve and module_files; used by models.
"""

from __future__ import annotations

import email.parser
import email.policy
import json
import os
import types
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.serve import json_bodies
from flambeau.serve.answers import JSON, Answer, Item, Refused, as_json, error
from flambeau.serve.handlers import torchserve
from flambeau.serve.handlers.base import Context, PredictionException
from flambeau.serve.handlers.module_files import classes_of, module_of
from flambeau.serve.service import Service, attempt, failure

MOST_FIELDS = 64  # of a form


def handler_in(path: str, name: str | None, kinds: Sequence[str] = ("handle", "encode", "forward")) -> Any:
    """The handler of a file: the class `name`, the only class with one of these methods, or the module where it has `handle`."""
    torchserve.offer_names()
    module = module_of(path)
    if name:
        found = getattr(module, name, None)
        if found is None:
            raise ValueError(f"{path} has no {name}")
        return found() if isinstance(found, type) else EntryPoint(found) if isinstance(found, types.FunctionType) else found
    classes = [
        one for one in classes_of(module)
        if any(callable(getattr(one, kind, None)) for kind in kinds) and not issubclass(one, torch.nn.Module)
    ]  # fmt: skip
    if len(classes) == 1:
        return classes[0]()
    if not classes and callable(getattr(module, "handle", None)):
        return EntryPoint(module.handle)
    raise ValueError(f"{path} has {len(classes)} classes that could be the handler: name one, `{os.path.basename(path)}:Class`")


class EntryPoint:
    """A function of a module, `function(data, context)`: called without data it loads the model."""

    def __init__(self, function: Any) -> None:
        self.handle = function

    def initialize(self, context: Context) -> None:
        self.handle(None, context)


def form_fields(body: bytes, kind: str) -> dict[str, Any]:
    """The fields of a form (multipart/form-data); Refused for what is none."""
    if "\r" in kind or "\n" in kind:
        raise Refused(400, "the content type is none")
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
        b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body
    )
    if not message.is_multipart():
        raise Refused(400, "the body is no multipart/form-data")
    fields = {}
    for part in message.iter_parts():  # type: ignore[attr-defined]
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            fields[name] = part.get_payload(decode=True)
        if len(fields) > MOST_FIELDS:
            raise Refused(413, f"a form has at most {MOST_FIELDS} fields")
    return fields


class PythonService(Service):
    """Requests handed to a handler in TorchServe's form."""

    def __init__(self, handler: Any, context: Context, most: int) -> None:
        self.handler, self.context, self.max_batch_size = handler, context, most
        if callable(getattr(handler, "initialize", None)):
            handler.initialize(context)

    def row(self, item: Item) -> dict[str, Any]:
        """What the handler gets of a request: JSON as a value, a form by its fields, anything else as bytes."""
        kind = item.type.partition(";")[0].strip().lower()
        if kind == "multipart/form-data":
            return form_fields(item.body, item.type)
        if kind == JSON:
            return {"body": json_bodies.read(item.body, item.depth)}
        return {"body": bytearray(item.body)}

    def answer(self, items: Sequence[Item]) -> list[Answer]:
        answers: list[Answer | None] = [None] * len(items)
        rows, places = [], []
        for at, item in enumerate(items):
            row = attempt(item, self.row, item)
            if isinstance(row, Answer):
                answers[at] = row
            else:
                rows.append(row)
                places.append(at)
        if rows:
            for at, answer in zip(places, self.run([items[at] for at in places], rows)):
                answers[at] = answer
        return [answer if answer is not None else error(500, "no answer", item.route) for answer, item in zip(answers, items)]

    def run(self, items: list[Item], rows: list[dict[str, Any]]) -> list[Answer]:
        """The handler's answers; where it fails for several, each is asked for by itself."""
        self.context.begin([item.request for item in items], [item.headers for item in items])
        try:
            found = self.handler.handle(rows, self.context)
            if not isinstance(found, (list, tuple)) or len(found) != len(rows):
                many = len(found) if isinstance(found, (list, tuple)) else type(found).__name__
                raise TypeError(f"the handler answered {len(rows)} requests by {many}: it returns a list of one answer each")
            return [self.written(at, value) for at, value in enumerate(found)]
        except Refused as refusal:
            if len(items) == 1:
                return [error(refusal.status, str(refusal), items[0].route)]
        except PredictionException as refusal:
            if len(items) == 1:
                self.context.set_response_status(refusal.error_code, idx=0)
                return [self.written(0, refusal.message)]
        except Exception as problem:
            if len(items) == 1:
                return failure(items, problem, "handler")
        return [answer for item, row in zip(items, rows) for answer in self.run([item], [row])]

    def written(self, at: int, value: Any) -> Answer:
        context = self.context
        status, headers = context.statuses.get(at, 200), context.headers.get(at, {})
        if type(status) is not int or not 200 <= status <= 599:
            raise ValueError(f"the handler set the status {status!r}; a response has one from 200 to 599")
        if isinstance(value, torch.Tensor):
            value = value.tolist()
        if isinstance(value, (bytes, bytearray)):
            body, kind = bytes(value), "application/octet-stream"
        elif isinstance(value, str):
            body, kind = value.encode(), "text/plain; charset=utf-8"
        else:
            body, kind = as_json(value), JSON
        return Answer(body, status, str(context.types.get(at, kind)), {key: str(value) for key, value in headers.items()})

    def warm_up(self, sample: bytes | None) -> None:
        if sample is None:
            return
        item = Item("warm-up", "predict", sample, type=JSON if is_json(sample) else "application/octet-stream")
        for size in sorted({1, self.max_batch_size}):
            self.run([item] * size, [self.row(item) for _ in range(size)])


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True
