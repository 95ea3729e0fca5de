"""What zensical does not look at: pictures, paths of the repository, lonely pages, long lines."""

import re
from collections.abc import Iterator
from pathlib import Path

WIDTH = 100
# As for the code itself.
CODE_WIDTH = 120
# Folders whose files pages name as code, such as `ft_assets/worker.py`.
_PATHS = re.compile(r"`((?:ft_assets|ft_resources|ft_sensors|tests|k8s|benchmarks|docs)/[\w./-]*[\w/])`")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def problems(root: Path) -> list[str]:
    """Everything that is wrong with the pages of the project below ``root``, one sentence each."""
    return [problem for page in pages(root) for problem in _page_problems(page, root)] + [*_lonely(root)]


def pages(root: Path) -> list[Path]:
    """All pages that people write: ``docs/``, the README and the guide for contributors."""
    return [*sorted((root / "docs").rglob("*.md")), root / "README.md", root / "CONTRIBUTING.md"]


def _page_problems(page: Path, root: Path) -> Iterator[str]:
    where = page.relative_to(root)
    text = page.read_text(encoding="utf-8")
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code = code != line.lstrip().startswith("```")
        most = CODE_WIDTH if code else WIDTH
        if len(line) > most and not line.startswith("|") and not re.search(r"\]\(|https?://", line):
            yield f"{where}:{number}: {len(line)} characters in a line, where {most} are allowed"
    for path in _PATHS.findall(text):
        if not (root / path).exists() and not re.search(r"NAME|ROOM", path):
            yield f"{where}: there is no {path}"
    for target in _PICTURE.findall(text):
        if "://" not in target and not (page.parent / target).exists():
            yield f"{where}: there is no picture {target}"
    for target in _LINK.findall(text):
        path = target.split("#")[0]
        if path and "://" not in path and not (page.parent / path).exists():
            yield f"{where}: there is no {path}"


def _lonely(root: Path) -> Iterator[str]:
    """Pages of ``docs/`` that neither the menu nor the index of decisions names."""
    menu = (root / "docs/mkdocs.yml").read_text(encoding="utf-8")
    index = (root / "docs/decisions/index.md").read_text(encoding="utf-8")
    for page in (root / "docs").rglob("*.md"):
        name = page.relative_to(root / "docs").as_posix()
        if name not in menu and not (name.startswith("decisions/") and f"({page.name})" in index):
            yield f"docs/{name}: no menu leads to it; name it in docs/mkdocs.yml or docs/decisions/index.md"
