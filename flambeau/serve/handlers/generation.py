"""Generated text, by a batch that requests enter and leave while it is computed: continuous batching.

Each sequence has a row of the caches of keys and values, which are filled up on the left, so that new tokens of all rows come
at one place. New prompts are computed by themselves and then join. Stands on the public tensors; used by models, and by
handlers (TextModel).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.serve.answers import Answer, Item, Refused, error
from flambeau.serve.handlers import completions
from flambeau.serve.handlers.completions import Asked
from flambeau.serve.service import Continuous, failure

log = logging.getLogger(__name__)
Cache = list[tuple[torch.Tensor, torch.Tensor]]


class TextModel:
    """What a handler for generated text provides: a tokenizer, and a decoder with a cache."""

    end_tokens: frozenset[int] = frozenset()
    max_length = 1024  # tokens of a prompt and its continuation
    words: int | None = None  # how many tokens there are, if the model says so

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, tokens: list[int]) -> str:
        raise NotImplementedError

    def prompt(self, messages: list[dict[str, Any]]) -> str:
        """The text that a conversation is continued from."""
        lines = [f"{message['role']}: {message['content']}" for message in messages]
        return "\n".join([*lines, "assistant:"])

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        """Logits (N, T, words) of tokens (N, T), and the cache with their keys and values.

        mask: (N, S + T), 1 for tokens and 0 for filling. positions: (N, T), of each token in its own text. cache: of the S tokens
        before, per layer two tensors (N, heads, S, width), or None.
        """
        raise NotImplementedError


@dataclasses.dataclass(eq=False, slots=True)
class Text:
    """A text that is being continued."""

    job: Job
    index: int  # of the choice in its answer
    prompt: list[int]
    asked: Asked
    generator: torch.Generator | None
    tokens: list[int] = dataclasses.field(default_factory=list)
    sent: int = 0  # characters that were streamed
    text: str = ""
    ended: str = ""

    def length(self) -> int:
        return len(self.prompt) + len(self.tokens)


@dataclasses.dataclass(eq=False, slots=True)
class Job:
    """A request and its choices."""

    item: Item
    asked: Asked
    sequences: list[Text] = dataclasses.field(default_factory=list)


class GenerationService(Continuous):
    """Continues texts of many requests at once."""

    routes = frozenset({"predict", "completions", "chat"})

    def __init__(self, model: TextModel, most: int) -> None:
        self.model, self.max_batch_size = model, most
        self.jobs: dict[str, Job] = {}
        self.waiting: list[Text] = []
        self.active: list[Text] = []
        self.cache: Cache = []
        self.mask: torch.Tensor | None = None  # (N, S) of the cache

    # -- requests

    def admit(self, item: Item) -> Answer | None:
        try:
            asked = completions.read(item)
            prompts = [self.tokens_of(prompt) for prompt in asked.prompts]
            for tokens in prompts:
                if not tokens:
                    raise Refused(400, "the prompt is empty")
                if len(tokens) >= self.model.max_length:
                    raise Refused(400, f"the prompt has {len(tokens)} tokens; the model takes {self.model.max_length - 1}")
        except Refused as refusal:
            return error(refusal.status, str(refusal), item.route)
        job = self.jobs[item.id] = Job(item, asked)
        for index, tokens in enumerate(tokens for tokens in prompts for _ in range(asked.choices)):
            generator = None
            if asked.temperature > 0:
                generator = torch.Generator()
                if asked.seed is None:
                    generator.seed()
                else:
                    generator.manual_seed(asked.seed + index)
            job.sequences.append(Text(job, index, tokens, asked, generator))
        self.waiting += job.sequences
        return None

    def tokens_of(self, prompt: Any) -> list[int]:
        """The tokens of a text, a list of messages, or of itself; Refused for what the model has none for."""
        if not isinstance(prompt, str) and not isinstance(prompt[0], dict):
            if self.model.words is not None and max(prompt) >= self.model.words:
                raise Refused(400, f"the model has tokens up to {self.model.words - 1}; {max(prompt)} is none")
            return list(prompt)
        try:
            return self.model.encode(prompt if isinstance(prompt, str) else self.model.prompt(prompt))
        except Exception as problem:  # a template that wants roles in turns, half a character
            log.warning("a prompt was refused", exc_info=problem)
            raise Refused(400, f"the model takes no such prompt: {(str(problem).splitlines() or [''])[0][:200]}") from None

    def cancel(self, ids: set[str]) -> None:
        gone = {id(sequence) for key in ids if key in self.jobs for sequence in self.jobs.pop(key).sequences}
        self.waiting = [sequence for sequence in self.waiting if id(sequence) not in gone]
        self.keep([at for at, sequence in enumerate(self.active) if id(sequence) not in gone])

    def busy(self) -> bool:
        return bool(self.waiting or self.active)

    def fail(self) -> list[str]:
        ids = list(self.jobs)
        self.jobs, self.waiting, self.active, self.cache, self.mask = {}, [], [], [], None
        return ids

    # -- computing

    def step(self, ready: list[tuple[str, Answer]]) -> None:
        """One token more for every active text; first what waits is let in, as far as there is room."""
        with torch.inference_mode():
            room = self.max_batch_size - len(self.active)
            if self.waiting and room > 0:
                entering, self.waiting = self.waiting[:room], self.waiting[room:]
                self.let_in(entering, ready)
            else:
                self.advance()
        for sequence in self.active:
            self.progress(sequence, ready)
        self.keep([at for at, sequence in enumerate(self.active) if not sequence.ended])

    def let_in(self, sequences: list[Text], ready: list[tuple[str, Answer]]) -> None:
        """Take texts into the batch. Where that fails, each by itself: those that are in it and those beside one go on."""
        try:
            self.enter(sequences)
        except Exception as problem:
            if len(sequences) > 1:
                for sequence in sequences:
                    if sequence.job.item.id in self.jobs:
                        self.let_in([sequence], ready)
                return
            item = sequences[0].job.item
            self.cancel({item.id})
            ready.append((item.id, failure([item], problem, "model")[0]))

    def enter(self, sequences: list[Text]) -> None:
        """Compute prompts, and put their caches beside those that are there."""
        longest = max(len(sequence.prompt) for sequence in sequences)
        tokens = torch.zeros(len(sequences), longest, dtype=torch.int64)
        mask = torch.zeros(len(sequences), longest, dtype=torch.int64)
        for at, sequence in enumerate(sequences):
            tokens[at, longest - len(sequence.prompt) :] = torch.tensor(sequence.prompt)
            mask[at, longest - len(sequence.prompt) :] = 1
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits, cache = self.model.forward(tokens, mask, positions, None)
        self.choose(sequences, logits[:, -1])
        if self.active and self.mask is not None:
            width = max(self.mask.shape[1], longest)
            self.mask = torch.cat([widened(self.mask, width, 1), widened(mask, width, 1)])
            self.cache = [
                (
                    torch.cat([widened(keys, width, 2), widened(k, width, 2)]),
                    torch.cat([widened(values, width, 2), widened(v, width, 2)]),
                )
                for (keys, values), (k, v) in zip(self.cache, cache)
            ]
        else:
            self.mask, self.cache = mask, list(cache)
        self.active += sequences

    def advance(self) -> None:
        """The next token of all active texts."""
        assert self.mask is not None
        count = len(self.active)
        tokens = torch.tensor([[sequence.tokens[-1]] for sequence in self.active])
        positions = torch.tensor([[sequence.length() - 1] for sequence in self.active])
        self.mask = torch.cat([self.mask, torch.ones(count, 1, dtype=torch.int64)], 1)
        logits, cache = self.model.forward(tokens, self.mask, positions, self.cache)
        self.cache = list(cache)
        self.choose(self.active, logits[:, -1])

    def choose(self, sequences: Sequence[Text], logits: torch.Tensor) -> None:
        """Take each text's next token from its row of logits."""
        greedy = logits.argmax(-1).tolist()
        for at, sequence in enumerate(sequences):
            token = greedy[at]
            if sequence.generator is not None:
                token = sampled(logits[at], sequence.asked, sequence.generator)
            sequence.tokens.append(token)

    def progress(self, sequence: Text, ready: list[tuple[str, Answer]]) -> None:
        """See whether a text has come to its end, and hand on what is new of it."""
        asked, job = sequence.asked, sequence.job
        ended = sequence.tokens[-1] in self.model.end_tokens
        shown = sequence.tokens[:-1] if ended else sequence.tokens
        if ended:
            sequence.ended = "stop"
        elif len(sequence.tokens) >= asked.max_tokens or sequence.length() >= self.model.max_length:
            sequence.ended = "length"
        if sequence.ended or asked.stream or asked.stop:  # nobody else looks at a text before its end
            sequence.text = self.model.decode(shown)
        found = [at for at in (sequence.text.find(stop) for stop in asked.stop) if at >= 0]
        if found:
            sequence.text, sequence.ended = sequence.text[: min(found)], "stop"
        if asked.stream:
            shown_to = len(sequence.text) if sequence.ended else completions.certain(sequence.text, asked.stop)
            if shown_to > sequence.sent or sequence.ended:
                part = sequence.text[sequence.sent : shown_to]
                first, sequence.sent = sequence.sent == 0, max(shown_to, sequence.sent)
                ready.append((job.item.id, completions.part(job.item, sequence.index, part, sequence.ended, first)))
        if sequence.ended and all(one.ended for one in job.sequences):
            self.jobs.pop(job.item.id, None)
            texts = [(one.text, one.ended) for one in job.sequences]
            usage = sum(len(one.prompt) for one in job.sequences[:: asked.choices]), sum(len(one.tokens) for one in job.sequences)
            ready.append((job.item.id, completions.whole(job.item, asked, texts, *usage)))

    def keep(self, places: list[int]) -> None:
        """Only these rows of the batch, and of the caches only what one of them needs."""
        if len(places) == len(self.active):
            return
        self.active = [self.active[at] for at in places]
        if not self.active or self.mask is None:
            self.mask, self.cache = None, []
            return
        rows = torch.tensor(places)
        self.mask = self.mask[rows]
        filled = self.mask.any(0).tolist()
        start = filled.index(True)
        self.mask = self.mask[:, start:].contiguous()
        self.cache = [(keys[rows, :, start:], values[rows, :, start:]) for keys, values in self.cache]

    def warm_up(self, sample: bytes | None) -> None:
        prompts = [self.model.encode("a"), self.model.encode("a b c")]
        for prompt in prompts:
            job = Job(Item("warm-up", "predict", b""), Asked([], 3))
            self.enter([Text(job, 0, prompt or [0], job.asked, None)])
        for _ in range(2):
            with torch.inference_mode():
                self.advance()
        self.fail()

    def metadata(self) -> dict[str, Any]:
        text = {"datatype": "BYTES", "shape": [1]}
        return {"inputs": [{"name": "prompt", **text}], "outputs": [{"name": "text", **text}]}


def widened(tensor: torch.Tensor, width: int, axis: int) -> torch.Tensor:
    """The tensor with zeros in front along an axis, up to a width."""
    missing = width - tensor.shape[axis]
    if missing <= 0:
        return tensor
    shape = [*tensor.shape]
    shape[axis] = missing
    return torch.cat([torch.zeros(shape, dtype=tensor.dtype), tensor], axis)


def sampled(logits: torch.Tensor, asked: Asked, generator: torch.Generator) -> int:
    """A token drawn from logits (words,), among the likeliest that have `top_p` of the probability together."""
    chances = torch.softmax(logits.float() / asked.temperature, -1)
    if asked.top_p < 1:
        ordered, places = chances.sort(descending=True)
        ordered[ordered.cumsum(-1) - ordered >= asked.top_p] = 0
        return int(places[torch.multinomial(ordered, 1, generator=generator)])
    return int(torch.multinomial(chances, 1, generator=generator))
