"""Members of records that somebody else wrote: of another kind or missing, at any depth, they are told as damaged.

A tenant's image may be its worker, which writes manifests and its attempts' records; what reads them is the platform,
for all tenants.
"""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ft_assets import api
from ft_assets.records.names import DATASET, Name
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.artifacts import Address, Artifacts, Manifest
from ft_resources.attempts import Attempt, chunk_path, step_rows
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.made import leave
from tests.records.test_golden import DEMO

DATASET_KEY, RECIPE = "demo.docs.v1", "docs-qa.v1"
OTHER = [None, True, "x", "", 7, -1, 1.5, 10**30, 10**400, [], {}, ["x"], {"a": 1}, [[1]], [None]]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The demo's store, with the code versions of then."""
    shutil.copytree(DEMO, tmp_path / "store")
    for spec in DEMO.rglob("spec.json"):
        found = json.loads(spec.read_bytes())
        monkeypatch.setitem(CODE_VERSIONS, found["asset"], found["identity"]["code_version"])
    return Store(str(tmp_path / "store"))


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, each in members:
        yield (*before, name)
        yield from places(each, (*before, name))


def changed(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """A copy of ``value`` with ``other`` at ``place``; with nothing there if that is its own value."""
    value = copy.deepcopy(value)
    inner = value
    for name in place[:-1]:
        inner = inner[name]
    if inner[place[-1]] == other:
        del inner[place[-1]]
    else:
        inner[place[-1]] = other
    return value


def sealed(manifest: dict[str, Any]) -> bytes:
    found = Manifest.model_validate_json(json.dumps({**manifest, "seal": ""}))
    return found.model_copy(update={"seal": found.expected_seal}).data()


def address_of(asset: str) -> str:
    return next(f"{path.parent.relative_to(DEMO)}" for path in sorted(DEMO.glob(f"*/{asset}/*/manifest.json")))


READERS: dict[str, Callable[[Store], object]] = {
    "datasets": lambda store: api.list_datasets(store=store),
    "adapters": lambda store: [
        api.names_of([str(each.address)], store=store) for each in api.list_adapters(store=store)
    ],
    "submissions": lambda store: api.list_submissions(store=store),
    "estimate": lambda store: api.estimate(DATASET_KEY, RECIPE, store=store),
    "gates": lambda store: api.show_gates(DATASET_KEY, RECIPE, store=store),
    "usage": lambda store: api.usage("demo", store=store),
}
MANIFESTS = ("raw_dataset", "dataset", "base_model", "baseline_report", "token_pack", "checkpoint", "adapter")
RECORDS = {
    f"{address_of('checkpoint')}/attempts/0001/{name}.json" for name in ("claim", "launch", "outcome", "progress")
}
RECORDS |= {DATASET.path(DATASET_KEY), Name("suite").path("book-cloze.v1")}


@pytest.mark.parametrize("asset", MANIFESTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(data=st.data())
def test_facts_and_inputs_of_a_manifest_are_what_readers_rely_on_or_told_as_damaged(
    asset: str, store: Store, data: st.DataObject
) -> None:
    path = f"{address_of(asset)}/manifest.json"
    written = store.get(path)
    manifest = json.loads(written)
    part = {name: manifest[name] for name in ("facts", "inputs") if manifest[name]}
    place = data.draw(st.sampled_from(list(places(part))[1:]))
    with suppress(ValueError):
        # What is no manifest at all is another test's.
        store.put(path, sealed({**manifest, **changed(part, place, data.draw(st.sampled_from(OTHER)))}))
    try:
        for read in READERS.values():
            with suppress(UserError):
                read(store)
    finally:
        store.put(path, written)


@pytest.mark.parametrize("path", sorted(RECORDS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(data=st.data())
def test_a_record_is_read_or_told_as_damaged_whatever_its_members_are(
    path: str, store: Store, data: st.DataObject
) -> None:
    written = store.get(path)
    place = data.draw(st.sampled_from(list(places(json.loads(written)))))
    store.put(path, json.dumps(changed(json.loads(written), place, data.draw(st.sampled_from(OTHER)))).encode())
    try:
        for read in READERS.values():
            with suppress(UserError):
                read(store)
    finally:
        store.put(path, written)


@pytest.mark.parametrize(
    ("asset", "facts", "said"),
    [
        ("dataset", {"rows": {"train": "many", "validation": 1, "holdout": 1}}, "rows.train must be a whole number"),
        ("dataset", {"held": None}, "held must be a list"),
        ("checkpoint", {"validation_loss": [[1]]}, "validation_loss.0.1 is missing"),
        ("checkpoint", {"tokens": 10**30}, "tokens must be at most"),
        ("adapter", {"line": 7}, "line must be a text"),
    ],
)
def test_a_fact_of_another_kind_is_told_with_its_place_in_the_manifest(
    asset: str, facts: dict[str, Any], said: str, store: Store
) -> None:
    address = address_of(asset)
    store.put(f"{address}/manifest.json", sealed({**json.loads(store.get(f"{address}/manifest.json")), "facts": facts}))
    with pytest.raises(CorruptArtifact, match=said) as caught:
        Artifacts(store).find(Address.parse(address))
    assert caught.value.where == f"{address}/manifest.json"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("recipe.json", {"training": []}, "training must be an object"),
        ("recipe.json", {"training": {"epochs": "1"}}, "training.epochs must be a whole number"),
        ("recipe.json", {"lora": {"target_modules": [1]}}, "lora.target_modules.*must be a"),
        ("adapter_config.json", {"r": "16"}, "r must be a whole number"),
        ("adapter_config.json", {"rank_pattern": {"q": None}}, "rank_pattern.q must be a whole number"),
        ("report/configuration.json", {"made_for": {}}, "made_for must be a text"),
    ],
)
def test_a_member_of_another_kind_of_an_artifacts_file_is_told_with_its_place(
    name: str, content: object, said: str, store: Store
) -> None:
    request = WorkRequest(asset="checkpoint", tenant="demo", code_version="1", inputs={}, params={}, label="")
    found = leave(Artifacts(store), request, {name: json.dumps(content).encode()})
    with pytest.raises(CorruptArtifact, match=said) as caught:
        found.read_json(name)
    assert caught.value.where.endswith(name)


def test_what_a_manifest_lacks_is_told_where_it_is_asked_for(store: Store) -> None:
    address = address_of("adapter")
    manifest = json.loads(store.get(f"{address}/manifest.json"))
    store.put(f"{address}/manifest.json", sealed({**manifest, "facts": {}, "inputs": {}, "files": {}}))
    found = Artifacts(store).get(Address.parse(address))
    for ask in (lambda: found.facts["line"], lambda: found.manifest.inputs["base"], lambda: found.read("README.md")):
        with pytest.raises(CorruptArtifact, match=r"no '(line|base)'|is not in its manifest"):
            ask()


def test_of_the_steps_that_a_worker_wrote_those_are_read_that_are_rows_of_numbers(store: Store) -> None:
    lines = [b"{", b"[" * 100_000, b"[1]", b"null", b'{"loss": 1}', b'{"step": "1"}', b'{"step": 1' + b"0" * 400 + b"}"]
    kept = b'{"step": 3, "at": 1.5, "loss": 0.5, "note": "x", "parts": [1], "large": 1' + b"0" * 400 + b"}"
    attempt = Attempt(store, Address.parse(address_of("checkpoint")), 9)
    store.put(chunk_path(attempt.path, "steps", 1), b"\n".join([*lines, kept]))
    assert attempt.steps() == list(step_rows(kept)) == [{"step": 3, "at": 1.5, "loss": 0.5}]
