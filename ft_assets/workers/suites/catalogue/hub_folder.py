"""A folder with files of data sets from the Hub, as ORG/NAME/PATH, for machines without a network.

``hf download ORG/NAME --repo-type dataset --revision COMMIT --local-dir FOLDER/ORG/NAME`` creates it, and records the
commit and the Hub's digest of each file (``.cache/huggingface/download/PATH.metadata``: commit, ETag, time). The files
are checked against these. Files without such a record count as those of the commit that the user names.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from ft_resources.errors import BadBase, BadRecipe
from ft_resources.hub import HubFile, HubSnapshot, git_blob_id

_CACHE = ".cache"
_SHA256_DIGITS = 64


@dataclass(frozen=True, slots=True)
class FolderHub:
    """Implements ``ft_resources.hub.Hub`` offline."""

    folder: Path

    def names(self, repo: str) -> list[str]:
        """The files of data set ``repo`` in the folder."""
        root = self.folder / repo
        found = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
        return [path.as_posix() for path in found if path.parts[0] != _CACHE]

    def commit(self, repo: str) -> str:
        """The commit of all files of ``repo``. Raises BadRecipe if it is not recorded or not the same for all."""
        commits = {_written(self.folder / repo, name)[0] for name in self.names(repo)}
        if len(commits) != 1 or commits == {""}:
            several = f"files of {len(commits)} commits" if len(commits - {""}) > 1 else "files whose commit is unknown"
            raise BadRecipe(
                f"the folder has {several} of the data set {repo}",
                where=str(self.folder / repo),
                remedy="Fetch them again with hf download (docs/how-to/suites.md), or name the commit: "
                f"--from hub:{repo}@COMMIT",
            )
        return commits.pop()

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        """The files in the folder. Raises BadBase if one of them was fetched from another commit than ``revision``."""
        if not self.names(repo):
            raise BadBase(
                f"the folder has no files of the data set {repo}",
                where=str(self.folder / repo),
                remedy="Put them there at their paths in the data set.",
            )
        files = {}
        for name in self.names(repo):
            path = self.folder / repo / name
            commit, etag = _written(self.folder / repo, name)
            if commit not in ("", revision):
                raise BadBase(
                    f"{name} is of commit {commit}, not of {revision}",
                    where=str(self.folder / repo),
                    remedy=f"Fetch it again with hf download --revision {revision}.",
                )
            large = len(etag) == _SHA256_DIGITS
            files[name] = HubFile(
                name=name,
                size=path.stat().st_size,
                blob_id="" if large else etag or git_blob_id(path),
                sha256=etag if large else None,
            )
        return HubSnapshot(repo=repo, commit=revision, files=files)

    def download(self, repo: str, commit: str, name: str, target: Path) -> None:
        """Copy the file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.folder / repo / name, target)


def _written(root: Path, name: str) -> tuple[str, str]:
    """The commit and the digest recorded for a file; "" and "" if there are none."""
    beside = root / _CACHE / "huggingface" / "download" / f"{name}.metadata"
    if not beside.is_file():
        return "", ""
    commit, etag = beside.read_text(encoding="utf-8").splitlines()[:2]
    return commit.strip(), etag.strip()
