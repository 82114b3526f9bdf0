"""`flambeau serve`: reads the command line and settings files, and runs the server.

Stands on settings, properties, archives and spawning; used by the command flambeau.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flambeau.serve import archives, properties, spawning
from flambeau.serve.settings import ModelSettings, ServerSettings, Wrong, converted, model_from_argument, read_file

EXTRA = ("starlette", "uvicorn", "httptools", "prometheus_client")


def parser() -> argparse.ArgumentParser:
    """The options: those of settings by their names, with hyphens."""
    made = argparse.ArgumentParser(
        prog="flambeau serve",
        description="Serve models over HTTP: exported programs (.pt2), TorchScript, archives (.mar), folders of "
        "sentence-transformers and transformers, and anything that a Python handler loads.",
        epilog="See docs/serving.md.",
    )
    made.add_argument(
        "models", nargs="*", metavar="[NAME=]PATH[@VERSION]", help="a file or folder; several versions of a name go together"
    )
    made.add_argument(
        "--config", metavar="FILE", help="settings, and models as tables [[model]], in TOML; or TorchServe's config.properties"
    )
    for cls, skipped in ((ModelSettings, {"name", "path", "version"}), (ServerSettings, set())):
        group = made.add_argument_group("each model" if cls is ModelSettings else "the server")
        for field in dataclasses.fields(cls):
            if field.name not in skipped:
                default = "" if field.default is None else f" (default: {field.default})"
                group.add_argument("--" + field.name.replace("_", "-"), metavar="X", help=HELP.get(field.name, "") + default)
    return made


HELP = {
    "task": "of a folder: sentence-embedding, text-generation, text-classification, ...",
    "handler": "a Python file, file.py:Class",
    "max_batch_size": "rows that are computed together",
    "max_batch_delay": "milliseconds that a batch waits for more while a worker is free",
    "workers": "processes that compute",
    "threads": "of one worker; the processors divided among them unless given",
    "queue_size": "requests that may wait; more are answered 429",
    "timeout": "seconds that a request may take",
    "batches_ahead": "batches that a worker may be sent at once",
    "sample": "a file with a request's body, for the warm-up",
    "host": "address of the inference port",
    "port": "0: one that is free",
    "model_store": "the folder that management loads models from",
    "token_file": "where the management token is written",
    "body_bytes": "longest body of a request",
    "drain_seconds": "for requests under way when the server ends",
    "unready_seconds": "that the server is not ready, and still answers, before it ends",
    "log": "json or text",
    "access_log": "a line per request: true or false",
}


def settings_of(arguments: Sequence[str]) -> tuple[ServerSettings, list[ModelSettings], list[bool]]:
    """What the command line says; of each model whether it was given a name. Wrong for what can't be."""
    options = vars(parser().parse_args(arguments))
    of_model = {field.name for field in dataclasses.fields(ModelSettings)}
    given = {name: value for name, value in options.items() if value is not None and name not in ("models", "config")}
    common = converted(ModelSettings, {name: value for name, value in given.items() if name in of_model})
    own = {name: value for name, value in given.items() if name not in of_model}
    models, named = [], []
    if options["config"]:
        if options["config"].endswith(".properties"):
            table, entries, without_effect = properties.read(options["config"], own.get("model_store"))
            if without_effect:
                print(f"flambeau serve: {options['config']}: without effect here: {', '.join(without_effect)}", file=sys.stderr)
        else:
            table, entries = read_file(options["config"])
        own = {**table, **own}
        for entry in entries:
            values = converted(ModelSettings, entry)
            if "path" not in values:
                raise Wrong(f"{options['config']}: a model has a path")
            if "name" not in values:
                values["name"] = model_from_argument(values["path"]).name
            models.append(ModelSettings(**{**common, **values}))
            named.append("name" in entry)
    for text in options["models"]:
        models.append(model_from_argument(text, **common))
        named.append("=" in text)
    settings = ServerSettings(**converted(ServerSettings, own))
    if settings.log not in ("json", "text"):
        raise Wrong("log is json or text")
    if not models and settings.model_store is None:
        raise Wrong("name a model, or a --model-store to load models from")
    return settings, models, named


def main(arguments: Sequence[str]) -> int:
    """Serve; returns the exit status."""
    try:
        settings, models, named = settings_of(arguments)
    except Wrong as problem:
        print(f"flambeau serve: {problem}", file=sys.stderr)
        return 2
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        print(f"flambeau serve needs {', '.join(missing)}: pip install 'flambeau[serve]'", file=sys.stderr)
        return 1
    try:
        made = [from_archive(model, has_name) for model, has_name in zip(models, named)]
        keys = [(model.name, model.version) for model in made]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise Wrong(f"{twice[0]} has two versions {twice[1]}: name them, NAME=PATH@VERSION")
    except (archives.BadArchive, Wrong) as problem:
        print(f"flambeau serve: {problem}", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="flambeau-serve-"))  # private to this user; the server removes it
    os.environ[archives.UNPACKED] = str(folder)
    early = {(model.name, model.version): spawning.start(model, settings.log) for model in made}
    from flambeau.serve import server

    return server.run(settings, made, folder, early)


def from_archive(model: ModelSettings, named: bool) -> ModelSettings:
    """An archive's own name, version and settings, where the command line gives none."""
    if model.path.endswith(".war"):
        raise Wrong(f"{model.path}: workflows are not implemented in flambeau: call models one after the other")
    if not model.path.endswith(".mar"):
        return model
    manifest = archives.read_manifest(model.path)
    own = manifest["model"]
    version = own.get("modelVersion") if model.version == "1.0" else None
    name = None if named else own.get("modelName")
    defaults = ModelSettings("unchanged", "unchanged")
    config = properties.of_archive(archives.read_config(model.path, manifest))
    config = {key: value for key, value in config.items() if getattr(model, key) == getattr(defaults, key)}
    return dataclasses.replace(model, name=name or model.name, version=version or model.version, **config)
