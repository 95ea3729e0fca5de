import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.canonical import canonical_json, digest, sha256_file
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.store import Store
from tests.resources.small_work import at_once

IDENTITY = {"asset": "thing", "code_version": "1", "inputs": {}, "params": {"n": 1}}
ADDRESS = Address(tenant="acme", asset="thing", fingerprint=digest(IDENTITY))


def folder_with(path: Path, **files: str) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def publish(artifacts: Artifacts, folder: Path, writer: str = "w1"):
    return artifacts.publish(ADDRESS, folder, writer=writer, identity=IDENTITY, actor="test")


def test_an_artifact_exists_only_with_its_manifest(artifacts: Artifacts, any_store: Store, tmp_path: Path) -> None:
    any_store.put(f"{ADDRESS}/w1/a.txt", b"half")
    assert artifacts.find(ADDRESS) is None
    publish(artifacts, folder_with(tmp_path / "a", a="text"), writer="w2")
    found = artifacts.find(ADDRESS)
    assert found is not None
    assert found.read("a") == b"text"


def test_two_writers_never_mix(artifacts: Artifacts, any_store: Store, tmp_path: Path) -> None:
    folders = [folder_with(tmp_path / each, **{f"f{i}": each for i in range(5)}) for each in "abcdef"]
    made = at_once(6, lambda number: publish(artifacts, folders[number], writer=f"w{number}"))
    assert len({each.manifest.writer for each in made}) == 1
    found = artifacts.get(ADDRESS)
    assert len({found.read(name) for name in found.manifest.files}) == 1
    assert found.verify() == []
    # The losers' files are gone.
    assert {entry.path.split("/")[3] for entry in any_store.entries(str(ADDRESS))} == {
        found.manifest.writer,
        "manifest.json",
    }


def test_one_flipped_byte_is_found_by_every_way_of_reading(
    artifacts: Artifacts, any_store: Store, tmp_path: Path
) -> None:
    artifact = publish(artifacts, folder_with(tmp_path / "a", **{"sub/a": "text", "sub/b": "more"}))
    any_store.put(artifact.location("sub/b"), b"mor3")
    with pytest.raises(CorruptArtifact, match="sub/b"):
        artifact.read("sub/b")
    with pytest.raises(CorruptArtifact, match="sub/b"):
        artifact.folder(tmp_path / "scratch")
    assert any("sub/b" in finding for finding in artifact.verify())
    assert artifact.read("sub/a") == b"text"


def test_a_missing_file_is_corruption_not_absence(artifacts: Artifacts, any_store: Store, tmp_path: Path) -> None:
    artifact = publish(artifacts, folder_with(tmp_path / "a", a="text"))
    any_store.delete(artifact.location("a"))
    with pytest.raises(CorruptArtifact, match="is missing"):
        artifact.read("a")


def test_an_edited_manifest_is_refused(artifacts: Artifacts, any_store: Store, tmp_path: Path) -> None:
    artifact = publish(artifacts, folder_with(tmp_path / "a", a="text"))
    raw = any_store.get_json(f"{ADDRESS}/manifest.json")
    raw["identity"]["params"]["n"] = 2
    any_store.put_json(f"{ADDRESS}/manifest.json", raw)
    with pytest.raises(CorruptArtifact, match="belongs to another"):
        artifacts.find(artifact.address)


@pytest.mark.parametrize("name", ["{outside}", "../../{outside}", "a/../../{outside}", "a//b", "./a", "", "..", "a\0b"])
def test_a_forged_name_leads_nowhere_and_no_file_outside_is_lost(
    artifacts: Artifacts, any_store: Store, tmp_path: Path, name: str
) -> None:
    """The attack: a manifest with an absolute name made a download delete a file of whoever ran it."""
    publish(artifacts, folder_with(tmp_path / "a", a="text"))
    outside = tmp_path / "operators.txt"
    outside.write_text("mine")
    raw = any_store.get_json(f"{ADDRESS}/manifest.json")
    raw["files"] = {name.format(outside=outside): raw["files"]["a"]}
    raw["seal"] = digest({key: value for key, value in raw.items() if key != "seal"})
    any_store.put_json(f"{ADDRESS}/manifest.json", raw)

    def fetch_all() -> None:
        artifact = artifacts.get(ADDRESS)
        for each in artifact.manifest.files:
            artifact.path(each, tmp_path / "scratch")

    with pytest.raises(CorruptArtifact, match="the manifest cannot be read"):
        fetch_all()
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("seal", ["changed", "emptied", "taken out"])
@pytest.mark.parametrize("field", ["facts", "inputs", "content_digest", "created_at"])
def test_a_changed_manifest_is_refused_whatever_was_changed(
    artifacts: Artifacts, any_store: Store, tmp_path: Path, field: str, seal: str
) -> None:
    publish(artifacts, folder_with(tmp_path / "a", a="text"))
    raw = any_store.get_json(f"{ADDRESS}/manifest.json")
    changes = {"facts": {"n": 2}, "inputs": {"up": {"address": "a/b/c", "digest": "d"}}}
    raw |= {field: changes.get(field, "0")}
    if seal == "emptied":
        raw["seal"] = ""
    elif seal == "taken out":
        del raw["seal"]
    any_store.put_json(f"{ADDRESS}/manifest.json", raw)
    with pytest.raises(CorruptArtifact, match="seal"):
        artifacts.find(ADDRESS)


@pytest.mark.parametrize("answer", ["lost", "repeated", "stopped"])
def test_a_manifest_whose_answer_got_lost_keeps_its_files(tmp_path: Path, answer: str) -> None:
    """The files of a published artifact were deleted when its writer did not learn that it had won."""

    class Unlucky(Store):
        def create(self, path: str, data: bytes) -> bool:
            super().create(path, data)
            if answer == "lost":
                raise StoreUnavailable("no answer in time", where=path)
            if answer == "stopped":
                raise KeyboardInterrupt
            return False

    artifacts = Artifacts(Unlucky(str(tmp_path / "store")))
    with suppress(StoreUnavailable, KeyboardInterrupt):
        publish(artifacts, folder_with(tmp_path / "a", a="x"))
    found = artifacts.get(ADDRESS)
    assert found.verify() == []


@pytest.mark.parametrize("refused", ["b", "manifest.json"])
def test_an_artifact_of_which_something_cannot_be_written_leaves_nothing(tmp_path: Path, refused: str) -> None:
    class Full(Store):
        def upload(self, source: Path, path: str) -> None:
            self._refuse(path)
            super().upload(source, path)

        def create(self, path: str, data: bytes) -> bool:
            self._refuse(path)
            return super().create(path, data)

        def _refuse(self, path: str) -> None:
            if path.endswith(refused):
                raise StoreUnavailable("no space left", where=path, remedy="free some")

    store = Full(str(tmp_path / "store"))
    with pytest.raises(StoreUnavailable, match="no space left"):
        publish(Artifacts(store), folder_with(tmp_path / "a", a="x", b="y"))
    assert list(store.entries("acme")) == []


def test_explanations_do_not_change_the_content_digest(artifacts: Artifacts, tmp_path: Path) -> None:
    one = publish(artifacts, folder_with(tmp_path / "a", **{"a": "text", "report/page.html": "x"}))
    other_identity = {**IDENTITY, "code_version": "2"}
    other = artifacts.publish(
        Address(tenant="acme", asset="thing", fingerprint=digest(other_identity)),
        folder_with(tmp_path / "b", **{"a": "text", "report/page.html": "y", "log/worker.txt": "z"}),
        writer="w1",
        identity=other_identity,
        inputs={"up": InputRef(address="a/b/c", digest="d")},
        actor="test",
    )
    assert one.digest == other.digest


def test_an_address_is_parsed_or_refused() -> None:
    assert Address.parse(str(ADDRESS)) == ADDRESS
    with pytest.raises(UserError, match="not an artifact address"):
        Address.parse("a/b")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_the_digest_does_not_depend_on_key_order(value: dict) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(list(value.items()))))


def test_nan_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"loss": float("nan")})


def test_a_disk_that_is_full_or_read_only_says_so(tmp_path: Path) -> None:
    """A file-size limit of the process stands in for a full disk: the kernel refuses the write either way."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "from ft_resources.store import Store; from ft_resources.errors import StoreUnavailable\n"
        "store = Store(sys.argv[1])\n"
        "try:\n    store.put('t/big', bytes(100_000))\n"
        "except StoreUnavailable as error:\n    print(error)\n"
        "print(sorted(entry.path for entry in store.entries('t')))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, check=True)
    assert "t/big: the store refused to write" in done.stdout
    assert "What to do" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_manifest_names_the_commit_and_the_lock_it_was_made_with(artifacts: Artifacts, tmp_path: Path) -> None:
    manifest = publish(artifacts, folder_with(tmp_path / "a", a="x")).manifest
    constraints = Path(__file__).resolve().parents[2] / "constraints.txt"
    assert manifest.lock_digest == sha256_file(constraints)
    assert len(manifest.commit) in (0, 40)
    assert manifest.software["python"]
