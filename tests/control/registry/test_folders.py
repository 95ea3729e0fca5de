"""Uploads: a folder in place of files, and what is told of columns before anything is stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.registry.adding import add_dataset
from ft_assets.control.registry.columns import UnknownColumns
from ft_assets.control.registry.precheck import Checked, check_uploads
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.settings.tenants import NO_TENANTS
from ft_assets.workers.datasets.intake.spool import Spool
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadData, BadRecipe
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.workers.datasets.conftest import prose, report_of, run_curation


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


def document(*about: object, parts: int = 60) -> str:
    return "".join(f"# {about} {n}\n\n{prose((*about, n), 300)}\n\n" for n in range(parts))


def add(source: Path | str, store: Store) -> tuple[str, tuple[str, ...]]:
    added = add_dataset(store, NO_TENANTS, source, "acme.docs", None, actor="tester")
    return str(added.key), added.warnings


def test_a_folder_is_the_files_in_it_and_what_is_left_out_is_told(store, tmp_path) -> None:
    docs = tmp_path / "docs"
    (docs / "guides").mkdir(parents=True)
    (docs / ".git").mkdir()
    for name in ("intro.md", "guides/setup.txt", ".git/notes.txt", ".hidden.md"):
        (docs / name).write_text(document(name))
    (docs / "guides" / "logo.svg").write_text("<svg/>")
    key, warnings = add(docs, store)
    assert warnings == (f"{docs}: left out 1 file that cannot be read as rows: guides/logo.svg",)
    same = add_dataset(
        store, NO_TENANTS, [docs / "guides" / "setup.txt", docs / "intro.md"], "acme.docs", None, actor="tester"
    )
    assert (str(same.key), same.created) == (key, False)


def test_a_folder_without_a_file_of_rows_is_refused(store, tmp_path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.css").write_text("p {}")
    with pytest.raises(BadData, match="no file in this folder can be read"):
        add(tmp_path / "site", store)


def test_files_of_one_name_in_several_folders_are_told_apart_by_their_folders(store, tmp_path) -> None:
    """A folder of documents hardly ever has only one index.html or README.md, and was refused for it."""
    docs = tmp_path / "docs"
    for place in ("a/en/index.md", "b/en/index.md", "b/de/index.md", "b/de/notes.txt"):
        (docs / place).parent.mkdir(parents=True, exist_ok=True)
        (docs / place).write_text(document(place))
    key, warnings = add(docs, store)
    assert warnings == ()
    uploads = report_of(run_curation(Artifacts(store), key, tmp_path)).uploads
    assert {upload.name for upload in uploads} == {"a/en/index.md", "b/de/index.md", "b/en/index.md", "notes.txt"}


def test_files_of_the_same_bytes_are_read_once_and_named(store, tmp_path) -> None:
    docs = tmp_path / "docs"
    text = document(parts=150)
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


def test_many_files_that_are_left_out_are_counted_by_their_ending(store, tmp_path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "text.md").write_text(document(parts=150))
    for name in ("NEWS.gz", "README.gz", "a.rst.gz", "logo.png", "LICENSE"):
        (docs / name).write_bytes(b"x")
    _, (warning,) = add(docs, store)
    assert warning == (
        f"{docs}: left out 5 files that cannot be read as rows (2 .gz without another ending, 1 without an ending, "
        "1 .rst.gz, 1 .png): LICENSE, NEWS.gz, README.gz, …"
    )


def test_pictures_of_many_files_are_told_in_one_sentence(store, tmp_path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(5):
        text = document(number, parts=40)
        (docs / f"{number}.md").write_text(f"{text}![logo](logo.png)\n")
    _, (warning,) = add(docs, store)
    assert warning == (
        "5 pictures in 5 files are left out (0.md, 1.md, 2.md, …); only the text is trained on. Put into words what it "
        "needs."
    )


Row = dict[str, Any]
_LONG = "Please describe in your own words what has happened, and what should have happened instead"


def tickets(**columns: str) -> list[Row]:
    """150 rows of these columns; each text is followed by the row's number."""
    return [{name: f"{text} {number}" for name, text in columns.items()} for number in range(150)]


def classes() -> list[Row]:
    return [
        {"text": f"The thing {number} leaks.", "class": ("roof", "pump", "door")[number % 3]} for number in range(150)
    ]


def check(folder: Path, rows: list[Row], policy: str = "") -> Checked:
    path = folder / "upload"
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    spool = Spool(name="tickets.csv", role="upload", path=path, start=0, source_sha256="", source_size=1)
    return check_uploads([spool], load_policy(policy, "dataset.yaml"))


def refused(folder: Path, rows: list[Row]) -> UnknownColumns:
    with pytest.raises(UnknownColumns) as caught:
        check(folder, rows)
    return caught.value


def test_every_column_is_named_and_those_that_the_advice_does_not_use_of_which_a_long_text_is_none(tmp_path) -> None:
    rows = tickets(**{"Ticket no": "T", "Our subject": "Rain", "Reply of the team": "We come.", "Owner": "Ann"})
    error = refused(tmp_path, rows)
    assert "the row's fields (Owner and 3 more) fit none of" in error.what
    assert "The columns are Ticket no, Our subject, Reply of the team, Owner." in error.remedy
    assert 'fields: {prompt: ["Ticket no", "Our subject"], completion: "Reply of the team"}' in error.remedy
    assert error.remedy.endswith("These fields would not be used: Owner.")
    error = refused(tmp_path, tickets(Subject="Rain", **{_LONG: "It rains into the kitchen."}, Answer="We come."))
    assert f'fields: {{prompt: [Subject, "{_LONG}"], completion: Answer}}' in error.remedy
    assert "not be used" not in error.remedy
    lines = error.remedy.rpartition("`:\n")[2]
    assert check(tmp_path, tickets(Subject="Rain", **{_LONG: "It rains."}, Answer="We come."), lines).rows == 150


def spoken(number: int, **more: Any) -> Row:
    asked = {"who": "customer", "body": f"Where is order {number}?", "at": number}
    return {"talk": [asked, {"who": "agent", "body": "On its way.", "at": number, **more}]}


def test_advice_loses_no_field_that_turns_are_read_with_and_names_those_that_it_loses(tmp_path: Path) -> None:
    error = refused(tmp_path, [spoken(number, reasoning_content="It was sent.") for number in range(150)])
    assert error.remedy.endswith("\nThese fields of the turns would not be used: at.")
    assert "ignore: [at]" in error.remedy
    assert "These fields would" not in error.remedy
    lines = error.remedy.rpartition("`:\n")[2].partition("\nThese")[0]
    assert (
        check(tmp_path, [spoken(number, reasoning_content="It was sent.") for number in range(150)], lines).rows == 150
    )


def test_rows_that_the_advice_does_not_read_are_counted(tmp_path: Path) -> None:
    rows = [
        spoken(number, **({"mood": {"now": "calm"}, "body": ""} if number % 5 == 0 else {})) for number in range(150)
    ]
    assert refused(tmp_path, rows).remedy.endswith("\nOf 50 such rows, 10 still cannot be read.")


def test_a_kind_that_is_the_answer_itself_is_refused_by_name_and_a_copy_of_it_warned_about(tmp_path: Path) -> None:
    rows = [{"prompt": row["text"], "completion": row["class"]} for row in classes()]
    with pytest.raises(BadRecipe, match="kind is the upload's field 'completion', which is the answer itself"):
        check(tmp_path, rows, "fields: {kind: completion}")
    rows = [{**row, "group of goods": row["class"].upper()} for row in classes()]
    mapped = 'fields: {prompt: text, completion: class, kind: "group of goods"}'
    (warning,) = check(tmp_path, rows, mapped).warnings
    assert warning.startswith("The field 'group of goods', which is read as kind, is the answer itself in every row")
    assert check(tmp_path, [*rows[1:], {**rows[0], "group of goods": "other"}], mapped).warnings == ()


@pytest.mark.parametrize("name", ["instructions", "System_Prompt", "persona"])
def test_a_column_of_system_prompts_beside_turns_is_told_with_the_lines_that_use_it(tmp_path: Path, name: str) -> None:
    turns = [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Hello."}]
    rows = [
        {"messages": [{**turns[0], "content": f"Hi, {number}?"}, turns[1]], name: "Be kind."} for number in range(150)
    ]
    (warning,) = check(tmp_path, rows).warnings
    assert f"150 rows have a field {name!r} that is not used: it holds a system prompt" in warning
    lines = f"form: system/messages\nfields: {{system: {name}}}"
    assert lines in warning
    assert check(tmp_path, rows, lines).warnings == ()
