"""Fetch a small model from the Hub or a folder, to be registered."""

from pathlib import Path

from ft_assets.settings.recipe.base_ref import HubRevision, parse_base
from ft_assets.workers.base_models.lock import lock_hub
from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase, UserError
from ft_resources.hub import Hub, HuggingFaceHub


def fetch_model(source: str, scratch: Path, hub: Hub | None) -> Path:
    """The folder of ``source``; for a Hub model a copy, each file verified against the Hub's list at that commit."""
    if not source.startswith("hub:"):
        return Path(source)
    try:
        reference = parse_base(source)
    except ValueError as error:
        raise UserError(
            f"this is not a model of the Hub: {error}", where=source, remedy="Write hub:ORG/NAME@REVISION."
        ) from None
    assert isinstance(reference, HubRevision)
    hub = hub or HuggingFaceHub()
    scratch.mkdir(exist_ok=True)
    lock = lock_hub(hub, reference.repo, reference.revision, template_given=True)
    for name, entry in lock.files.items():
        hub.download(reference.repo, lock.revision, name, scratch / name)
        if sha256_file(scratch / name) != entry.sha256:
            remedy = "Try again; if it stays so, the source was tampered with: use another."
            raise BadBase(f"{name} is not the file that the Hub lists", where=source, remedy=remedy)
    return scratch
