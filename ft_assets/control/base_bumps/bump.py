"""The record of a base bump: what depended on the old base when it moved."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from ft_assets.control.lines.lines import POINTERS, read_line
from ft_assets.records.due_notices import mark_due
from ft_assets.records.names import BASE_BUMP
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome, find_submission
from ft_assets.records.successors import predecessor
from ft_assets.settings.keys import SHARED, DatasetKey, RecipeKey, line_of
from ft_assets.settings.ungated import without_gates
from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.records import Record
from ft_resources.remembered import Remembered
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel


class Dependent(StrictModel):
    """An accepted adapter on the old base."""

    dataset: str = Field(description="Dataset key.")
    recipe: str = Field(description="The recipe it was accepted under.")
    adapter: InputRef
    checkpoint: InputRef
    gates: tuple[str, ...] = Field(default=(), description="What its submission asked for beyond the recipe's gates.")

    @property
    def line(self) -> str:
        return line_of(DatasetKey.parse(self.dataset), RecipeKey.parse(self.recipe))


class BaseBump(Record):
    """A successor and everything that depended on its predecessors."""

    WHAT: ClassVar[str] = "the base bump"

    recipe: str = Field(description="Key of the successor.")
    dependents: tuple[Dependent, ...]
    actor: str
    at: str = Field(description="UTC, ISO 8601.")


_BUMPS: Remembered[BaseBump] = Remembered(1000)


def find_bump(store: Store, recipe: str) -> BaseBump | None:
    """The bump to ``recipe``, or None if none is recorded. Raises CorruptArtifact."""
    path = BASE_BUMP.path(recipe)
    return _BUMPS.get(store, path, lambda: BaseBump.find(store, path))


def covers(bump: BaseBump, dataset: str) -> bool:
    """Whether the base bump submits the pair of a dataset version and the successor."""
    return any(each.dataset == dataset for each in bump.dependents)


def record_bump(artifacts: Artifacts, recipe: str, *, actor: str, problems: list[str]) -> BaseBump:
    """Record the dependents of the predecessors of ``recipe``, or find the existing record.

    Damaged dependents are skipped and reported in ``problems``. On StoreUnavailable nothing is recorded.
    """
    store = artifacts.store
    found = find_bump(store, recipe)
    if found is not None:
        return found
    at = datetime.now(UTC).isoformat(timespec="seconds")
    dependents = tuple(find_dependents(artifacts, recipe, problems))
    bump = BaseBump(recipe=recipe, dependents=dependents, actor=actor, at=at)
    mark_due(store, "base_bump", SHARED, BASE_BUMP.path(recipe))
    return bump.create_or_get(store, BASE_BUMP.path(recipe))


def find_dependents(artifacts: Artifacts, recipe: str, problems: list[str]) -> list[Dependent]:
    """Dependents of each line with adapters accepted under a predecessor of ``recipe``: its adapters in a stage, or if
    there are none, the adapter of the highest dataset version."""
    store = artifacts.store
    lines: dict[str, dict[str, tuple[Submission, str]]] = {}
    for submission, adapter in _accepted(store, _ranks(store, recipe), problems):
        key = line_of(DatasetKey.parse(submission.dataset), RecipeKey.parse(submission.recipe))
        lines.setdefault(key, {})[adapter] = (submission, adapter)
    found = []
    for line in sorted(lines):
        for submission, adapter in _chosen(store, line, lines[line], problems):
            try:
                artifact = artifacts.find(Address.parse(adapter))
            except CorruptArtifact as error:
                problems.append(f"{adapter}: {error.what}")
                continue
            if artifact is None or without_gates(artifact.manifest.identity["params"]):
                # Erased or lost: there is nothing to carry or to compare with. Ungated: it was never accepted.
                continue
            found.append(
                Dependent(
                    dataset=submission.dataset,
                    recipe=submission.recipe,
                    adapter=artifact.ref,
                    checkpoint=artifact.manifest.inputs["checkpoint"],
                    gates=submission.gates,
                )
            )
    return found


def _ranks(store: Store, recipe: str) -> dict[str, int]:
    """The predecessors of ``recipe``, with the number of steps back to each."""
    ranks: dict[str, int] = {}
    before = predecessor(store, recipe)
    while before and before not in ranks:
        ranks[before] = len(ranks)
        before = predecessor(store, before)
    return ranks


def _accepted(store: Store, ranks: dict[str, int], problems: list[str]) -> Iterator[tuple[Submission, str]]:
    """Accepted submissions with the adapter's address, the earliest predecessor's first, then by age."""
    found = []
    for tenant in store.tenants():
        for entry in store.entries(f"{tenant}/submissions"):
            if entry.path.count("/") != 2:
                continue
            try:
                submission = find_submission(store, tenant, entry.path.rsplit("/", 1)[-1].removesuffix(".json"))
                if submission is None or submission.recipe not in ranks:
                    continue
                outcome = find_outcome(store, submission)
            except CorruptArtifact as error:
                problems.append(f"{entry.path}: {error.what}")
                continue
            if outcome is not None and outcome.status is SubmissionStatus.ACCEPTED and outcome.adapter:
                found.append((submission, outcome.adapter))
    yield from sorted(found, key=lambda each: (-ranks[each[0].recipe], each[0].created_at, each[0].id))


def _chosen(
    store: Store, line: str, accepted: dict[str, tuple[Submission, str]], problems: list[str]
) -> list[tuple[Submission, str]]:
    """One adapter per dataset version: those in a stage, else only that of the highest version."""
    standing: set[str] = set()
    try:
        state = read_line(store, line)
        standing = {record.adapter.address for stage in POINTERS if (record := state.at(stage)) is not None}
    except StoreUnavailable:
        raise
    except UserError as error:
        problems.append(f"line {line}: {error.what}")
    wanted = [each for address, each in accepted.items() if address in standing]
    by_dataset = {each[0].dataset: each for each in wanted or accepted.values()}
    if wanted:
        return [by_dataset[key] for key in sorted(by_dataset)]
    return [by_dataset[max(by_dataset, key=lambda key: DatasetKey.parse(key).version)]]
