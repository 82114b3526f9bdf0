"""Texts to vectors and to labels: requests with texts, put together for one call of a function of a list of texts.

Stands on tensors; used by models.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.serve import json_bodies
from flambeau.serve.answers import Answer, Item, Refused, as_json, error
from flambeau.serve.handlers.tensors import KServe
from flambeau.serve.service import Service, attempt, failure

MOST_TEXTS = 2048  # of a request, as OpenAI's
ENOUGH = 8  # texts to a call: more of another length cost more in filling up than a call costs


def texts_of(content: Any) -> tuple[list[str], bool]:
    """The texts that a request asks for, and whether it is a list of them."""
    if isinstance(content, dict):
        for key in ("input", "inputs", "sentences", "instances"):
            if key in content:
                content = content[key]
                break
    if isinstance(content, str):
        return [content], False
    if isinstance(content, list) and content and all(isinstance(text, str) for text in content):
        if len(content) > MOST_TEXTS:
            raise Refused(413, f"a request has at most {MOST_TEXTS} texts")
        return content, True
    if isinstance(content, list) and content and all(isinstance(one, (int, list)) for one in content):
        raise Refused(400, "tokens aren't taken: send texts")
    raise Refused(400, 'expected a text or a list of texts, or {"input": ...} with these')


def of_like_length(texts: Sequence[str]) -> list[list[int]]:
    """The places of texts, the shortest first, in groups for one call each, in which texts are filled up to the longest: from
    ENOUGH texts on, a group takes none that is more than a quarter longer than its first.
    """
    groups: list[list[int]] = []
    for at in sorted(range(len(texts)), key=lambda at: len(texts[at])):
        if not groups or (len(groups[-1]) >= ENOUGH and 4 * len(texts[at]) > 5 * len(texts[groups[-1][0]])):
            groups.append([])
        groups[-1].append(at)
    return groups


class TextService(Service):
    """A function of texts: a row of a tensor for each (`vectors`), or whatever JSON holds."""

    def __init__(self, function: Callable[[list[str]], Any], most: int, vectors: bool, count: Callable[[str], int] | None = None):
        self.function, self.max_batch_size, self.vectors = function, most, vectors
        self.count = count or (lambda text: len(text.split()))
        self.routes = frozenset({"predict", "kserve", "embeddings"} if vectors else {"predict", "kserve"})

    def read(self, item: Item) -> tuple[list[str], Callable[[list[Any]], Answer]]:
        """The texts of a request, and how its answer is written."""
        if item.route == "kserve":
            request = KServe(item)
            texts = [text for value in request.inputs.values() if isinstance(value, list) for text in value]
            if len(request.inputs) != 1 or not texts:
                raise Refused(400, "the only input is of datatype BYTES, with texts")
            return texts, lambda found: request.respond(item, [("output", self.together(found))])
        if item.type.startswith("text/plain"):
            try:
                return [item.body.decode()], lambda found: Answer(as_json(listed(found[0])))
            except UnicodeDecodeError:
                raise Refused(400, "the text isn't UTF-8") from None
        content = json_bodies.read(item.body, item.depth)
        if item.route == "embeddings":
            if not isinstance(content, dict) or "input" not in content:
                raise Refused(400, 'expected {"model": ..., "input": ...}')
            form, dimensions = content.get("encoding_format", "float"), content.get("dimensions")
            if form not in ("float", "base64"):
                raise Refused(400, "encoding_format is float or base64")
            if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
                raise Refused(400, "dimensions is a positive number")
            texts, _ = texts_of(content)
            return texts, lambda found: self.openai(item, texts, found, form, dimensions)
        texts, many = texts_of(content)
        return texts, lambda found: Answer(as_json([listed(one) for one in found] if many else listed(found[0])))

    def together(self, found: list[Any]) -> Any:
        return torch.stack(found) if self.vectors else [as_json(one).decode() for one in found]

    def openai(self, item: Item, texts: list[str], found: list[Any], form: str, dimensions: int | None) -> Answer:
        data = []
        for index, vector in enumerate(found):
            if dimensions is not None and dimensions != len(vector):
                if dimensions > len(vector):
                    raise Refused(400, f"the model has {len(vector)} dimensions")
                vector = torch.nn.functional.normalize(vector[:dimensions], dim=0)
            numbers = vector.detach().numpy().astype(np.float32)
            value = base64.b64encode(numbers.tobytes()).decode() if form == "base64" else numbers.tolist()
            data.append({"object": "embedding", "index": index, "embedding": value})
        tokens = sum(self.count(text) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return Answer(as_json({"object": "list", "data": data, "model": item.model, "usage": usage}))

    def answer(self, items: Sequence[Item]) -> list[Answer]:
        answers: list[Answer | None] = [None] * len(items)
        asked = []
        for at, item in enumerate(items):
            request = attempt(item, self.read, item)
            if isinstance(request, Answer):
                answers[at] = request
            else:
                asked.append((at, item, *request))
        found = self.computed([(item, texts) for _, item, texts, _ in asked])
        for (at, item, _, write), own in zip(asked, found):
            answers[at] = own if isinstance(own, Answer) else attempt(item, write, own)
        return [answer if answer is not None else error(500, "no answer", item.route) for answer, item in zip(answers, items)]

    def computed(self, asked: list[tuple[Item, list[str]]]) -> list[list[Any] | Answer]:
        """The results of each request's texts; an answer that says so for one that fails."""
        if not asked:
            return []
        texts = [text for _, own in asked for text in own]
        found: list[Any] = [None] * len(texts)
        try:
            for group in of_like_length(texts):
                with torch.inference_mode():
                    results = list(self.function([texts[at] for at in group]))
                if len(results) != len(group):
                    raise TypeError(f"{len(results)} results for {len(group)} texts")
                for at, result in zip(group, results):
                    found[at] = result
        except Exception as problem:
            if len(asked) > 1:
                return [answer for one in asked for answer in self.computed([one])]
            return [*failure([asked[0][0]], problem, "model")]
        answers: list[list[Any] | Answer] = []
        at = 0
        for _, own in asked:
            answers.append(found[at : at + len(own)])
            at += len(own)
        return answers

    def warm_up(self, sample: bytes | None) -> None:
        """The sample, else two texts, alone and together; and as many short ones as a batch has, which are computed soon."""
        texts = texts_of(json_bodies.read(sample, 64))[0] if sample is not None else ["One.", "A text that is a little longer."]
        shortest = min(texts, key=len)
        with torch.inference_mode():
            list(self.function(texts[:1]))
            if self.max_batch_size > 1:
                list(self.function((texts * 2)[:2]))
                list(self.function([shortest] * self.max_batch_size))

    def metadata(self) -> dict[str, object]:
        output = {"name": "output", "datatype": "FP32" if self.vectors else "BYTES", "shape": [-1, -1] if self.vectors else [-1]}
        return {"inputs": [{"name": "input", "datatype": "BYTES", "shape": [-1]}], "outputs": [output]}


def listed(value: Any) -> Any:
    """A result for JSON."""
    return value.tolist() if isinstance(value, torch.Tensor) else value
