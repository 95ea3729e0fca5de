"""Suites, classifiers, encoders, name models: files under a key ``name.vN``, which all tenants may use.

A key's content never changes. It is a content-addressed artifact of ``shared``, to which the create-only record
``names/<noun>/<key>.json`` points.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ft_assets.records.names import Name
from ft_assets.records.uploads import publish_upload, upload_address
from ft_assets.settings.keys import SHARED
from ft_resources.artifacts import Artifacts, FileEntry, InputRef, content_digest
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store import Store
from ft_resources.strict import nearest

Noun = Literal["suite", "classifier", "encoder", "name_model"]


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
    """Store ``files`` (stored name to path) as the ``noun`` ``key``; returns the artifact and whether the key is new.

    ``asset`` is the asset name in the address, by default the noun. ``source`` records the origin of the files: a
    folder, ``hub:…`` or ``catalogue:…``. Raises BadRecipe if the key has other content.
    """
    entries = {name: FileEntry.of(path) for name, path in files.items()}
    content = content_digest(entries)
    record, created = Name(noun).find(store, key), False
    if record is None:
        address = upload_address(SHARED, asset or noun, content)
        publish_upload(Artifacts(store), address, files, content, facts=facts, actor=actor)
        record = {
            "address": str(address),
            "digest": content,
            "source": source if source.startswith(("hub:", "catalogue:")) else f"folder:sha256:{content}",
            "actor": actor,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        created = Name(noun).create(store, key, record)
        record = Name(noun).get(store, key)
    if record["digest"] != content:
        name, _, version = key.rpartition(".v")
        raise BadRecipe(
            f"{_said(noun)} {key} is already registered with other content",
            where=source,
            remedy=f"A registered {_said(noun)} never changes: use key {name}.v{int(version) + 1} for the new one.",
        )
    return InputRef(address=record["address"], digest=record["digest"]), created


def get_named(store: Store, noun: Noun, key: str, remedy: str) -> InputRef:
    """The artifact of the ``noun`` ``key``. Raises UserError with the nearest key and ``remedy`` if there is none."""
    record = Name(noun).find(store, key)
    if record is None:
        raise UserError(
            f"there is no {_said(noun)} {key!r}; {nearest(key, list_named(store, noun))}",
            where=f"{_said(noun)} key {key!r}",
            remedy=remedy,
        )
    return InputRef(address=record["address"], digest=record["digest"])


def list_named(store: Store, noun: Noun) -> list[str]:
    """The registered keys of ``noun``, sorted."""
    return Name(noun).keys(store)


def _said(noun: Noun) -> str:
    return noun.replace("_", " ")
