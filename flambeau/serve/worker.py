"""A worker: reads batches of requests from its socket, has the service answer them, and writes the answers. One at a time.

Stands on frames and service; used by host, in whose forks it runs.
"""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Sequence
from typing import Any

from flambeau.serve.answers import Answer, Item
from flambeau.serve.frames import BEGUN, Connection, Frame
from flambeau.serve.service import Continuous, Service, failure
from flambeau.serve.settings import ModelSettings


def items_of(frame: Frame, settings: ModelSettings) -> list[Item]:
    header, parts = frame
    return [
        Item(
            one["id"], one["route"], body, one["type"], one["accept"], one["headers"], settings.name, settings.version,
            header.get("depth", 64), one["request"],
        )
        for one, body in zip(header["items"], parts)
    ]  # fmt: skip


def described(id: str, answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = {"id": id, "status": answer.status, "type": answer.type}
    if answer.headers:
        found["headers"] = answer.headers
    if answer.more:
        found["more"] = True
    return found


def send(connection: Connection, answers: Sequence[tuple[str, Answer]]) -> None:
    connection.send({"answers": [described(*one) for one in answers]}, [answer.body for _, answer in answers])


def work(sock: socket.socket, begun: mmap.mmap, service: Service, settings: ModelSettings) -> None:
    """Answer until the front end closes the connection. What dies with this process are the batches up to `begun`."""
    connection = Connection(sock)
    try:
        connection.send({"process": os.getpid(), "answers": []})
        if isinstance(service, Continuous):
            continuously(connection, begun, service, settings)
        while True:
            frame = connection.receive()
            if frame is None or "items" not in frame[0]:
                continue
            BEGUN.pack_into(begun, 0, frame[0]["batch"])
            items = items_of(frame, settings)
            try:
                answers = service.answer(items)
            except Exception as problem:
                answers = failure(items, problem, "model")
            send(connection, [(item.id, answer) for item, answer in zip(items, answers)])
    except EOFError:
        return


def continuously(connection: Connection, begun: mmap.mmap, service: Continuous, settings: ModelSettings) -> None:
    """Between steps, requests come in and others are given up."""
    items: dict[str, Item] = {}
    while True:
        frame = connection.receive(wait=not service.busy())
        while frame is not None:
            header = frame[0]
            if "cancel" in header:
                service.cancel(set(header["cancel"]))
                for id in header["cancel"]:
                    items.pop(id, None)
                connection.send({"answers": [], "cancelled": len(header["cancel"])})
            if "items" in header:
                BEGUN.pack_into(begun, 0, header["batch"])
            for item in items_of(frame, settings) if "items" in header else []:
                items[item.id] = item
                refused = service.admit(item)
                if refused is not None:
                    del items[item.id]
                    send(connection, [(item.id, refused)])
            frame = connection.receive(wait=False)
        if not service.busy():
            continue
        ready: list[tuple[str, Answer]] = []
        try:
            service.step(ready)
        except Exception as problem:
            ids = service.fail()
            ready += zip(ids, failure([items[id] for id in ids], problem, "model"))
        for id, answer in ready:
            if not answer.more:
                items.pop(id, None)
        if ready:
            send(connection, ready)
