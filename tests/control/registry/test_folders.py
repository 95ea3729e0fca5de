"""A folder in place of files."""

from pathlib import Path

import pytest

from ft_assets.control.registry.adding import add_dataset
from ft_assets.settings.tenants import NO_TENANTS
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.workers.datasets.conftest import prose, report_of, run_curation


def add(source: Path | str, store: Store) -> tuple[str, tuple[str, ...]]:
    added = add_dataset(store, NO_TENANTS, source, "acme.docs", None, actor="tester")
    return str(added.key), added.warnings


def test_a_folder_is_the_files_in_it_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    store, docs = open_store(str(tmp_path / "store"), create=True), tmp_path / "docs"
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
        add(tmp_path / "site", open_store(str(tmp_path / "store"), create=True))


def test_files_of_one_name_in_several_folders_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """A folder of documents hardly ever has only one index.html or README.md, and was refused for it."""
    store, docs = open_store(str(tmp_path / "store"), create=True), tmp_path / "docs"
    for place in ("a/en/index.md", "b/en/index.md", "b/de/index.md", "b/de/notes.txt"):
        (docs / place).parent.mkdir(parents=True, exist_ok=True)
        (docs / place).write_text("".join(f"# {place} {n}\n\n{prose((place, n), 300)}\n\n" for n in range(60)))
    key, warnings = add(docs, store)
    assert warnings == ()
    uploads = report_of(run_curation(Artifacts(store), key, tmp_path)).uploads
    assert {upload.name for upload in uploads} == {"a/en/index.md", "b/de/index.md", "b/en/index.md", "notes.txt"}


def test_files_of_the_same_bytes_are_read_once_and_named(tmp_path: Path) -> None:
    store, docs = open_store(str(tmp_path / "store"), create=True), tmp_path / "docs"
    text = "".join(f"# {n}\n\n{prose(n, 300)}\n\n" for n in range(150))
    for place in ("lib/README.md", "lib-dev/README.md", "lib-doc/COPY.md"):
        (docs / place).parent.mkdir(parents=True)
        (docs / place).write_text(text)
    key, warnings = add(docs, store)
    assert warnings == (
        "2 files that hold the same bytes as others are left out: lib-dev/README.md (as COPY.md), lib/README.md "
        "(as COPY.md)",
    )
    (docs / "lib" / "README.md").unlink()
    assert add(docs, store)[0] == key


def test_many_files_that_are_left_out_are_counted_by_their_ending(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "text.md").write_text("".join(f"# {n}\n\n{prose(n, 300)}\n\n" for n in range(150)))
    for name in ("NEWS.gz", "README.gz", "a.rst.gz", "logo.png", "LICENSE"):
        (docs / name).write_bytes(b"x")
    _, (warning,) = add(docs, open_store(str(tmp_path / "store"), create=True))
    assert warning == (
        f"{docs}: left out 5 files that cannot be read as rows (2 .gz without another ending, 1 without an ending, "
        "1 .rst.gz, 1 .png): LICENSE, NEWS.gz, README.gz, …"
    )


def test_pictures_of_many_files_are_told_in_one_sentence(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(5):
        text = "".join(f"# {n}\n\n{prose((number, n), 300)}\n\n" for n in range(40))
        (docs / f"{number}.md").write_text(f"{text}![logo](logo.png)\n")
    _, (warning,) = add(docs, open_store(str(tmp_path / "store"), create=True))
    assert warning == (
        "5 pictures in 5 files are left out (0.md, 1.md, 2.md, …); only the text is trained on. Put into words what it "
        "needs."
    )
