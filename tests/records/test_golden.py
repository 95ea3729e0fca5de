"""Stores stay readable: what older code wrote is read by today's models, and is the same bytes when written again.

``tests/fixtures/store_of_demo`` is the store of a ``make demo`` of 5ba4166 without weights, rows and tokenizers;
``tests/fixtures/records/<kind>`` holds records that a demo does not make, written by the same code at the same paths.
The one change to them: the store's URL in ``spec.json`` names no machine's folder.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ft_assets.control import identity
from ft_assets.control.auto.resolve import training_settings
from ft_assets.control.base_bumps.bump import BaseBump
from ft_assets.control.identity.approvals import ReviewRecord
from ft_assets.control.lines.lines import PromotionRecord, list_lines, read_line
from ft_assets.control.lines.releases import BaseRelease
from ft_assets.control.metering.quota_log import QuotaRecord, read_quota
from ft_assets.control.metering.refunds import RefundDecision
from ft_assets.control.metering.usage import UsageRecord
from ft_assets.control.notices.event import Event
from ft_assets.control.notices.queue_alerts import QueueChange
from ft_assets.control.notices.runs import FailedRun
from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.control.rejections.record import RejectionRecord
from ft_assets.control.submissions.user_keys import KeyRecord
from ft_assets.records.carries import Carry
from ft_assets.records.erased import Erased
from ft_assets.records.pauses import PauseChange
from ft_assets.records.retired_datasets import RetiredDataset
from ft_assets.records.retired_recipes import RetiredRecipe
from ft_assets.records.sources import Pull, Watch
from ft_assets.records.submissions import Submission, SubmissionOutcome
from ft_assets.records.sweep_decision import Decision
from ft_assets.records.tombstones import Tombstone, all_tombstones
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.evals.waivers import WaiverRecord
from ft_resources.artifacts import Artifacts, Manifest
from ft_resources.canonical import canonical_json, digest, sha256_bytes
from ft_resources.store import Store
from ft_resources.strict import parse_strict
from ft_resources.work import WorkSpec

FIXTURES = Path(__file__).parents[1] / "fixtures"
DEMO = FIXTURES / "store_of_demo"

_HEX = r"[0-9a-f]+"
_AT = rf"\w+/\w+/{_HEX}"
# Where each kind of record lies, and what reads it; None: a mapping that is read field by field.
KINDS: dict[str, type[BaseModel] | None] = {
    r"names/(dataset|suite|classifier|encoder|name_model|held_out)/[\w.-]+\.json": None,
    r"names/source/[\w.-]+\.json": Watch,
    r"names/recipe/[\w.-]+\.json": None,
    r"names/base_bump/[\w.-]+\.json": BaseBump,
    r"names/base_release/[\w.-]+\.json": BaseRelease,
    r"names/successor/[\w.-]+/\w+\.json": None,
    r"names/retired/[\w.-]+\.json": None,
    r"names/retired_dataset/[\w.-]+\.json": RetiredDataset,
    r"names/retired_recipe/[\w.-]+/\d+\.json": RetiredRecipe,
    r"(open_attempts|open_submissions|notices_due|unreferenced_since)/\w+/[\w.]+\.json": None,
    r"(retiring|retrainings/[\d-]+)/[\w.-]+\.json": None,
    rf"{_AT}/manifest\.json": Manifest,
    rf"{_AT}/attempts/\d+/spec\.json": WorkSpec,
    rf"{_AT}/attempts/\d+/(claim|launch|outcome|progress|stop|place)\.json": None,
    rf"{_AT}/erased/[\w-]+\.json": Erased,
    rf"{_AT}/waivers/[\w-]+\.json": WaiverRecord,
    r"\w+/lines/[\w.-]+/\d+\.json": PromotionRecord,
    r"\w+/tombstones/[\w.-]+/\d+\.json": Tombstone,
    r"\w+/quota/[\d-]+/\d+\.json": QuotaRecord,
    r"\w+/usage/[\d-]+/[\w.]+\.json": UsageRecord,
    r"\w+/refunds/[\d-]+/[\w.]+\.json": RefundDecision,
    r"\w+/carries/[\w.-]+/[\w.-]+/carry\.json": Carry,
    r"\w+/carries/[\w.-]+/[\w.-]+/training\.json": None,
    rf"\w+/sweeps/{_HEX}\.json": Decision,
    rf"\w+/reviews/[\w.-]+/{_HEX}\.json": ReviewRecord,
    rf"\w+/rejections/{_HEX}/{_HEX}\.json": RejectionRecord,
    rf"\w+/submissions/{_HEX}\.json": Submission,
    rf"\w+/submissions/{_HEX}/outcome\.json": SubmissionOutcome,
    rf"\w+/submissions/{_HEX}/pauses/\d+\.json": PauseChange,
    rf"\w+/submission_keys/{_HEX}\.json": KeyRecord,
    rf"\w+/notices/{_HEX}/event\.json": Event,
    rf"\w+/notices/{_HEX}/[\w-]+/([\d]+(-failed)?|sent|given-up)\.json": None,
    rf"\w+/queue_alerts/{_HEX}/\d+\.json": QueueChange,
    r"\w+/pulls/[\w.-]+/\d+\.json": Pull,
    r"\w+/run_failures/[\w-]+\.json": FailedRun,
}


def stored(root: Path) -> list[tuple[str, bytes]]:
    """Path in the store and bytes of everything below ``root``."""
    return [
        (file.relative_to(root).as_posix(), file.read_bytes()) for file in sorted(root.rglob("*")) if file.is_file()
    ]


def contents(root: Path) -> dict[str, str]:
    """sha256 of every file that a manifest below ``root`` lists, by path."""
    found = {}
    for path, data in stored(root):
        if path.endswith("/manifest.json"):
            manifest = Manifest.model_validate_json(data)
            place = f"{manifest.address}/{manifest.writer}"
            found |= {f"{place}/{name}": entry.sha256 for name, entry in manifest.files.items()}
    return found


def short(path: str) -> str:
    return re.sub(r"([0-9a-f]{6})[0-9a-f]{10,}", r"\1", path)


STORES = [DEMO, *sorted((FIXTURES / "records").iterdir())]
RECORDS = [
    pytest.param(path, data, id=f"{root.name}:{short(path)}")
    for root in STORES
    for listed in [contents(root)]
    for path, data in stored(root)
    if path not in listed
]


@pytest.mark.parametrize(("path", "data"), RECORDS)
def test_a_record_of_before_is_read_and_written_again_as_the_same_bytes(path: str, data: bytes) -> None:
    kinds = [kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, path)]
    assert len(kinds) == 1, f"no kind, or two, of record lies at {path}"
    if kinds[0] is None:
        assert canonical_json(json.loads(data)) == data
    else:
        assert canonical_json(kinds[0].model_validate_json(data).model_dump(mode="json")) == data


def test_every_kind_of_record_has_a_golden_file() -> None:
    paths = [path for root in STORES for path, _ in stored(root)]
    assert [kind for kind in KINDS if not any(re.fullmatch(kind, path) for path in paths)] == []


def test_what_the_demo_made_is_what_its_manifests_say() -> None:
    listed = contents(DEMO)
    kept = [(path, sha256_bytes(data)) for path, data in stored(DEMO) if path in listed]
    assert len(kept) > 20
    assert [path for path, sha256 in kept if sha256 != listed[path]] == []


@pytest.mark.parametrize("path", [path for path, _ in stored(DEMO) if path.endswith("/manifest.json")])
def test_seals_and_fingerprints_of_manifests_are_computed_as_before(path: str) -> None:
    manifest = Manifest.model_validate_json((DEMO / path).read_bytes())
    assert manifest.seal == manifest.expected_seal
    assert digest(manifest.identity) == manifest.fingerprint


def test_logs_of_lines_quotas_and_tombstones_are_read_link_by_link() -> None:
    lines, quota, tombstones = (FIXTURES / "records" / kind for kind in ("lines", "quota", "tombstones"))
    (line,) = list_lines(Store(str(lines)))
    assert len(read_line(Store(str(lines)), line).records) == len(stored(lines)) > 1
    path = stored(quota)[-1][0].split("/")
    assert read_quota(Store(str(quota)), path[0], path[2]).seq == len(stored(quota)) > 1
    (last,) = all_tombstones(Store(str(tombstones)))
    assert last.seq == len(stored(tombstones)) > 1


def test_a_recipes_digest_is_computed_as_before_also_of_sweeps_and_trials() -> None:
    stores = [Store(str(root)) for root in STORES]
    recipes = [(store, key) for store in stores for key in list_recipes(store)]
    assert len(recipes) > 5
    for store, key in recipes:
        # It is refused where its digest is another.
        written = get_recipe(store, key).recipe.model_dump(mode="json")
        assert written == store.get_json(f"names/recipe/{key}.json")["recipe"]


PAIRS = [("demo.docs.v1", "docs-qa.v1"), ("demo.docs.v1", "docs-qa-forgetful.v1")]


@pytest.mark.parametrize(("dataset", "recipe"), PAIRS)
def test_the_demos_pairs_are_found_by_the_code_versions_of_then_where_they_were(
    dataset: str, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = {"dataset": "2", "token_pack": "3", "checkpoint": "2", "baseline_report": "2", "eval_report": "4"}
    then["adapter"] = "3"
    for asset, version in then.items():
        monkeypatch.setitem(CODE_VERSIONS, asset, version)
    artifacts = Artifacts(Store(str(DEMO)))
    assert identity.dataset(artifacts, dataset).manifest.asset == "dataset"
    assert identity.base_model(artifacts, recipe).manifest.asset == "base_model"
    assert identity.baseline_report(artifacts, recipe).manifest.asset == "baseline_report"
    # The forgetful recipe was refused: it has no adapter, and its candidate's address is that of the rejection.
    made = {
        name: artifacts.find(of(artifacts, dataset, recipe).address) for name, of in identity.pair_requests().items()
    }
    refused = recipe == "docs-qa-forgetful.v1"
    assert {name for name, artifact in made.items() if artifact is None} == ({"adapter"} if refused else set())
    request = identity.adapter_request(artifacts, dataset, recipe)
    assert (DEMO / "demo" / "rejections" / request.address.fingerprint).exists() == refused


@pytest.mark.parametrize(("dataset", "recipe"), PAIRS)
def test_packs_and_trainings_of_before_are_made_again_as_other_versions_give_other_labels_and_weights(
    dataset: str, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(Store(str(DEMO)))
    # Curated anew as well, since then with a memory of its holdout.
    assert artifacts.find(identity.dataset_request(artifacts, dataset).address) is None
    monkeypatch.setitem(CODE_VERSIONS, "dataset", "2")
    assert identity.dataset(artifacts, dataset).manifest.asset == "dataset"
    assert artifacts.find(identity.token_pack_request(artifacts, dataset, recipe).address) is None


DIGESTS = json.loads((FIXTURES / "digests.json").read_bytes())
"""Recipes and dataset policies with the digests that 5ba4166 gave them: each names a field that was added later."""


@pytest.mark.parametrize("name", DIGESTS["recipes"])
def test_a_recipe_has_the_digests_that_it_had(name: str) -> None:
    known = DIGESTS["recipes"][name]
    recipe = parse_strict(Recipe, known["content"], name)
    assert digest(recipe.model_dump(mode="json")) == known["digest"]
    assert digest(training_settings(recipe)) == known["training"]
    assert digest(recipe.evaluation.model_dump(mode="json")) == known["evaluation"]


@pytest.mark.parametrize("name", DIGESTS["policies"])
def test_a_dataset_policy_has_the_digest_that_it_had(name: str) -> None:
    known = DIGESTS["policies"][name]
    # A default that was changed on purpose: what was stored then names its value.
    stored = {"personal_data": {"phone_region": "US"}, **known["content"]}
    assert digest(parse_strict(DatasetPolicy, stored, name).model_dump(mode="json")) == known["digest"]


def test_each_field_that_had_been_added_then_has_a_golden_digest_in_which_it_is_set() -> None:
    set_somewhere = {path for known in DIGESTS["recipes"].values() for path in paths(known["content"])}
    added = {path for path, field in fields(Recipe) if field.exclude_if is not None}
    assert len(added & set_somewhere) == 12


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every field of a recipe and of its sections, by dotted path."""
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}", field
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, f"{prefix}{name}.")


def paths(content: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in content.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{name}.")
