"""OpenAI's forms of generated text: requests for completions and chats, their answers, and the parts of a stream.

Stands on answers and json_bodies; used by generation.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

from flambeau.serve import json_bodies
from flambeau.serve.answers import Answer, Item, Refused, as_json

STREAM = "text/event-stream; charset=utf-8"
MOST_CHOICES = 16
# what changes an answer in ways that aren't there: refused unless it asks for nothing
NOT_THERE: dict[str, tuple[Any, ...]] = {
    "logprobs": (None, False), "top_logprobs": (None,), "echo": (None, False), "best_of": (None, 1), "suffix": (None, ""),
    "logit_bias": (None, {}), "presence_penalty": (None, 0), "frequency_penalty": (None, 0), "tools": (None, []),
    "functions": (None, []), "response_format": (None, {"type": "text"}),
}  # fmt: skip


@dataclasses.dataclass(slots=True)
class Asked:
    """What a request asks for."""

    prompts: list[Any]  # texts, lists of tokens, lists of messages
    max_tokens: int = 16
    temperature: float = 0.0
    top_p: float = 1.0
    stop: list[str] = dataclasses.field(default_factory=list)
    seed: int | None = None
    choices: int = 1
    stream: bool = False
    usage: bool = False  # whether a stream ends with the numbers of tokens


def read(item: Item) -> Asked:
    """What a request asks for; Refused for what can't be."""
    if item.route == "predict" and item.type.startswith("text/plain"):
        return Asked([item.body.decode(errors="replace")], 64)
    content = json_bodies.read(item.body, item.depth)
    if isinstance(content, str):
        content = {"prompt": content}
    if not isinstance(content, dict):
        raise Refused(400, "the body is an object")
    if item.route == "predict":
        content = {**content, **(content["parameters"] if isinstance(content.get("parameters"), dict) else {})}
        content.setdefault("prompt", content.get("inputs"))
        content.setdefault("max_tokens", content.get("max_new_tokens", 64))
        content.setdefault("temperature", 0)
        content["stream"] = False
    for key, neutral in NOT_THERE.items():
        if key in content and content[key] not in neutral:
            raise Refused(400, f"{key} is not implemented here: leave it out")
    options = content.get("stream_options")
    stop = content.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or len(stops) > 16 or not all(isinstance(one, str) and one for one in stops):
        raise Refused(400, "stop is a text or a list of up to 16")
    limit = content.get("max_completion_tokens", content.get("max_tokens"))
    default = 16 if item.route == "completions" else 256
    return Asked(
        prompts(item, content),
        max_tokens=int(number(limit, "max_tokens", 1, 1 << 20, whole=True, default=default)),
        temperature=number(content.get("temperature"), "temperature", 0, 2, default=1.0),
        top_p=number(content.get("top_p"), "top_p", 0, 1, default=1.0),
        stop=stops,
        seed=None if content.get("seed") is None else int(number(content["seed"], "seed", -(2**63), 2**63 - 1, whole=True)),
        choices=int(number(content.get("n"), "n", 1, MOST_CHOICES, whole=True, default=1)),
        stream=flag(content.get("stream"), "stream"),
        usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def flag(value: Any, name: str) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise Refused(400, f"{name} is true or false")


def number(value: Any, name: str, least: float, most: float, whole: bool = False, default: float | None = None) -> float:
    if value is None and default is not None:
        return default
    fine = type(value) is int or (not whole and type(value) is float and math.isfinite(value))
    if not fine or not least <= value <= most:
        raise Refused(400, f"{name} is a {'whole ' if whole else ''}number from {least} to {most}")
    return value


def prompts(item: Item, content: dict[str, Any]) -> list[Any]:
    if item.route == "chat":
        messages = content.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused(400, 'messages is a list of {"role": "user", "content": "..."}')
        return [[said(message) for message in messages]]
    prompt = content.get("prompt")
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and prompt and all(type(token) is int and 0 <= token < 1 << 31 for token in prompt):
        return [prompt]
    if isinstance(prompt, list) and 1 <= len(prompt) <= MOST_CHOICES and all(isinstance(text, str) for text in prompt):
        return prompt
    raise Refused(400, f"the prompt is a text, a list of up to {MOST_CHOICES} texts, or a list of tokens")


def said(message: Any) -> dict[str, Any]:
    """A message of a chat, whose content may come in parts; Refused for parts that are no texts."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Refused(400, 'a message is an object {"role": "user", "content": "..."}')
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    asked = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    texts = [text for text in asked if isinstance(text, str)]
    if len(texts) < len(parts):
        raise Refused(400, 'the content of a message is a text, or a list of {"type": "text", "text": "..."}')
    return {**message, "content": "".join(texts)}


def certain(text: str, stops: list[str]) -> int:
    """How many characters of a text can be shown: not those of an unfinished character, nor what a stop may begin with."""
    shown = len(text.rstrip("\ufffd"))
    for stop in stops:
        for size in range(min(len(stop) - 1, shown), 0, -1):
            if text.endswith(stop[:size], 0, shown):
                shown -= size
                break
    return shown


def head(item: Item, kind: str) -> dict[str, Any]:
    prefix = "chatcmpl" if item.route == "chat" else "cmpl"
    return {"id": f"{prefix}-{item.id}", "object": kind, "created": int(time.time()), "model": item.model}


def part(item: Item, index: int, text: str, ended: str, first: bool) -> Answer:
    """A part of a stream."""
    choice: dict[str, Any] = {"index": index, "finish_reason": ended or None}
    if item.route == "chat":
        delta: dict[str, Any] = {"role": "assistant"} if first else {}
        if text:
            delta["content"] = text
        body = {**head(item, "chat.completion.chunk"), "choices": [{**choice, "delta": delta}]}
    else:
        body = {**head(item, "text_completion"), "choices": [{**choice, "text": text, "logprobs": None}]}
    return Answer(b"data: " + as_json(body) + b"\n\n", type=STREAM, more=True)


def whole(item: Item, asked: Asked, texts: list[tuple[str, str]], prompt_tokens: int, tokens: int) -> Answer:
    """The answer, or the end of a stream."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}
    chat = item.route == "chat"
    if asked.stream:
        body = b""
        if asked.usage:
            chunk = head(item, "chat.completion.chunk" if chat else "text_completion")
            body = b"data: " + as_json({**chunk, "choices": [], "usage": usage}) + b"\n\n"
        return Answer(body + b"data: [DONE]\n\n", type=STREAM)
    if item.route == "predict":
        found = [{"generated_text": text, "finish_reason": ended} for text, ended in texts]
        return Answer(as_json(found[0] if len(found) == 1 else found))
    choices: list[dict[str, Any]] = []
    for index, (text, ended) in enumerate(texts):
        choice: dict[str, Any] = {"index": index, "finish_reason": ended, "logprobs": None}
        choices.append({**choice, "message": {"role": "assistant", "content": text}} if chat else {**choice, "text": text})
    return Answer(as_json({**head(item, "chat.completion" if chat else "text_completion"), "choices": choices, "usage": usage}))
