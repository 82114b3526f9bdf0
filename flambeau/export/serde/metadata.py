"""What nodes know besides their calls (where they come from), as the texts of the format, and back.

Stands on fx.traceback; used by reading and writing.
"""

from __future__ import annotations

import json
from types import FunctionType
from typing import Any

import flambeau as torch
from flambeau.export.serde.targets import name_of, operator_of
from flambeau.export.serde.text import SerializeError, parsed
from flambeau.fx.names import _get_qualified_name
from flambeau.fx.node import Node
from flambeau.fx.traceback import NodeSource

__all__ = ["meta_of", "text_of"]

_BETWEEN = ";"


# ---------------------------------------------------------------- writing


def text_of(node: Node) -> dict[str, str]:
    """A node's stack trace, modules, public function, own notes and sources. SerializeError for notes that JSON can't have."""
    meta, made = node.meta, {}
    if meta.get("stack_trace"):
        made["stack_trace"] = meta["stack_trace"]
    if meta.get("nn_module_stack"):
        made["nn_module_stack"] = _BETWEEN.join(f"{key},{path},{kind}" for key, (path, kind) in meta["nn_module_stack"].items())
    if meta.get("source_fn_stack"):
        made["source_fn_stack"] = _BETWEEN.join(f"{name},{_called(function)}" for name, function in meta["source_fn_stack"])
    if meta.get("torch_fn"):
        made["torch_fn"] = _BETWEEN.join(meta["torch_fn"])
    if meta.get("custom"):
        made["custom"] = custom_text(meta["custom"], f"node {node.name}")
    if "from_node" in meta:
        made["from_node"] = json.dumps([source.to_dict() for source in meta["from_node"] or [] if isinstance(source, NodeSource)])
    return made


def _called(function: Any) -> str:
    if isinstance(function, str):
        return function
    try:
        return name_of(function)
    except SerializeError:
        return _get_qualified_name(function)


def custom_text(custom: Any, what: str) -> str:
    """A program's own notes as JSON. SerializeError where they can't be."""
    try:
        return json.dumps(custom)
    except (TypeError, ValueError) as error:
        raise SerializeError(f"Failed to serialize custom metadata for {what} with error {error}") from None


# ---------------------------------------------------------------- reading


def meta_of(metadata: dict[str, str]) -> dict[str, Any]:
    """What the texts say. Functions of source_fn_stack that aren't public ones of torch stay texts. SerializeError for texts that
    say nothing."""
    made: dict[str, Any] = {}
    if metadata.get("stack_trace"):
        made["stack_trace"] = metadata["stack_trace"]
    if metadata.get("nn_module_stack"):
        made["nn_module_stack"] = dict(map(_module, metadata["nn_module_stack"].split(_BETWEEN)))
    if metadata.get("source_fn_stack"):
        made["source_fn_stack"] = list(map(_source, metadata["source_fn_stack"].split(_BETWEEN)))
    if metadata.get("torch_fn"):
        made["torch_fn"] = tuple(metadata["torch_fn"].split(_BETWEEN))
    if metadata.get("custom"):
        made["custom"] = parsed(metadata["custom"], "the metadata of a node")
    if metadata.get("from_node"):
        made["from_node"] = _sources(parsed(metadata["from_node"], "the sources of a node"))
    return made


def _module(text: str) -> tuple[str, tuple[str, str]]:
    """(key, (path, class)) of one entry; commas in brackets are part of a class's name."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if len(parts) != 3:
        raise SerializeError(f"the module stack of a node must have three parts, got {text[:80]!r}")
    return parts[0], (parts[1], parts[2])


def _source(text: str) -> tuple[str, Any]:
    name, comma, function = text.partition(",")
    if not comma:
        raise SerializeError(f"a source function of a node must have two parts, got {text[:80]!r}")
    try:
        return name, operator_of(function)
    except SerializeError:
        return name, _public(function)


def _public(text: str) -> Any:
    """The module class or the function of torch, torch.nn or torch.nn.functional that is called so; the text if none is."""
    name = text.rpartition(".")[2]
    for room in (torch.nn, torch.nn.functional, torch):
        found = vars(room).get(name)
        if isinstance(found, (type, FunctionType)) and text.startswith("torch.") and _get_qualified_name(found) == text:
            return found
    return text


_TEXTS = ("name", "target", "pass_name", "action")


def _sources(data: Any) -> list[NodeSource] | None:
    if data is None:
        return None
    if not isinstance(data, list):
        raise SerializeError(f"the sources of a node must be a list, got {type(data).__name__}")
    for entry in data:
        _check_source(entry)
    try:
        return [source for entry in data if (source := NodeSource._from_dict(entry)) is not None]
    except KeyError as error:
        raise SerializeError(f"unknown action {error} of a pass") from None


def _check_source(entry: Any) -> None:
    if entry is None:
        return
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name, ""), str) for name in _TEXTS):
        raise SerializeError("the source of a node must be an object of texts")
    if not isinstance(entry.get("graph_id", 0), int) or not isinstance(entry.get("from_node", []), list):
        raise SerializeError("the source of a node must have a number of its graph, and a list of its own sources")
    for inner in entry.get("from_node", []):
        _check_source(inner)
