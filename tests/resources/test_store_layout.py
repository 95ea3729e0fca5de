"""Where objects lie: tenants' data of a new store below one folder, those of a store from before where they were."""

import ast
import json
from pathlib import Path

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_resources.errors import CorruptArtifact
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.store import Store
from ft_resources.store_layout import MARKER, ROOT_FOLDERS, Layout
from ft_resources.store_marker import open_store
from tests.resources.small_work import at_once, request_for
from tests.s3_server import use_bucket

REPOSITORY = Path(__file__).resolve().parents[2]
TENANTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,12}[a-z0-9])?", fullmatch=True) | st.sampled_from(
    ["tenants", "shared", "store", "names-2"]
)
INSIDE = st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,6}", fullmatch=True), min_size=1, max_size=4).map(
    "/".join
)
PATHS = st.tuples(TENANTS | st.sampled_from(sorted(ROOT_FOLDERS)), INSIDE).map("/".join) | st.just(MARKER)
OLD = {
    "names/dataset/acme.x.v1.json": b"{}",
    "acme/dataset/f/manifest.json": b"m",
}


@given(one=PATHS, other=PATHS, layout=st.sampled_from(Layout))
def test_two_paths_have_two_places_and_a_place_its_path(one: str, other: str, layout: Layout) -> None:
    assert layout.path(layout.place(one)) == one
    assert (layout.place(one) == layout.place(other)) is (one == other)
    # A listing of a folder finds what lies in it and no more.
    inside = other.startswith(f"{one}/")
    assert layout.place(other).startswith(f"{layout.place(one)}/") is inside


@given(tenant=TENANTS, inside=INSIDE, own=st.sampled_from(sorted(ROOT_FOLDERS)))
def test_no_tenants_data_lie_in_a_folder_of_the_stores_own(tenant: str, inside: str, own: str) -> None:
    assert Layout.BELOW.place(f"{own}/{inside}") == f"{own}/{inside}"
    if tenant not in ROOT_FOLDERS:
        assert Layout.BELOW.place(f"{tenant}/{inside}") == f"tenants/{tenant}/{inside}"


@given(path=PATHS)
def test_in_a_store_from_before_everything_lies_where_its_path_says(path: str) -> None:
    assert Layout.BESIDE.place(path) == path


def test_a_further_folder_of_the_stores_own_cannot_be_called_as_a_tenant_that_there_is_already() -> None:
    assert {name for name in ROOT_FOLDERS if "_" not in name} == {"names", "retiring", "retrainings"}
    assert "tenants" not in ROOT_FOLDERS


MARKED = {MARKER: b'{"marked_at":"2026-11-01T00:00:00+00:00"}'}
OF_A_TENANT_CALLED_TENANTS = {"tenants/dataset/f/manifest.json": b"m"}


@pytest.mark.parametrize("more", [{}, MARKED, {**MARKED, **OF_A_TENANT_CALLED_TENANTS}])
def test_a_store_from_before_goes_on_as_it_is(tmp_path: Path, more: dict[str, bytes]) -> None:
    old = {**OLD, **more}
    for path, data in old.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    for create in (False, True, False):
        store = open_store(str(tmp_path), create=create)
        assert {path: store.get(path) for path in old} == old
        assert store.tenants() == sorted({path.split("/")[0] for path in old} - {"names", MARKER})
    store.put("acme/usage/x.json", b"1")
    store.put("globex/usage/x.json", b"2")
    assert {path: (tmp_path / path).read_bytes() for path in old} == old
    assert {each.name for each in tmp_path.iterdir()} == {*(path.split("/")[0] for path in old), MARKER, "globex"}
    assert (tmp_path / "acme" / "usage" / "x.json").read_bytes() == b"1"


@pytest.mark.s3
def test_in_a_new_bucket_all_tenants_data_lie_below_one_prefix(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = use_bucket(monkeypatch, s3_endpoint, "layout")
    store = open_store(url, create=True)
    (tmp_path / "file").write_bytes(b"x")
    store.put("names/dataset/acme.x.v1.json", b"{}")
    store.create("acme/dataset/f/manifest.json", b"m")
    store.upload(tmp_path / "file", "acme/dataset/f/w1/file")
    store.write("shared/suite/f/file", iter([b"x"]))
    found = boto3.client("s3", endpoint_url=s3_endpoint).list_objects_v2(Bucket="layout")["Contents"]
    assert sorted(each["Key"] for each in found) == [
        "root/names/dataset/acme.x.v1.json",
        "root/store.json",
        "root/tenants/acme/dataset/f/manifest.json",
        "root/tenants/acme/dataset/f/w1/file",
        "root/tenants/shared/suite/f/file",
    ]
    again = open_store(url)
    assert again.tenants() == ["acme", "shared"]
    assert again.folders("acme/dataset") == ["f"]
    assert sorted(each.path for each in again.entries("acme")) == [
        "acme/dataset/f/manifest.json",
        "acme/dataset/f/w1/file",
    ]
    assert again.get("acme/dataset/f/w1/file") == b"x"
    assert again.url_of("acme/dataset/f") == f"{url}/tenants/acme/dataset/f"
    again.delete("shared/suite/f/file")
    assert open_store(url).tenants() == ["acme"]


def test_nothing_of_the_stores_own_is_a_tenant_in_either_layout(tmp_path: Path) -> None:
    for layout in Layout:
        store = Store(str(tmp_path / layout.name), layout=layout)
        for name in (*ROOT_FOLDERS, "acme", "shared"):
            store.put(f"{name}/x.json", b"{}")
        assert store.tenants() == ["acme", "shared"]


def test_whoever_creates_a_store_beside_others_has_the_same_layout(tmp_path: Path) -> None:
    found = at_once(8, lambda _: open_store(str(tmp_path / "store"), create=True).layout)
    assert found == [Layout.BELOW] * 8


def test_a_new_store_that_lost_its_marker_is_not_taken_for_one_from_before(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), create=True)
    store.put("names/dataset/acme.x.v1.json", b"{}")
    store.put("acme/dataset/f/manifest.json", b"m")
    store.delete(MARKER)
    for create in (False, True):
        with pytest.raises(CorruptArtifact, match=r'write \{"layout": 2\} there'):
            open_store(str(tmp_path), create=create)
    (tmp_path / MARKER).write_text('{"layout": 2}')
    assert open_store(str(tmp_path)).get("acme/dataset/f/manifest.json") == b"m"


@pytest.mark.usefixtures("warm")
@pytest.mark.subprocess
@pytest.mark.parametrize(("layout", "root"), [(Layout.BESIDE, "acme"), (Layout.BELOW, "tenants/acme")])
def test_a_worker_is_told_where_to_write_and_specs_of_a_store_from_before_are_as_they_were(
    tmp_path: Path, layout: Layout, root: str
) -> None:
    store = Store(str(tmp_path / "store"), layout=layout)
    launcher = LocalLauncher(module="tests.fake_worker")
    made = Execution(store=store, launcher=launcher, poll_s=0.05).run(request_for("write", text="hello"), actor="t")
    assert made.artifact.read("text.txt") == b"hello"
    (manifest,) = (tmp_path / "store").rglob("manifest.json")
    assert manifest.relative_to(tmp_path / "store").as_posix().startswith(f"{root}/write/")
    spec = json.loads((manifest.parent / "attempts/0001/spec.json").read_bytes())
    assert spec.get("store_layout") == (2 if layout is Layout.BELOW else None)
    assert sorted(store.root_folders()) == sorted({root.split("/")[0], "open_attempts"})


@pytest.mark.parametrize("marker", [{"layout": 3}, {"layout": "2"}, {"layout": None}, []])
def test_a_layout_that_this_version_does_not_know_is_refused(tmp_path: Path, marker: object) -> None:
    (tmp_path / MARKER).write_text(json.dumps(marker))
    for create in (False, True):
        with pytest.raises(CorruptArtifact, match=r"which this version does not know|is not a JSON object"):
            open_store(str(tmp_path), create=create)


def test_only_who_knows_the_layout_opens_a_store() -> None:
    """A ``Store`` that was not told would take a new store's tenants for absent, and write beside them."""
    told = {
        "ft_resources/store_marker.py",
        "ft_resources/work.py",
        "ft_assets/workers/datasets/engine/cache.py",
        "ft_assets/server/settling_apart.py",
        # Reads the spec at its place.
        "ft_assets/worker.py",
        # Is told by its command line.
        "ft_resources/kubernetes/warm_process.py",
    }
    found = {
        str(file.relative_to(REPOSITORY))
        for room in ("ft_assets", "ft_resources", "ft_sensors")
        for file in (REPOSITORY / room).rglob("*.py")
        if "Store(" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Store"
    }
    assert found == told
