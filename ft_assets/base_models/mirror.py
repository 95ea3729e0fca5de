"""The work of ``base_model``: bring the locked files into the store, and believe nothing that the lock does not say."""

import os
import shutil
from pathlib import Path

from ft_assets.base_models.contents import inspect_base, tokenizer_files
from ft_assets.base_models.lock import BaseLock
from ft_assets.base_models.token_ids import examine_tokenizer
from ft_resources.artifacts import FileEntry
from ft_resources.canonical import digest, sha256_bytes, sha256_file
from ft_resources.errors import BadBase
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.worker_context import WorkContext, WorkResult


def mirror(context: WorkContext, hub: Hub | None = None) -> WorkResult:
    """Copy the upload or the hub's files, each verified against the lock, and read what others need to know.

    Params: ``lock``. Input ``upload`` where the lock's kind is ``folder``. Raises BadBase for bytes that differ from
    the lock, break the rules of ``contents`` or hold a tokenizer that transformers cannot follow, CorruptArtifact for a
    damaged upload, HubUnavailable.
    """
    lock = BaseLock.model_validate(context.params["lock"])
    if lock.kind == "folder":
        _take_upload(context, lock)
    else:
        _take_hub(context, lock, hub or HuggingFaceHub())
    context.progress("inspecting")
    # Whether a template must exist was settled at registration, where the recipe's own one was known.
    facts = inspect_base(context.output, lock.source, template_given=True)
    names = tokenizer_files(lock.files)
    context.progress("comparing the tokenizer with transformers'")
    warning = examine_tokenizer(context.output)
    return WorkResult(
        folder=context.output,
        facts={
            "architecture": facts.architecture,
            "parameters": facts.parameters,
            "bytes": sum(entry.size for entry in lock.files.values()),
            "source": lock.source,
            "revision": lock.revision,
            "tokenizer_digest": digest({name: lock.files[name].sha256 for name in names}),
            "chat_template": facts.template is not None,
            "template_digest": sha256_bytes((facts.template or "").encode()),
            "tokenizer_as_transformers": not warning,
            "tokenizer_warning": warning,
        },
    )


def _take_upload(context: WorkContext, lock: BaseLock) -> None:
    upload = context.input("upload")
    if upload.manifest.files != lock.files:
        remedy = "Register the recipe again under its next version."
        raise BadBase("the upload does not hold the files that the recipe locked", where=lock.source, remedy=remedy)
    for done, name in enumerate(lock.files):
        context.progress("copying", done, len(lock.files))
        # Reading through the artifact verifies the sha256, which is the lock's, as just compared.
        _link_or_copy(upload.path(name, context.scratch / "upload"), context.output / name)


def _take_hub(context: WorkContext, lock: BaseLock, hub: Hub) -> None:
    repo = lock.source.removeprefix("hub:")
    total, done = sum(entry.size for entry in lock.files.values()), 0
    for name, entry in lock.files.items():
        context.progress("downloading", done, total)
        hub.download(repo, lock.revision, name, context.output / name)
        _require_locked(context.output / name, entry, f"{lock.source}@{lock.revision}")
        done += entry.size


def _require_locked(path: Path, entry: FileEntry, where: str) -> None:
    if path.stat().st_size != entry.size or sha256_file(path) != entry.sha256:
        raise BadBase(
            f"{path.name} is not the file that was locked at registration",
            where=where,
            remedy="Try again; if it stays so, the source was tampered with: register a new version from a good one.",
        )


def _link_or_copy(source: Path, target: Path) -> None:
    """The same bytes under another name; a link where one disk holds both, as nothing here is ever written to."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
