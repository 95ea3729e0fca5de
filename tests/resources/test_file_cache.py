"""The machine's cache of artifacts' files: fetched once by however many jobs, believed only while whole, never beyond
what the disk has. On a real S3 server."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ft_resources import cache_room, file_cache
from ft_resources.artifacts import Address, Artifact, Artifacts, FileEntry
from ft_resources.canonical import digest, sha256_bytes
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.file_cache import FileCache
from ft_resources.store import Store
from tests.counting_store import CountingStore
from tests.resources.small_work import at_once

FILES = {"config.json": b"{}", "model-1.safetensors": b"a" * 3000, "model-2.safetensors": b"b" * 3000, "sub/x": b"x"}
TOTAL = sum(map(len, FILES.values()))


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    return CountingStore.in_new_bucket(monkeypatch, s3_endpoint)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def base(bucket: CountingStore, tmp_path: Path) -> Artifact:
    return publish(bucket, tmp_path)


def publish(store: Store, folder: Path, name: str = "base", files: dict[str, bytes] = FILES) -> Artifact:
    for file, data in files.items():
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    identity = {"asset": name}
    address = Address(tenant="shared", asset="base_model", fingerprint=digest(identity))
    return Artifacts(store).publish(address, folder / name, writer="w1", identity=identity, actor="test")


def read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copy_of(cache: FileCache, data: bytes) -> Path:
    return cache.root / "shared" / sha256_bytes(data)


def test_a_second_job_finds_what_a_first_one_fetched(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path
) -> None:
    for job in ("one", "two"):
        assert read(FileCache(place).folder(base, tmp_path / job / "base")) == FILES
    assert bucket.fetched == dict.fromkeys(FILES, 1)


def test_equal_files_of_two_artifacts_are_one_copy(bucket: CountingStore, place: Path, tmp_path: Path) -> None:
    first = publish(bucket, tmp_path, "one")
    tuned = FILES | {"model-2.safetensors": b"c" * 3000}
    second = publish(bucket, tmp_path, "two", tuned)
    cache = FileCache(place)
    cache.folder(first, tmp_path / "first")
    assert read(cache.folder(second, tmp_path / "second")) == tuned
    assert bucket.fetched == dict.fromkeys(FILES, 1) | {"model-2.safetensors": 2}


def test_only_files_below_the_prefix_are_fetched(bucket: CountingStore, base: Artifact, place: Path) -> None:
    assert read(FileCache(place).folder(base, place / "view", "sub/")) == {"x": b"x"}
    assert bucket.fetched == {"sub/x": 1}
    with pytest.raises(KeyError):
        FileCache(place).folder(base, place / "none", "absent/")


@pytest.mark.parametrize("harm", ["cut short", "written to", "a link", "gone"])
def test_a_copy_that_is_no_longer_what_was_verified_is_fetched_again(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path, harm: str
) -> None:
    cache = FileCache(place)
    cache.folder(base, tmp_path / "one")
    cache.close()
    data = FILES["model-1.safetensors"]
    copy = copy_of(cache, data)
    assert copy.stat().st_mode & 0o222 == 0
    copy.chmod(0o644)
    if harm == "cut short":
        os.truncate(copy, 100)
    elif harm == "written to":
        with copy.open("r+b") as file:
            file.write(b"evil")
    else:
        copy.unlink()
        if harm == "a link":
            (tmp_path / "elsewhere").write_bytes(data)
            copy.symlink_to(tmp_path / "elsewhere")
    assert read(FileCache(place).folder(base, tmp_path / "two")) == FILES
    assert not copy.is_symlink()
    assert bucket.fetched == dict.fromkeys(FILES, 1) | {"model-1.safetensors": 2}


def test_damage_in_the_bucket_is_an_error_and_leaves_nothing_to_believe(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path
) -> None:
    bucket.put(base.location("model-1.safetensors"), b"z" * 3000)
    cache = FileCache(place)
    for _ in range(2):
        with pytest.raises(CorruptArtifact, match=r"model-1\.safetensors"):
            cache.folder(base, tmp_path / "view")
    assert not (tmp_path / "view").exists()
    assert not copy_of(cache, FILES["model-1.safetensors"]).exists()


_JOB = """
import sys, time
from pathlib import Path
from ft_resources.artifacts import Address, Artifacts
from ft_resources.file_cache import FileCache
from ft_resources.store import Store

class Slow(Store):
    def download(self, path, target):
        with open(sys.argv[3], "a") as file:
            file.write(path.split("/w1/")[1] + "\\n")
        super().download(path, target)
        if sys.argv[6] == "dies":
            target.write_bytes(b"half")
            print("half", flush=True)
            time.sleep(600)

print("begun", flush=True)
artifact = Artifacts(Slow(sys.argv[1])).get(Address.parse(sys.argv[5]))
view = FileCache(Path(sys.argv[2])).folder(artifact, Path(sys.argv[4]))
print(sorted((str(p.relative_to(view)), p.stat().st_size) for p in view.rglob("*") if p.is_file()), flush=True)
sys.stdin.read()
"""


def job(base: Artifact, place: Path, tmp_path: Path, number: int, how: str = "works") -> subprocess.Popen[str]:
    arguments = [base.store.url, place, tmp_path / "fetched", tmp_path / f"job-{number}" / "base", base.address, how]
    command = [sys.executable, "-c", _JOB, *map(str, arguments)]
    begun = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert begun.stdout is not None
    assert begun.stdout.readline() == "begun\n"
    return begun


def test_jobs_that_start_together_fetch_each_file_once_between_them(
    base: Artifact, place: Path, tmp_path: Path
) -> None:
    jobs = [job(base, place, tmp_path, number) for number in range(3)]
    found = [each.communicate()[0] for each in jobs]
    assert found == [f"{sorted((name, len(data)) for name, data in FILES.items())}\n"] * 3
    assert Counter((tmp_path / "fetched").read_text().split()) == dict.fromkeys(FILES, 1)


def test_a_job_killed_while_it_fetches_leaves_nothing_that_is_believed(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path
) -> None:
    dying = job(base, place, tmp_path, 0, "dies")
    assert dying.stdout is not None
    assert dying.stdout.readline() == "half\n"
    # Another one waits for it, and takes over.
    waiting = job(base, place, tmp_path, 1)
    dying.send_signal(signal.SIGKILL)
    dying.communicate()
    waiting.communicate()
    assert waiting.returncode == 0
    assert read(FileCache(place).folder(base, tmp_path / "view")) == FILES
    assert bucket.fetched == {}
    assert [path for path in (place / "artifacts" / "shared").iterdir() if path.name.startswith(".")] == []


def test_what_a_living_job_holds_is_not_removed_and_a_dead_one_holds_nothing(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path
) -> None:
    other = publish(bucket, tmp_path, "other", {"weights": b"w" * 5000})
    living = job(base, place, tmp_path, 0)
    assert living.stdout is not None
    living.stdout.readline()
    cache = FileCache(place, TOTAL + 100)
    cache.folder(other, tmp_path / "beside")
    assert all(copy_of(cache, data).exists() for data in FILES.values())
    cache.close()
    living.kill()
    living.wait()
    copy_of(cache, b"w" * 5000).unlink()
    cache.path(other, "weights")
    assert not any(copy_of(cache, FILES[name]).exists() for name in ("model-1.safetensors", "model-2.safetensors"))


def test_the_files_used_longest_ago_make_room(bucket: CountingStore, place: Path, tmp_path: Path) -> None:
    artifact = publish(bucket, tmp_path, "many", {name: name.encode() * 1000 for name in "abcd"})
    cache = FileCache(place, 3000)
    for name in "abcad":
        cache.path(artifact, name)
    assert {path.read_bytes()[:1].decode() for path in (cache.root / "shared").iterdir()} == set("acd")


def test_half_a_file_of_a_dead_process_makes_room_first(bucket: CountingStore, place: Path, tmp_path: Path) -> None:
    artifact = publish(bucket, tmp_path, "two", {name: name.encode() * 1000 for name in "ab"})
    cache = FileCache(place, 2000)
    cache.path(artifact, "a")
    left = cache.root / "shared" / f".{sha256_bytes(b'dead')}.123.fetched"
    left.write_bytes(bytes(900))
    cache.path(artifact, "b")
    assert not left.exists()
    assert cache.path(artifact, "a").stat().st_size == 1000
    assert bucket.fetched == {"a": 1, "b": 1}


def test_a_disk_without_room_is_said_before_anything_is_fetched(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 5000

    monkeypatch.setattr(file_cache.shutil, "disk_usage", lambda path: Usage)
    assert cache_room.shutil is file_cache.shutil
    with pytest.raises(StoreUnavailable, match="FT_CACHE"):
        FileCache(place).folder(base, tmp_path / "view")
    assert bucket.fetched == {}


def test_a_disk_that_fills_up_meanwhile_says_what_to_set(base: Artifact, place: Path) -> None:
    """A file-size limit of the process stands in for a full disk: the kernel refuses the write either way."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path\n"
        "from ft_resources.artifacts import Address, Artifacts\n"
        "from ft_resources.errors import StoreUnavailable\n"
        "from ft_resources.file_cache import FileCache\n"
        "from ft_resources.store import Store\n"
        "artifact = Artifacts(Store(sys.argv[1])).get(Address.parse(sys.argv[2]))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    FileCache(Path(sys.argv[3])).path(artifact, 'model-1.safetensors')\n"
        "except StoreUnavailable as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", code, base.store.url, str(base.address), str(place)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "no room for 1 MiB more" in said
    assert "point FT_CACHE" in said
    assert read(place / "artifacts" / "shared") == {}


def test_a_limit_that_somebody_set_refuses_what_can_never_fit(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="Set FT_CACHE_MB to at least 1"):
        FileCache(place, TOTAL - 1).folder(base, tmp_path / "view")
    assert bucket.fetched == {}


@pytest.mark.parametrize("sha256", ["../../../etc/passwd", "", "A" * 64, "0" * 63 + "/"])
def test_a_digest_that_is_none_is_refused(base: Artifact, place: Path, sha256: str) -> None:
    base.manifest.files["config.json"] = FileEntry(size=2, sha256=sha256)
    with pytest.raises(CorruptArtifact, match="not a sha256"):
        FileCache(place).path(base, "config.json")


@pytest.mark.parametrize("name", ["../outside", "sub/../../outside", "/etc/outside"])
def test_no_name_leads_out_of_the_folder(base: Artifact, place: Path, tmp_path: Path, name: str) -> None:
    cache = FileCache(place)
    cache.path(base, "sub/x")
    base.manifest.files[name] = base.manifest.files["sub/x"]
    with pytest.raises(CorruptArtifact, match="not the name of a file"):
        cache.folder(base, tmp_path / "inner" / "view")
    assert not list(tmp_path.rglob("outside"))


def test_a_digest_is_looked_for_among_the_files_of_its_own_tenant(
    bucket: CountingStore, base: Artifact, place: Path, tmp_path: Path
) -> None:
    """Who names another tenant's digest in a manifest of its own gets what its own store has: nothing."""
    cache = FileCache(place)
    cache.folder(base, tmp_path / "theirs")
    guess = base.manifest.model_copy(update={"tenant": "globex"})
    with pytest.raises(CorruptArtifact, match="is missing"):
        cache.path(Artifact(bucket, guess), "config.json")


@pytest.mark.parametrize("harm", ["a link", "open to others"])
def test_a_cache_that_others_could_write_to_is_refused(base: Artifact, place: Path, tmp_path: Path, harm: str) -> None:
    place.mkdir()
    if harm == "a link":
        (tmp_path / "theirs").mkdir()
        (place / "artifacts").symlink_to(tmp_path / "theirs")
    else:
        (place / "artifacts").mkdir()
        (place / "artifacts").chmod(0o777)
    with pytest.raises(UserError, match="local cache"):
        FileCache(place).path(base, "config.json")


def test_a_store_on_local_disk_is_not_copied_but_verified_and_once_a_job(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = publish(Store(str(tmp_path / "store")), tmp_path)
    view = FileCache(place).folder(base, tmp_path / "view")
    assert read(view) == FILES
    stored = base.path("config.json", tmp_path)
    assert os.path.samefile(view / "config.json", stored)
    assert not place.exists()
    # Another process of the same job believes it.
    monkeypatch.setattr(Artifact, "path", lambda *_: pytest.fail("verified again"))
    assert FileCache(place).folder(base, tmp_path / "view") == view
    monkeypatch.undo()
    stored.write_bytes(b"[]")
    with pytest.raises(CorruptArtifact):
        FileCache(place).folder(base, tmp_path / "another job")


def test_where_links_are_not_to_be_had_a_folder_points_to_the_copies(
    base: Artifact, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "link", refuse)
    view = FileCache(place).folder(base, tmp_path / "view")
    assert read(view) == FILES
    assert (view / "sub/x").is_symlink()


def test_ranks_that_ask_at_once_share_one_folder(base: Artifact, place: Path, tmp_path: Path) -> None:
    assert at_once(4, lambda _: FileCache(place).folder(base, tmp_path / "view")) == [tmp_path / "view"] * 4
    assert read(tmp_path / "view") == FILES
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_folder_and_limit_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_CACHE", raising=False)
    assert FileCache.of_machine(tmp_path).root == tmp_path / "cache" / "artifacts"
    monkeypatch.setenv("FT_CACHE", str(tmp_path / "shared"))
    monkeypatch.setenv("FT_CACHE_MB", "3")
    cache = FileCache.of_machine(tmp_path)
    assert (cache.root, cache.limit) == (tmp_path / "shared" / "artifacts", 3 << 20)


def test_progress_is_told_in_bytes_of_what_is_missing(base: Artifact, place: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    cache = FileCache(place)
    cache.path(base, "model-1.safetensors")
    cache.folder(base, tmp_path / "view", report=lambda done, total: told.append((done, total)))
    assert told == [(0, 3003), (2, 3003), (3002, 3003)]
    cache.folder(base, tmp_path / "again", report=lambda done, total: pytest.fail("fetched again"))
