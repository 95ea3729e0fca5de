"""What earlier versions of a dataset held out, as an input of a version.

Each version follows the one before, by its record. When it is first to be curated, one create-only record settles what
the versions before it held out; a copy of that record, which has no texts, outlives them.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from ft_assets.control.identity.datasets import dataset_request
from ft_assets.records.names import DATASET, HELD_OUT
from ft_assets.records.retired_datasets import find_retired
from ft_assets.records.uploads import publish_upload, upload_address
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifact, Artifacts, FileEntry, content_digest
from ft_resources.attempts import attempts_at
from ft_resources.errors import Deleted, HeldForReview, MissingInput, UserError
from ft_resources.outcomes import Outcome
from ft_resources.work import WorkRequest

_FILE = "held_out.arrow"
_REFUSED = (Outcome.BAD_DATA, Outcome.USER_ERROR)
Curate = Callable[[WorkRequest], Artifact]


def settle_held_out(artifacts: Artifacts, dataset_key: str, curate: Curate, *, actor: str) -> None:
    """Settle what the versions before ``dataset_key`` held out, unless that is settled.

    Earlier versions that are not curated are curated first, the oldest first. One whose curation is refused, or that is
    deleted or retired, has held out nothing: the memory is then that of the version before it. Raises what ``curate``
    raises for any other failure.
    """
    following = []
    key = dataset_key
    while not HELD_OUT.exists(artifacts.store, key) and (earlier := _follows(artifacts, key)):
        following.append((key, earlier))
        key = earlier
    for key, earlier in reversed(following):
        HELD_OUT.create(artifacts.store, key, _held_until(artifacts, earlier, curate, actor))


def _follows(artifacts: Artifacts, key: str) -> str:
    """The version before; "" for the first, and for those that were added before versions had a memory."""
    return str((DATASET.find(artifacts.store, key) or {}).get("follows", ""))


def _held_until(artifacts: Artifacts, key: str, curate: Curate, actor: str) -> dict[str, str]:
    """The record of what the versions up to ``key`` held out."""
    curated = _curated(artifacts, key, curate)
    if curated is None:
        return HELD_OUT.find(artifacts.store, key) or {"address": "", "digest": ""}
    with tempfile.TemporaryDirectory(prefix="ft-held-out-") as scratch:
        files = {_FILE: curated.path(_FILE, Path(scratch))}
        content = content_digest({name: FileEntry.of(path) for name, path in files.items()})
        address = upload_address(DatasetKey.parse(key).tenant, "held_out", content)
        publish_upload(artifacts, address, files, content, facts={"until": key}, actor=actor)
    return {"address": str(address), "digest": content}


def _curated(artifacts: Artifacts, key: str, curate: Curate) -> Artifact | None:
    """The curated version, made if necessary; None if that is impossible."""
    try:
        request = dataset_request(artifacts, key)
    except (Deleted, MissingInput, HeldForReview):
        # The last two are about a dataset that it mixes in.
        return None
    if find_retired(artifacts.store, key):
        return artifacts.find(request.address)
    try:
        return curate(request)
    except UserError:
        attempts = attempts_at(artifacts.store, request.address)
        ending = attempts[-1].ending() if attempts else None
        if ending is None or ending.outcome not in _REFUSED:
            raise
        return None
