"""The same requests through the command line, Dagster's job and Python: the same records, and the same sentences."""

import inspect
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control.registry.register import register_recipe
from ft_assets.graph.jobs.adapters import promote_job, rollback_job
from ft_assets.graph.jobs.submissions import fine_tune as fine_tune_job
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from tests.cli.conftest import DATASET, LINE, RECIPE, Ft
from tests.e2e.project import Project
from tests.untold import untold

TENANTS = """
tiers:
  supervised: {allowed_methods: [sft]}
tenants:
  acme: {tier: supervised, quota: {hard_gpu_hours: 0.001}}
"""
# What differs from door to door on purpose, and from one moment to the next.
_UNLIKE = {"created_at", "at", "origin"}
# Artifacts have their own tests, and a writer's name in their paths.
_ARTIFACTS = {"raw_dataset", "base_upload", "suite"}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for; files are named by their place in the project's folder."""

    dataset: str = DATASET
    recipe: str = RECIPE
    base: str = ""
    name: str = ""
    policy: str = ""
    holdout: str = ""
    max_gpu_hours: float | None = None
    gates: tuple[str, ...] = ()
    key: str = ""
    before: "Wish | None" = None

    @property
    def of_keys(self) -> bool:
        """Whether the job can be asked too, which takes keys and no files."""
        of_files = (self.name, self.base, self.policy, self.holdout, not self.recipe, "." not in self.dataset)
        return not any(of_files) and not self.recipe.endswith(".yaml")


Sentence = tuple[str, str, str]
# In the name of a submission's place among the jobs.
_TIME = re.compile(r"(?<=/jobs/)[0-9a-f]{5}/[0-9a-f]{11}")
Door = Callable[[Wish], Sentence | None]
"""Asks, and gives what was said to be wrong: what, where, remedy."""


@pytest.fixture
def world(project: Project, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    (project.folder / "tenants.yaml").write_text(TENANTS)
    gpus = {"gpus": 1, "gpu_type": "H100-80GB"}
    for recipe in (project.recipe("globex.own.v1"), project.recipe("big.v1", hardware=gpus)):
        register_recipe(project.store, recipe, actor="ann")
    register_recipe(project.store, project.recipe("old.v1", steps=7), actor="ann")
    api.retire_recipe("old.v1", note="too slow", store=project.store, actor="ann")
    # Not registered; what is recorded of a refused wish would show.
    project.recipe("new.v1", steps=9)
    project.recipe("globex.new.v1", steps=9)
    project.recipe("pairs.v1", method="dpo")
    (project.folder / "broken.yaml").write_text("key: broken.v1\nbase: folder:./base\nstps: 3\n")
    project.dataset(170, "more.jsonl")
    (project.folder / "bad.jsonl").write_text('{"messages": 7}\n')
    (project.folder / "dataset.yaml").write_text("split: {holdout: 0.1}\n")
    return project


@pytest.fixture
def doors(world: Project, ft: Ft, instance: dg.DagsterInstance) -> dict[str, Door]:
    def cli(wish: Wish) -> Sentence | None:
        options = [
            ("--base", wish.base),
            ("--name", wish.name),
            ("--policy", wish.policy),
            ("--holdout", wish.holdout),
            ("--key", wish.key),
        ]
        options += [("--gate", gate) for gate in wish.gates]
        options += [("--max-gpu-hours", "" if wish.max_gpu_hours is None else str(wish.max_gpu_hours))]
        given = [part for option, value in options if value for part in (option, value)]
        result = ft("submit", wish.dataset, *filter(None, [wish.recipe]), *given)
        assert result.exit_code in (0, 2), result.stderr
        return None if result.exit_code == 0 else sentence_in(result.stderr)

    def job(wish: Wish) -> Sentence | None:
        config = {"dataset": wish.dataset, "recipe": wish.recipe, "idempotency_key": wish.key}
        config |= {"max_gpu_hours": wish.max_gpu_hours, "gates": list(wish.gates)}
        return said(lambda: run_job(fine_tune_job, "record_submission", config, world.store, instance))

    def python(wish: Wish) -> Sentence | None:
        return said(
            lambda: api.submit(
                wish.dataset,
                wish.recipe,
                base=wish.base,
                name=wish.name,
                policy=wish.policy or None,
                holdout=[wish.holdout] if wish.holdout else [],
                max_gpu_hours=wish.max_gpu_hours,
                gates=wish.gates,
                key=wish.key,
            )
        )

    return {"cli": cli, "job": job, "python": python}


def run_job(job: dg.JobDefinition, op: str, config: dict[str, Any], store: Store, instance: dg.DagsterInstance) -> None:
    run_config = {"ops": {op: {"config": config}}}
    resources = {"store": StoreResource(url=store.url)}
    with untold():
        job.execute_in_process(run_config=run_config, resources=resources, instance=instance)


def said(ask: Callable[[], object]) -> Sentence | None:
    try:
        ask()
    except UserError as error:
        return error.what, error.where, error.remedy
    return None


def sentence_in(stderr: str) -> Sentence:
    """What ``ft`` printed of an error."""
    lines = [line for line in stderr.splitlines() if line.startswith(("Error: ", "  where: ", "  what to do: "))]
    found = {line.split(": ", 1)[0].strip(): line.split(": ", 1)[1] for line in lines}
    return found["Error"], found.get("where", ""), found.get("what to do", "")


def records(store: Store) -> dict[str, Any]:
    """Every record that asking may write, without what is different on purpose."""
    found = {}
    for path in Path(store.url.removeprefix("file://")).rglob("*.json"):
        if not _ARTIFACTS & set(path.parts):
            record = json.loads(path.read_text())
            said = {name: value for name, value in record.items() if name not in _UNLIKE}
            if "actor" in said:
                # Of what is launched in Dagster it says so.
                said["actor"] = said["actor"].removesuffix(" (in Dagster)")
            found[_TIME.sub("", str(path).rpartition("/store/")[2])] = said
    return found


def through_each(
    world: Project, doors: dict[str, Door], wish: Wish
) -> Iterator[tuple[str, Sentence | None, dict[str, Any]]]:
    """Ask at each door with the store as it was; the door, what it said and the records there are then."""
    store, kept = world.folder / "store", world.folder / "kept"
    shutil.copytree(store, kept)
    for name, door in doors.items():
        if name == "job" and not wish.of_keys:
            continue
        shutil.rmtree(store)
        shutil.copytree(kept, store)
        if wish.before is not None:
            assert door(wish.before) is None
        yield door(wish), records(world.store)


GOOD = {
    "a pair": Wish(),
    "with all there is": Wish(gates=("exact_match > 0.6",), key="ci-7", max_gpu_hours=2.5),
    "again under its key": Wish(key="ci-7", before=Wish(key="ci-7")),
    "again without one": Wish(before=Wish()),
    "files": Wish(dataset="more.jsonl", recipe="new.v1.yaml", name="acme.colours", policy="dataset.yaml"),
    "a first try": Wish(dataset="more.jsonl", recipe="", base="./base"),
    "a first try of a tenant": Wish(dataset="more.jsonl", recipe="", base="folder:./base", name="globex.more"),
    "holdout rows of one's own": Wish(dataset="more.jsonl", name="acme.own", holdout="rows.jsonl"),
}


@pytest.mark.parametrize("wish", GOOD.values(), ids=GOOD)
def test_a_good_request_leaves_the_same_records_at_every_door(
    world: Project, doors: dict[str, Door], wish: Wish
) -> None:
    found = list(through_each(world, doors, wish))
    assert [sentence for sentence, _ in found] == [None] * (3 if wish.of_keys else 2)
    first = found[0][1]
    assert sum(path.startswith("open_submissions/") for path in first) == 1
    assert all(left == first for _, left in found)


BAD = {
    "a dataset that was never added": (Wish(dataset="acme.nothing.v1"), "there is no dataset 'acme.nothing.v1'"),
    "a recipe that was never added": (Wish(recipe="tinny.v1"), "there is no recipe 'tinny.v1'; did you mean 'tiny.v1'"),
    "a retired recipe": (Wish(recipe="old.v1"), "old.v1 was retired by ann"),
    "a retired recipe's file": (Wish(dataset="more.jsonl", recipe="old.v1.yaml", name="acme.more"), "was retired by"),
    "no dataset key": (Wish(dataset="acme.colours"), "acme.colours"),
    "another tenant's recipe": (Wish(recipe="globex.own.v1"), "globex"),
    "more than the quota": (Wish(recipe="big.v1"), "GPU-hours"),
    "a key of something else": (
        Wish(key="ci-7", gates=("exact_match > 0.6",), before=Wish(key="ci-7")),
        "the key 'ci-7' was used for",
    ),
    "a key of the platform's own": (Wish(key="ask-1"), "the platform itself"),
    "a gate that loosens": (Wish(gates=("task_gain.min_relative > 0.001",)), "task_gain"),
    "a gate that is none": (Wish(gates=("exact_match",)), "exact_match"),
    "no maximum": (Wish(max_gpu_hours=-1.0), "GPU-hours is invalid"),
    "a file without a name": (Wish(dataset="more.jsonl", recipe="new.v1.yaml"), "a file of rows needs a dataset name"),
    "a CSV file without a name": (
        Wish(dataset="more.csv", recipe="new.v1.yaml"),
        "a file of rows needs a dataset name",
    ),
    "a split without a name": (
        Wish(dataset="hub:org/name@main#train", recipe="new.v1.yaml"),
        "a file of rows needs a dataset name",
    ),
    "a base and a recipe": (Wish(base="./base"), "both a recipe and a base are named"),
    "neither a base nor a recipe": (Wish(dataset="more.jsonl", recipe=""), "neither a recipe nor a base is named"),
    "a first try of a version": (Wish(recipe="", base="./base"), "a first try without a recipe needs a file of rows"),
    "a first try on a base without a revision": (
        Wish(dataset="more.jsonl", recipe="", base="hub:org/name"),
        "a Hub base needs a revision",
    ),
    "a first try on no base": (Wish(dataset="more.jsonl", recipe="", base="./nothing"), "should be folder:PATH"),
    "a first try of bad rows": (Wish(dataset="bad.jsonl", recipe="", base="./base"), "messages"),
    "a first try of an absent file": (Wish(dataset="absent.jsonl", recipe="", base="./base"), ""),
    "a gate of a first try": (
        Wish(dataset="more.jsonl", recipe="", base="./base", gates=("exact_match > 0.6",)),
        "cannot be added",
    ),
    "no name": (Wish(dataset="more.jsonl", recipe="new.v1.yaml", name="acme"), "'acme' is not a dataset name"),
    "holdout without a file": (Wish(recipe="new.v1.yaml", holdout="rows.jsonl"), "holdout rows belong"),
    "a policy without a file": (Wish(recipe="new.v1.yaml", policy="dataset.yaml"), "a policy belongs"),
    "an unknown dataset and a file": (Wish(dataset="acme.nothing.v1", recipe="new.v1.yaml"), "there is no dataset"),
    "bad rows": (Wish(dataset="bad.jsonl", recipe="new.v1.yaml", name="acme.more"), "messages"),
    "an absent file": (Wish(dataset="absent.jsonl", recipe="new.v1.yaml", name="acme.more"), ""),
    "a broken recipe": (Wish(dataset="more.jsonl", recipe="broken.yaml", name="acme.more"), "stps"),
    "an absent recipe": (Wish(dataset="more.jsonl", recipe="absent.yaml", name="acme.more"), ""),
    "a file for another tenant": (Wish(dataset="more.jsonl", recipe="globex.new.v1.yaml", name="acme.more"), "globex"),
    "a method that is not allowed": (Wish(dataset="more.jsonl", recipe="pairs.v1.yaml", name="acme.more"), "dpo"),
    "a gate of a file that loosens": (
        Wish(dataset="more.jsonl", recipe="new.v1.yaml", name="acme.more", gates=("task_gain.min_relative > 0.001",)),
        "task_gain",
    ),
}


@pytest.mark.parametrize(("wish", "words"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused_in_the_same_words_and_leaves_nothing(
    world: Project, doors: dict[str, Door], wish: Wish, words: str
) -> None:
    before = records(world.store)
    sentences = []
    for sentence, left in through_each(world, doors, wish):
        assert sentence is not None
        assert words in " ".join(sentence)
        assert all(part for part in sentence)
        asked_before = {path for path in left if path not in before}
        assert bool(asked_before) == (wish.before is not None)
        sentences.append(sentence)
    assert len(sentences) == (3 if wish.of_keys else 2)
    assert len(set(sentences)) == 1


@pytest.mark.parametrize(
    ("target", "stage", "words"),
    [
        (LINE, "prod", "'prod' is not a stage"),
        ("acme.nothing.tiny", "staging", ""),
        ("acme/adapter/0123", "staging", "no artifact's fingerprint starts with this"),
    ],
)
def test_a_promotion_is_refused_in_the_same_words(
    world: Project, ft: Ft, instance: dg.DagsterInstance, target: str, stage: str, words: str
) -> None:
    config = {"target": target, "stage": stage, "reason": "good"}
    found = [
        sentence_in(ft("promote", target, "--to", stage, "--reason", "good").stderr),
        said(lambda: run_job(promote_job, "record_promotion", config, world.store, instance)),
        said(lambda: api.promote(target, stage, reason="good")),
    ]
    assert found[0] is not None
    assert words in found[0][0]
    assert found == [found[0]] * 3


def test_a_rollback_is_refused_in_the_same_words(world: Project, ft: Ft, instance: dg.DagsterInstance) -> None:
    config = {"line": LINE, "reason": "bad answers"}
    found = [
        sentence_in(ft("rollback", LINE, "--reason", "bad answers").stderr),
        said(lambda: run_job(rollback_job, "record_rollback", config, world.store, instance)),
        said(lambda: api.roll_back(LINE, reason="bad answers")),
    ]
    assert found[0] is not None
    assert found == [found[0]] * 3


def test_every_name_of_the_api_is_there_and_documented() -> None:
    for name in dir(api):
        found = getattr(api, name)
        assert found.__doc__ or not (inspect.isfunction(found) or inspect.isclass(found)), name
    typed = {
        line.rsplit(" as ", 1)[1]
        for line in Path(api.__file__).read_text().splitlines()
        if line.startswith("    from ft")
    }
    assert typed == set(dir(api))
