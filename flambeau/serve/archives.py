"""Archives of models (.mar), as TorchServe's: read without trust in what they name, and written by torch-model-archiver's
options.

    python -m flambeau.serve.archives --model-name mlp --version 1.0 --serialized-file mlp.pt2 --export-path store

Stands on the standard library; used by models, host, management and command.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import stat
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST = "MAR-INF/MANIFEST.json"
UNPACKED = "FLAMBEAU_SERVE_UNPACKED"  # in the environment: the folder in which archives are unpacked; the front end removes it
MOST_FILES = 20_000
MOST_BYTES = 64 << 30
MOST_MANIFEST = 1 << 20
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what TorchServe reads
DAMAGED = (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError)  # of reading what is no archive


class BadArchive(ValueError):
    """An archive that isn't read, and why."""


def _checked(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise BadArchive(f"it has {len(entries)} files; at most {MOST_FILES} are read")
    if sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise BadArchive(f"it unpacks to more than {MOST_BYTES} bytes")
    seen = set()
    for entry in entries:
        name = entry.filename
        parts = PurePosixPath(name).parts
        if not name or name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or ":" in (parts or ("",))[0]:
            raise BadArchive(f"the name {name!r} leads out of the archive")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise BadArchive(f"{name!r} is neither a file nor a folder")
        if entry.flag_bits & 1:
            raise BadArchive(f"{name!r} is encrypted")
        if entry.compress_type not in METHODS:
            raise BadArchive(f"{name!r} is packed by a method that archives don't use")
        if parts in seen:
            raise BadArchive(f"{name!r} is there twice")
        seen.add(parts)
    return entries


def read_manifest(path: str) -> dict[str, Any]:
    """The manifest of an archive or of an unpacked one; BadArchive if it has none that can be read."""
    try:
        if os.path.isdir(path):
            text: bytes | str = Path(path, MANIFEST).read_text(encoding="utf-8")
        else:
            with zipfile.ZipFile(path) as archive:
                _checked(archive)
                if archive.getinfo(MANIFEST).file_size > MOST_MANIFEST:
                    raise BadArchive("its manifest is too long")
                text = archive.read(MANIFEST)
        manifest = json.loads(text)
    except BadArchive as error:
        raise BadArchive(f"{path}: {error}") from None
    except (*DAMAGED, KeyError, RecursionError) as error:
        raise BadArchive(f"{path} is no archive of a model: {type(error).__name__}") from None
    model = manifest.get("model") if isinstance(manifest, dict) else None
    if not isinstance(model, dict):
        raise BadArchive(f"{path}: the manifest names no model")
    for key in ("modelName", "serializedFile", "handler", "modelFile", "configFile", "modelVersion"):
        value = model.get(key)
        if value is not None and (not isinstance(value, str) or "/" in value or "\\" in value or value in ("", ".", "..")):
            raise BadArchive(f"{path}: {key} of the manifest is {value!r}, which is no name of a file in it")
    return manifest


def read_config(path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """What the config file that a manifest names says (model_yaml_config), in YAML or JSON; BadArchive if it can't be read."""
    name = manifest["model"].get("configFile")
    if not name:
        return {}
    try:
        if os.path.isdir(path):
            text = Path(path, name).read_bytes()
        else:
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo(name).file_size > MOST_MANIFEST:
                    raise BadArchive(f"{path}: {name} is too long")
                text = archive.read(name)
        try:
            content = json.loads(text)
        except ValueError:
            content = _yaml(text)
    except (*DAMAGED, KeyError, RecursionError) as error:
        raise BadArchive(f"{path}: {name} can't be read: {str(error) or type(error).__name__}") from None
    if not isinstance(content, dict):
        raise BadArchive(f"{path}: {name} is no mapping")
    return content


def _yaml(text: bytes) -> Any:
    try:
        import yaml
    except ImportError:
        raise ValueError("it is YAML: pip install pyyaml, or write it as JSON") from None
    try:
        return yaml.safe_load(text) or {}
    except Exception as error:  # of a date that is none, say, it lets through what its own search for the parts raises
        raise ValueError((str(error).splitlines() or [type(error).__name__])[0]) from None


def unpack(path: str, folder: str) -> None:
    """Write an archive's files into an empty folder, none beside it. BadArchive for one that would write elsewhere."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _checked(archive)
            os.makedirs(folder, exist_ok=True)
            size, free = sum(entry.file_size for entry in entries), shutil.disk_usage(folder).free
            if size > free:
                raise BadArchive(f"it unpacks to {size} bytes, and {folder} has room for {free}")
            for entry in entries:
                target = Path(folder, *PurePosixPath(entry.filename).parts)
                if entry.is_dir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, open(target, "xb") as out:
                    left = entry.file_size  # zipfile stops there as well; a longer one is no archive
                    while chunk := source.read(1 << 20):
                        left -= len(chunk)
                        if left < 0:
                            raise BadArchive(f"{entry.filename!r} is longer than it says")
                        out.write(chunk)
    except BadArchive as error:
        raise BadArchive(f"{path}: {error}") from None
    except DAMAGED as error:
        raise BadArchive(f"{path} can't be unpacked: {type(error).__name__}") from None


def write(options: argparse.Namespace) -> Path:
    """Write an archive; its path. FileExistsError unless it may be replaced, FileNotFoundError for what isn't there."""
    model = {"modelName": options.model_name, "modelVersion": options.version}
    files: dict[str, Path] = {}
    for key, value in (
        ("serializedFile", options.serialized_file),
        ("modelFile", options.model_file),
        ("configFile", options.config_file),
        ("requirementsFile", options.requirements_file),
    ):
        if value:
            model[key] = Path(value).name
            files[Path(value).name] = Path(value)
    handler = options.handler or "base_handler"
    if handler.partition(":")[0].endswith(".py"):
        file, colon, name = handler.partition(":")
        files[Path(file).name] = Path(file)
        handler = Path(file).name + colon + name
    model["handler"] = handler
    for extra in filter(None, (options.extra_files or "").split(",")):
        path = Path(extra)
        for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if not one.is_dir():
                files[str(one.relative_to(path)) if path.is_dir() else one.name] = one
    missing = [str(path) for path in files.values() if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"there is no {missing[0]}")
    manifest = {
        "createdOn": datetime.datetime.now().strftime("%d/%m/%Y %H:%M:%S"),
        "runtime": options.runtime,
        "model": model,
        "archiverVersion": "flambeau",
    }
    text = json.dumps(manifest, indent=2)
    target = Path(options.export_path) / (options.model_name + (".mar" if options.archive_format == "default" else ""))
    if target.exists() and not options.force:
        raise FileExistsError(f"{target} exists: --force replaces it")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    if options.archive_format == "default":
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive:
            for name, path in files.items():
                archive.write(path, name)
            archive.writestr(MANIFEST, text)
    else:
        (partial / "MAR-INF").mkdir(parents=True)
        (partial / MANIFEST).write_text(text, encoding="utf-8")
        for name, path in files.items():
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, partial / name)
        if target.exists():
            shutil.rmtree(target)
    os.replace(partial, target)
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    """torch-model-archiver, by its options; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flambeau.serve.archives", description=__doc__.partition("\n")[0])
    parser.add_argument("--model-name", required=True)
    parser.add_argument("-v", "--version", default="1.0")
    parser.add_argument("--serialized-file", help="an exported program (.pt2), TorchScript, or weights for --model-file")
    parser.add_argument("--model-file", help="a Python file with the one class of the module whose weights these are")
    parser.add_argument("--handler", help="a Python file, `file.py:Class`; without it requests are tensors")
    parser.add_argument("--extra-files", help="files and folders, separated by commas")
    parser.add_argument("--config-file", "-c", help="a file of settings that the handler reads")
    parser.add_argument("--requirements-file", "-r", help="kept in the archive, and not installed when it is served")
    parser.add_argument("--runtime", default="python", choices=["python", "python3"])
    parser.add_argument("--export-path", default=".")
    parser.add_argument("--archive-format", default="default", choices=["default", "no-archive"])
    parser.add_argument("-f", "--force", action="store_true")
    try:
        print(write(parser.parse_args(arguments)))
    except (OSError, ValueError) as error:
        print(f"archives: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
