"""A folder that has files of data sets as the Hub has them: ORG/NAME/PATH, for machines without a network.

``hf download ORG/NAME --repo-type dataset --revision COMMIT --local-dir FOLDER/ORG/NAME`` lays files so, and leaves the
commit and the Hub's digest of each beside them (``.cache/huggingface/download/PATH.metadata``: commit, ETag, time). The
files are checked against these. Files that were laid without them are taken at the commit that the user names.
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
    """Keeps the promises of ``ft_resources.hub.Hub`` without asking anybody."""

    folder: Path

    def names(self, repo: str) -> list[str]:
        """The files of data set ``repo`` that are there."""
        root = self.folder / repo
        found = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file())
        return [path.as_posix() for path in found if path.parts[0] != _CACHE]

    def commit(self, repo: str) -> str:
        """The commit that all files of ``repo`` are of. Raises BadRecipe if that is not written beside them."""
        commits = {_written(self.folder / repo, name)[0] for name in self.names(repo)}
        if len(commits) != 1 or commits == {""}:
            several = f"files of {len(commits)} commits" if len(commits - {""}) > 1 else "files whose commit is unknown"
            raise BadRecipe(
                f"the folder has {several} of the data set {repo}",
                where=str(self.folder / repo),
                remedy=f"Fetch them anew with hf download (docs/how-to/suites.md), or say it: --from hub:{repo}@COMMIT",
            )
        return commits.pop()

    def snapshot(self, repo: str, revision: str) -> HubSnapshot:
        """The files that are there. Raises BadBase if one of them was fetched from another commit than ``revision``."""
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
                raise BadBase(f"{name} is of commit {commit}, not of {revision}", where=str(self.folder / repo))
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
    """The commit and the digest that were written beside a file; "" and "" if none were."""
    beside = root / _CACHE / "huggingface" / "download" / f"{name}.metadata"
    if not beside.is_file():
        return "", ""
    commit, etag = beside.read_text(encoding="utf-8").splitlines()[:2]
    return commit.strip(), etag.strip()
