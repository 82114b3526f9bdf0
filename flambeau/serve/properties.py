"""TorchServe's config.properties as settings: what is the same here under another name, what has no effect, what is refused.

Stands on settings and the standard library; used by command and management.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flambeau.serve.settings import NAME, ModelSettings, Wrong, converted

ADDRESSES = {"inference_address": "", "management_address": "management_", "metrics_address": "metrics_"}
OF_SERVER = {"model_store": "model_store", "max_request_size": "body_bytes"}
OF_MODELS = {"default_workers_per_model": "workers", "default_response_timeout": "timeout", "job_queue_size": "queue_size"}
# of an entry of `models`, and of an archive's config file
OF_MODEL = {
    "minWorkers": "workers", "batchSize": "max_batch_size", "maxBatchDelay": "max_batch_delay", "responseTimeout": "timeout",
    "jobQueueSize": "queue_size",
}  # fmt: skip
REFUSED = {  # names, and values that ask for nothing
    "install_py_dep_per_model": ("false", "install what handlers need before"),
    "decode_input_request": ("true", "handlers get JSON as values"),
    "enable_envvars_config": ("false", "give options on the command line"),
    "service_envelope": ("", "write what it does into the handler"),
    **dict.fromkeys(
        ("keystore", "keystore_pass", "keystore_type", "private_key_file", "certificate_file"),
        ("", "put the server behind a proxy that has TLS"),
    ),
    **dict.fromkeys(
        ("cors_allowed_origin", "cors_allowed_methods", "cors_allowed_headers"),
        ("", "put the server behind a proxy that sends these headers"),
    ),
    "blacklist_env_vars": ("", "start the server without these variables"),
    "plugins_path": ("", "there are no plugins"),
}
WITHOUT_EFFECT = re.compile(
    r"number_of_(netty_threads|gpu)|netty_client_threads|vmargs|async_logging|prefer_direct_buffer|initial_worker_port"
    r"|model_server_home|enable_metrics_api|metrics_(format|mode|config)|default_startup_timeout|unregister_model_timeout"
    r"|max_response_size|use_env_allowed_urls|allowed_urls|model_snapshot|snapshot_store|grpc_\w+|enable_grpc_ssl|workflow_store"
    r"|load_workflows|cpu_launcher_\w+|ipex_\w+|job_queue_type|disable_token_authorization|enable_model_api|model_api_enabled"
    r"|disable_system_metrics|limit_max_image_pixels|max_retry_timeout_in_sec"
)
PROPERTY = re.compile(r"((?:[^\\\s=:]|\\.)*)\s*[=:]?\s*(.*)")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def pairs(text: str) -> dict[str, str]:
    """The properties of a file in Java's form: `name=value`, `name: value` or `name value`, lines that go on after a backslash,
    comments, and escapes, with which TorchServe writes its snapshots.
    """
    found = {}
    lines = iter(text.splitlines())
    for line in lines:
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1] + next(lines, "").strip()
        name, value = PROPERTY.fullmatch(line).groups()  # type: ignore[union-attr]  # it matches every line
        found[unescaped(name)] = unescaped(value)
    return found


def unescaped(text: str) -> str:
    return ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else ESCAPED.get(found[2], found[2]), text)


def read(path: str, store: str | None = None) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The settings of the server, those of models, and names without effect. Models are files of the `store`, if it is given.

    Wrong for properties that ask for what isn't there, and for names that TorchServe doesn't have.
    """
    try:
        given = pairs(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{path}: {error}") from None
    table: dict[str, Any] = {OF_SERVER[name]: value for name, value in given.items() if name in OF_SERVER}
    common: dict[str, Any] = {OF_MODELS[name]: value for name, value in given.items() if name in OF_MODELS}
    for name, prefix in ADDRESSES.items():
        if name in given:
            table |= address(path, name, given[name], prefix)
    without_effect = []
    for name, value in given.items():
        if name in REFUSED:
            neutral, instead = REFUSED[name]
            if value != neutral:
                raise Wrong(f"{path}: {name}={value} is not implemented in flambeau: {instead}")
        elif WITHOUT_EFFECT.fullmatch(name):
            without_effect.append(name)
        elif name not in {*OF_SERVER, *OF_MODELS, *ADDRESSES, "load_models", "models"}:
            raise Wrong(f"{path}: there is no property {name!r}")
    store = store or table.get("model_store")
    entries = [{**common, **entry} for entry in models(path, given, store)]
    if given.get("load_workflows"):
        raise Wrong(f"{path}: workflows are not implemented in flambeau: call models one after the other")
    return table, entries, without_effect


def address(path: str, name: str, value: str, prefix: str) -> dict[str, Any]:
    where = urlsplit(value)
    try:
        port = where.port
    except ValueError:
        port = None
    if where.scheme != "http" or not where.hostname:
        raise Wrong(f"{path}: {name}={value} is no http://HOST:PORT; TLS is for a proxy in front of the server")
    return {f"{prefix}host": where.hostname, f"{prefix}port": 80 if port is None else port}


def models(path: str, given: dict[str, str], store: str | None) -> list[dict[str, Any]]:
    """The models that are loaded first; of one with several versions the default one comes first."""
    found: list[dict[str, Any]] = []
    loaded = given.get("load_models", "")
    listed: dict[str, Any] = {}
    if "models" in given:
        try:
            listed = json.loads(given["models"])
            versions = [(name, version, one) for name, all in listed.items() for version, one in all.items()]
            versions.sort(key=lambda one: not one[2].get("defaultVersion", False))
            for name, version, one in versions:
                own = {ours: one[theirs] for theirs, ours in OF_MODEL.items() if theirs in one}
                found.append({"name": name, "version": version, "path": in_store(path, store, one["marName"]), **own})
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise Wrong(f'{path}: models is {{"name": {{"version": {{"marName": ...}}}}}}: {error}') from None
    if loaded == "all":
        there = {entry["path"] for entry in found}
        files = sorted(file for file in os.listdir(in_store(path, store, ".")) if file.endswith(".mar"))
        found += [{"path": one} for file in files if (one := in_store(path, store, file)) not in there]
    elif loaded not in ("", "standalone"):
        for part in loaded.split(","):
            name, equals, file = part.strip().rpartition("=")
            if name not in listed:
                found.append({"path": in_store(path, store, file.strip()), **({"name": name.strip()} if equals else {})})
    return found


def of_archive(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that an archive's config file has for the server. Wrong for values that can't be."""
    return converted(ModelSettings, {ours: config[theirs] for theirs, ours in OF_MODEL.items() if theirs in config})


def in_store(path: str, store: str | None, file: str) -> str:
    if store is None:
        raise Wrong(f"{path}: models are loaded from model_store, which isn't set")
    if file != "." and not NAME.fullmatch(file):
        raise Wrong(f"{path}: {file!r} is no name of a file in the model store")
    if not os.path.exists(os.path.join(store, file)):
        raise Wrong(f"{path}: there is no {file} in {store}")
    return os.path.join(store, file)
