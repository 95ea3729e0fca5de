"""A folder in place of files."""

from pathlib import Path

import pytest

from ft_assets.control.registry.adding import add_dataset
from ft_assets.settings.tenants import NO_TENANTS
from ft_resources.errors import BadData
from ft_resources.store import Store
from tests.workers.datasets.conftest import prose


def add(source: Path | str, store: Store) -> tuple[str, tuple[str, ...]]:
    added = add_dataset(store, NO_TENANTS, source, "acme.docs", None, actor="tester")
    return str(added.key), added.warnings


def test_a_folder_is_the_files_in_it_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    store, docs = Store(str(tmp_path / "store")), tmp_path / "docs"
    (docs / "guides").mkdir(parents=True)
    (docs / ".git").mkdir()
    for name in ("intro.md", "guides/setup.txt", ".git/notes.txt", ".hidden.md"):
        (docs / name).write_text("".join(f"# {name} {n}\n\n{prose((name, n), 300)}\n\n" for n in range(60)))
    (docs / "guides" / "logo.svg").write_text("<svg/>")
    key, warnings = add(docs, store)
    assert warnings == (f"{docs}: left out 1 file that cannot be read as rows: guides/logo.svg",)
    same = add_dataset(
        store, NO_TENANTS, [docs / "guides" / "setup.txt", docs / "intro.md"], "acme.docs", None, actor="tester"
    )
    assert (str(same.key), same.created) == (key, False)


def test_a_folder_without_a_file_of_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.css").write_text("p {}")
    with pytest.raises(BadData, match="no file in this folder can be read"):
        add(tmp_path / "site", Store(str(tmp_path / "store")))
