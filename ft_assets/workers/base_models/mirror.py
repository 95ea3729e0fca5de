"""The work of ``base_model``: copy the locked files into the store and accept only what the lock lists."""

from pathlib import Path

from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.chain import take_accepted
from ft_assets.workers.base_models.contents import inspect_base, tokenizer_files
from ft_assets.workers.base_models.new_tokens import add_new_tokens
from ft_assets.workers.base_models.placing import place
from ft_assets.workers.base_models.token_ids import examine_tokenizer
from ft_resources.artifacts import FileEntry
from ft_resources.canonical import digest, sha256_bytes, sha256_file
from ft_resources.errors import BadBase
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.worker_context import WorkContext, WorkResult


def mirror(context: WorkContext, hub: Hub | None = None) -> WorkResult:
    """Copy the locked base into the store, verify each file against the lock, and read the facts that others need.

    Params: ``lock``; ``new_tokens`` if the recipe adds some. Inputs: ``upload`` if the lock's kind is ``folder``,
    ``adapter`` (and ``base``, see ``chain``) if it is ``artifact``. Raises BadBase for bytes that differ from the lock,
    break the rules of ``contents`` or hold a tokenizer that transformers cannot reproduce, CorruptArtifact for damaged
    inputs, HubUnavailable.
    """
    lock = BaseLock.model_validate(context.params["lock"])
    if lock.kind == "folder":
        _take_upload(context, lock)
    elif lock.kind == "artifact":
        take_accepted(context, lock)
    else:
        _take_hub(context, lock, hub or HuggingFaceHub())
    new_tokens = context.params.get("new_tokens", [])
    if new_tokens:
        context.progress("adding new tokens")
        add_new_tokens(context.output, new_tokens, f"{lock.source}, new_tokens")
    context.progress("inspecting")
    # Registration already decided whether a template must exist; it knew the recipe's own one.
    facts = inspect_base(context.output, lock.source, template_given=True)
    names = [path.name for path in context.output.iterdir()]
    context.progress("comparing the tokenizer with transformers'")
    warning = examine_tokenizer(context.output)
    return WorkResult(
        folder=context.output,
        facts={
            "architecture": facts.architecture,
            "parameters": facts.parameters,
            "bytes": sum((context.output / name).stat().st_size for name in names),
            "source": lock.source,
            "revision": lock.revision,
            "tokenizer_digest": digest({name: sha256_file(context.output / name) for name in tokenizer_files(names)}),
            "chat_template": facts.template is not None,
            "template_digest": sha256_bytes((facts.template or "").encode()),
            "tokenizer_as_transformers": not warning,
            "tokenizer_warning": warning,
            **({"new_tokens": len(new_tokens)} if new_tokens else {}),
        },
    )


def _take_upload(context: WorkContext, lock: BaseLock) -> None:
    upload = context.input("upload")
    if upload.manifest.files != lock.files:
        remedy = "Register the recipe again under its next version."
        raise BadBase("the upload does not hold the files that the recipe locked", where=lock.source, remedy=remedy)
    for done, name in enumerate(lock.files):
        context.progress("copying", done, len(lock.files))
        # Reading through the artifact verifies the sha256, which was just compared with the lock's.
        place(upload.path(name, context.scratch / "upload"), context.output / name)


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
            remedy="Try again. If this persists, the source was tampered with: register a new version from a good one.",
        )
