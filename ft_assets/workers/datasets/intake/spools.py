"""All files of an uploaded version as JSON lines."""

from pathlib import Path

from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.intake.spool import Role, Spool, spool
from ft_resources.artifacts import Artifact

ROLES: tuple[Role, ...] = ("upload", "validation", "holdout")


def spools_of(raw: Artifact, policy: DatasetPolicy, scratch: Path) -> list[Spool]:
    """The files of ``raw`` as JSON lines, verified, sorted by name in each role."""
    found = []
    for role in ROLES:
        for name in sorted(each for each in raw.manifest.files if each.startswith(f"{role}/")):
            path = raw.path(name, scratch)
            sha256 = raw.manifest.files[name].sha256
            given = raw.facts.get("names", {}).get(name, name.removeprefix(f"{role}/"))
            found.append(spool(path, given, scratch / "spools", role=role, text=policy.text, sha256=sha256))
    return found
