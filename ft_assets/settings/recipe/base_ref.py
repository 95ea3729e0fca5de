"""How a recipe names its base model (a folder, a stored folder's digest, a Hub revision, one of our adapters), and the
adapter that its training continues."""

import re
from dataclasses import dataclass
from pathlib import Path

from ft_assets.settings.keys import DatasetKey, RecipeKey
from ft_resources.errors import UserError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REPO = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,199}", re.ASCII)
_ADDRESS = re.compile(r"(?P<tenant>[a-z0-9][a-z0-9-]{0,39})/(?P<asset>[a-z_]+)/(?P<fingerprint>[0-9a-f]{64})")
_SHORT = re.compile(r"[a-z0-9][a-z0-9-]{0,39}/adapter/[0-9a-f]{4,64}")
_STAGED = re.compile(r"(?P<line>[a-z0-9-]+\.[a-z0-9-]+\.[a-z0-9-]+)@(?P<stage>dev|staging|production)")


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderPath:
    """``folder:./base``: a local folder; registration uploads it and rewrites the reference to its digest."""

    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderDigest:
    """``folder:sha256:<digest>``: a folder that an earlier registration uploaded (64 hex characters)."""

    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HubRevision:
    """``hub:org/name@revision``: a model repository and a commit, tag or branch of it, locked at registration."""

    repo: str
    revision: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedAdapter:
    """``artifact:TENANT/adapter/FINGERPRINT``: the model of one of our accepted adapters."""

    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterOfPair:
    """``artifact:DATASET|RECIPE``: that pair's accepted adapter; registration rewrites the reference to its address."""

    dataset: str
    recipe: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterAtStage:
    """``artifact:LINE@STAGE``: the adapter in that stage; registration rewrites the reference to its address."""

    line: str
    stage: str


AdapterReference = AcceptedAdapter | AdapterOfPair | AdapterAtStage
BaseReference = FolderPath | FolderDigest | HubRevision | AcceptedAdapter | AdapterOfPair


def parse_base(text: str) -> BaseReference:
    """The reference in ``text``. Raises ValueError, with an explanation, for anything else."""
    kind, _, rest = text.partition(":")
    if not rest.isprintable():
        raise ValueError("contains an invisible character, such as a line break")
    if kind == "artifact":
        return _parse_artifact(rest)
    if kind == "hub" and rest:
        return _parse_hub(rest)
    if kind == "folder" and rest.startswith("sha256:"):
        if not _DIGEST.fullmatch(rest):
            raise ValueError("a folder digest is sha256: and 64 lower-case hexadecimal characters")
        return FolderDigest(digest=rest.removeprefix("sha256:"))
    if kind == "folder" and rest:
        return FolderPath(path=Path(rest))
    raise ValueError(
        "should be folder:PATH, folder:sha256:DIGEST, hub:ORG/NAME@REVISION, artifact:ADDRESS or "
        "artifact:DATASET|RECIPE"
    )


def parse_adapter(text: str) -> AdapterReference:
    """The adapter that ``text`` names; its fingerprint may be cut short. Raises ValueError, with an explanation."""
    kind, _, rest = text.partition(":")
    if kind != "artifact":
        raise ValueError("should be artifact:ADDRESS, artifact:DATASET|RECIPE or artifact:LINE@STAGE")
    if _SHORT.fullmatch(rest):
        return AcceptedAdapter(address=rest)
    if staged := _STAGED.fullmatch(rest):
        return AdapterAtStage(line=staged["line"], stage=staged["stage"])
    return _parse_artifact(rest, "what a training continues")


def _parse_hub(text: str) -> HubRevision:
    repo, _, revision = text.partition("@")
    if not revision:
        raise ValueError(f"a Hub base needs a revision, such as hub:{repo}@main; it is locked at registration")
    if not _REPO.fullmatch(repo) or not _REVISION.fullmatch(revision) or ".." in text:
        raise ValueError("should be hub:ORG/NAME@REVISION, as the Hub writes them")
    return HubRevision(repo=repo, revision=revision)


def _parse_artifact(text: str, what: str = "a recipe's base") -> AcceptedAdapter | AdapterOfPair:
    dataset, bar, recipe = text.partition("|")
    if bar:
        try:
            return AdapterOfPair(dataset=str(DatasetKey.parse(dataset)), recipe=str(RecipeKey.parse(recipe)))
        except UserError as error:
            raise ValueError(f"{error.what}. {error.remedy}") from error
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(
            "should be artifact:TENANT/adapter/FINGERPRINT, as `ft adapter list` and the adapter's page show it, "
            "or artifact:DATASET|RECIPE, the pair that it was made from"
        )
    if found["asset"] != "adapter":
        raise ValueError(
            f"{what} is an accepted adapter, not a {found['asset']}: name the adapter that was made from "
            "it (see `ft adapter list`)"
        )
    return AcceptedAdapter(address=text)
