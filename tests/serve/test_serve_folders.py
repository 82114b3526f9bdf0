"""Folders of transformers and sentence-transformers: their tasks, and, where the library is there, a small network's texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flambeau.serve.handlers.tasks import service_of, task_of


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("LlamaForCausalLM", "text-generation"),
        ("GPT2LMHeadModel", "text-generation"),
        ("BertForSequenceClassification", "text-classification"),
        ("BertForTokenClassification", "token-classification"),
        ("BertForMaskedLM", "fill-mask"),
    ],
)
def test_the_task_of_a_folder(tmp_path: Path, architecture: str, task: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    assert task_of(str(tmp_path)) == task
    (tmp_path / "modules.json").write_text("[]")
    assert task_of(str(tmp_path)) == "sentence-embedding"


def test_folders_that_do_not_say(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither"):
        task_of(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["OwnNet"]}))
    with pytest.raises(ValueError, match="say --task"):
        task_of(str(tmp_path))
    with pytest.raises(ValueError, match="there is no task 'guess'"):
        service_of(str(tmp_path), "guess", None)
