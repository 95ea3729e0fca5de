"""Suites and classifiers: files under a key ``name.vN`` that all tenants may use and that never changes its meaning.

They are an artifact of ``shared`` named by content; the create-only record ``names/<noun>/<key>.json`` points to it.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ft_assets.keys import SHARED
from ft_assets.recipes.strict import nearest
from ft_assets.recipes.upload import publish_upload, upload_address
from ft_resources.artifacts import Artifacts, FileEntry, InputRef, content_digest
from ft_resources.canonical import sha256_file
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store import Store

Noun = Literal["suite", "classifier"]


def add_named(
    store: Store,
    noun: Noun,
    key: str,
    files: dict[str, Path],
    *,
    asset: str | None = None,
    source: str,
    facts: dict[str, Any],
    actor: str,
) -> tuple[InputRef, bool]:
    """Store ``files`` (stored name to path) as the ``noun`` ``key``; the artifact, and whether the key is new.

    ``asset`` is that of its address, by default the noun. ``source`` says where they come from: a folder, or ``hub:…``,
    which is recorded. Raises BadRecipe for a key that is taken by other content.
    """
    entries = {name: FileEntry(size=path.stat().st_size, sha256=sha256_file(path)) for name, path in files.items()}
    content = content_digest(entries)
    record, created = store.find_json(_path(noun, key)), False
    if record is None:
        address = upload_address(SHARED, asset or noun, content)
        publish_upload(Artifacts(store), address, files, content, facts=facts, actor=actor)
        record = {
            "address": str(address),
            "digest": content,
            "source": source if source.startswith("hub:") else f"folder:sha256:{content}",
            "actor": actor,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        created = store.create_json(_path(noun, key), record)
        record = store.get_json(_path(noun, key))
    if record["digest"] != content:
        name, _, version = key.rpartition(".v")
        raise BadRecipe(
            f"{noun} {key} is already registered with other content",
            where=source,
            remedy=f"A registered {noun} never changes: use key {name}.v{int(version) + 1} for the new one.",
        )
    return InputRef(address=record["address"], digest=record["digest"]), created


def get_named(store: Store, noun: Noun, key: str, remedy: str) -> InputRef:
    """The artifact of the ``noun`` ``key``. Raises UserError with the nearest key and ``remedy`` if there is none."""
    record = store.find_json(_path(noun, key))
    if record is None:
        raise UserError(
            f"there is no {noun} {key!r}; {nearest(key, list_named(store, noun))}",
            where=f"{noun} key {key!r}",
            remedy=remedy,
        )
    return InputRef(address=record["address"], digest=record["digest"])


def list_named(store: Store, noun: Noun) -> list[str]:
    """The registered keys of ``noun``, sorted."""
    names = (entry.path.rsplit("/", 1)[-1] for entry in store.entries(f"names/{noun}"))
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def _path(noun: Noun, key: str) -> str:
    return f"names/{noun}/{key}.json"
