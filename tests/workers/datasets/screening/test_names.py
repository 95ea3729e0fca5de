"""Names and places are found by a spaCy model of the user's, run by presidio, and treated like other findings."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ft_assets.settings.dataset.policy import DatasetPolicy, PersonalDataSettings, load_policy
from ft_assets.settings.dataset.recogniser import NameSettings, RecogniserSettings
from ft_assets.workers.datasets.engine.prepare import PrepareSettings
from ft_assets.workers.datasets.screening import names
from ft_assets.workers.datasets.screening.names import NameModel
from ft_assets.workers.datasets.screening.personal import screen
from ft_assets.workers.suites.name_models import add_name_model
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.errors import BadBase, BadRecipe, UserError
from ft_resources.store import Store
from tests.workers.datasets.conftest import Add, WriteRows, prose, report_of, run_curation
from tests.workers.datasets.screening.tiny_names import make_name_model

SENTENCE = "My name is Olga Petrov and I live in Elm Road."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_name_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(folder: Path) -> NameModel:
    pytest.importorskip("presidio_analyzer")
    return NameModel(folder=str(folder), digest="0", language="en")


def asking(*entities: Any, **settings: Any) -> PersonalDataSettings:
    asked = NameSettings(model="tiny.v1", **({"entities": entities} if entities else {}))
    return PersonalDataSettings(names=asked, action="scrub", **settings)


def scrubbed(text: str, model: NameModel, settings: PersonalDataSettings | None = None) -> str:
    return str(screen(pa.array([text]), settings or asking(), model).texts[0].as_py())


def test_names_and_places_become_placeholders_and_others_stay(model: NameModel) -> None:
    assert scrubbed(SENTENCE, model) == "My name is <NAME> and I live in <PLACE>."
    assert scrubbed("How do I reset my password?", model) == "How do I reset my password?"
    assert scrubbed(SENTENCE, model, asking("PERSON")) == "My name is <NAME> and I live in Elm Road."
    assert scrubbed(SENTENCE, model, asking("LOCATION")) == "My name is Olga Petrov and I live in <PLACE>."


def test_places_of_findings_are_counted_in_code_points(model: NameModel) -> None:
    settings = asking().model_copy(update={"action": "detect"})
    found = screen(pa.array(["", f"é. {SENTENCE}"]), settings, model)
    assert found.findings.to_pylist() == [
        {"index": 1, "type": "name", "start": 14, "end": 25},
        {"index": 1, "type": "place", "start": 40, "end": 48},
    ]
    assert found.texts.to_pylist() == ["", f"é. {SENTENCE}"]


def test_a_hidden_name_is_found_and_one_in_an_address_is_part_of_the_address(model: NameModel) -> None:
    assert scrubbed("My name is O\u200blga Petrov and I live in Oxford.", model).startswith("My name is <NAME> and")
    assert scrubbed("Please ask olga.petrov@example.org about it", model) == "Please ask <EMAIL> about it"


def test_json_stays_json_when_its_names_are_replaced(model: NameModel) -> None:
    call = {"text": "Please ask Olga Petrov about it", "to": ["My name is Anna Smith\nand I live in Oxford."], "n": 3}
    plain = json.loads(scrubbed(json.dumps(call), model))
    assert plain == {"text": "Please ask <NAME> about it", "to": ["My name is <NAME>\nand I live in <PLACE>."], "n": 3}


def test_every_kind_of_finding_at_once_fits_a_row(model: NameModel) -> None:
    recogniser = RecogniserSettings(library="presidio", entities=("US_SSN",))
    settings = asking(recogniser=recogniser)
    assert settings.searched == ("card", "iban", "phone", "email", "ip", "secret", "id", "name", "place")
    text = f"{SENTENCE} Her social security number is 536-22-8726, mail o@example.org."
    assert scrubbed(text, model, settings) == (
        "My name is <NAME> and I live in <PLACE>. Her social security number is <ID>, mail <EMAIL>."
    )


def test_the_model_decides_the_key_of_prepared_chunks() -> None:
    policy = DatasetPolicy(personal_data=asking()).model_dump(mode="json")
    one = NameModel(folder="/a", digest="1", language="en")
    settings = PrepareSettings(policy=policy, index=None, suites=(), names=one)
    assert settings.key == replace(settings, names=replace(one, folder="/b")).key
    assert settings.key != replace(settings, names=replace(one, digest="2")).key


def test_an_environment_without_the_library_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer.nlp_engine", None)
    monkeypatch.setitem(sys.modules, "spacy", None)
    names._engine.cache_clear()
    with pytest.raises(UserError, match=r"ft-platform\[presidio\]"):
        scrubbed("a", NameModel(folder=str(tmp_path), digest="0", language="en"))


def test_a_model_that_spacy_cannot_load_is_refused(model: NameModel, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.cfg").write_bytes((folder / "config.cfg").read_bytes())
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(BadBase, match="cannot load the model"):
        scrubbed("a", replace(model, folder=str(tmp_path)))


def test_only_persons_and_locations_may_be_asked_for() -> None:
    with pytest.raises(BadRecipe, match="entities"):
        load_policy("personal_data: {names: {model: tiny.v1, entities: [ORGANIZATION]}}", "dataset.yaml")


@pytest.fixture
def inputs(store: Store, folder: Path) -> dict[str, InputRef]:
    pytest.importorskip("presidio_analyzer")
    return {"name_model": add_name_model(store, folder, "tiny.v1", actor="ann").ref}


@pytest.mark.long
@pytest.mark.training
def test_a_model_whose_component_listens_to_another_is_kept_with_it(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("presidio_analyzer")
    added = add_name_model(store, make_name_model(tmp_path / "two", shared=True), "two.v1", actor="ann")
    kept = Artifacts(store).get(Address.parse(added.ref.address)).folder(tmp_path / "kept")
    model = NameModel(folder=str(kept), digest=added.ref.digest, language=added.language)
    assert scrubbed(SENTENCE, model) == "My name is <NAME> and I live in <PLACE>."


def test_a_version_reports_names_and_places_and_shows_placeholders(
    add: Add, write: WriteRows, artifacts: Artifacts, tmp_path: Path, inputs: Any
) -> None:
    rows = [{"prompt": prose(number, 6), "completion": prose(f"a{number}", 30)} for number in range(150)]
    rows[20] = {"prompt": SENTENCE, "completion": "Please ask Anna Kumar about it"}
    version = add(write(rows), DatasetPolicy(personal_data=asking()))
    artifact = run_curation(artifacts, str(version.key), tmp_path, inputs)
    report = report_of(artifact)
    by_type = {finding.subject: finding for finding in report.findings("personal_data")}
    assert by_type["name"].action == "changed"
    assert 21 in [note.place.row for note in by_type["name"].notes]
    assert 21 in [note.place.row for note in by_type["place"].notes]
    page = artifact.path("report/report.html", tmp_path).read_text()
    assert "names of people" in page
    assert "entities: [" in page
    assert "Olga" not in page


def test_a_policy_with_an_unknown_model_or_entity_is_refused_when_the_version_is_added(
    add: Add, write: WriteRows, store: Store, folder: Path
) -> None:
    rows = write([{"prompt": prose(1, 6), "completion": prose(2, 9)}])
    with pytest.raises(UserError, match=r"there is no name model 'tiny\.v1'"):
        add(rows, DatasetPolicy(personal_data=asking()))
    meta = json.loads((folder / "meta.json").read_text())
    changed = folder.parent / "people"
    changed.mkdir()
    for path in folder.rglob("*"):
        if path.is_file():
            target = changed / path.relative_to(folder)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    (changed / "meta.json").write_text(json.dumps({**meta, "labels": {"ner": ["PERSON"]}}))
    add_name_model(store, changed, "tiny.v1", actor="ann")
    with pytest.raises(UserError, match="does not find LOCATION"):
        add(rows, DatasetPolicy(personal_data=asking()))
