"""Folders of sentence-transformers and transformers, by the name of their task. Those libraries are imported here, in workers
only.

Stands on texts and generation; used by models.
"""

from __future__ import annotations

import json
import os
from typing import Any

import flambeau as torch
from flambeau.serve.handlers.generation import Cache, GenerationService, TextModel
from flambeau.serve.handlers.texts import TextService
from flambeau.serve.service import Service

PIPELINES = (
    "text-classification",
    "token-classification",
    "fill-mask",
    "summarization",
    "translation",
    "zero-shot-classification",
)
TASKS = ("sentence-embedding", "text-generation", *PIPELINES)


def task_of(folder: str) -> str:
    """The task of a folder, by what is in it; ValueError if that doesn't say."""
    if os.path.exists(os.path.join(folder, "modules.json")):
        return "sentence-embedding"
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            architectures = json.load(file).get("architectures") or []
    except (OSError, ValueError):
        raise ValueError(f"{folder} is neither sentence-transformers' (modules.json) nor transformers' (config.json)") from None
    for ending, task in (
        ("ForCausalLM", "text-generation"),
        ("LMHeadModel", "text-generation"),
        ("ForSequenceClassification", "text-classification"),
        ("ForTokenClassification", "token-classification"),
        ("ForMaskedLM", "fill-mask"),
    ):
        if any(str(name).endswith(ending) for name in architectures):
            return task
    raise ValueError(f"the task of {folder} isn't to be seen ({architectures}): say --task, one of {', '.join(TASKS)}")


def service_of(folder: str, task: str | None, most: int | None) -> Service:
    """What serves a folder. Files are read from the folder only; nothing is downloaded."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ[name] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads don't survive the fork
    task = task or task_of(folder)
    if task == "sentence-embedding":
        return sentences(folder, most or 32)
    if task == "text-generation":
        return GenerationService(TransformersText(folder), most or 8)
    if task in PIPELINES:
        from transformers import pipeline

        run = pipeline(task, model=folder, tokenizer=folder, device="cpu")
        rows = most or 32
        return TextService(lambda texts: run(texts, batch_size=rows), rows, vectors=False)
    raise ValueError(f"there is no task {task!r}; there are {', '.join(TASKS)}")


def sentences(folder: str, most: int) -> TextService:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu", local_files_only=True)

    def encode(texts: list[str]) -> torch.Tensor:
        return model.encode(texts, batch_size=most, convert_to_tensor=True, show_progress_bar=False)

    return TextService(encode, most, vectors=True, count=lambda text: len(model.tokenizer(text)["input_ids"]))


class TransformersText(TextModel):
    """A causal language model of transformers."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        self.new_cache = DynamicCache
        config = self.model.generation_config
        ends = config.eos_token_id if config.eos_token_id is not None else self.tokenizer.eos_token_id
        self.end_tokens = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])
        self.max_length = int(getattr(self.model.config, "max_position_embeddings", 0) or 2048)
        self.words = int(self.model.get_input_embeddings().num_embeddings)

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text)["input_ids"])

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def prompt(self, messages: list[dict[str, Any]]) -> str:
        if getattr(self.tokenizer, "chat_template", None):
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        return super().prompt(messages)

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        past = self.new_cache()
        for layer, (keys, values) in enumerate(cache or ()):
            past.update(keys, values, layer)
        answer = self.model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, past_key_values=past, use_cache=True, logits_to_keep=1
        )
        return answer.logits, [(layer.keys, layer.values) for layer in answer.past_key_values.layers]
