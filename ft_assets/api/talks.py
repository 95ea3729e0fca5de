"""Results to talk to: accepted adapters, ungated results and rejected candidates, each beside its base."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import store_or_default
from ft_assets.api.job_states import job_state
from ft_assets.api.submission_lists import list_submissions
from ft_assets.control import identity
from ft_assets.control.rejections.record import last_rejection
from ft_assets.control.serving import names
from ft_assets.control.submissions.status import State, Status
from ft_assets.records.tombstones import require_alive, require_dataset_alive
from ft_assets.settings.environment import caller_tenant
from ft_assets.settings.keys import DatasetKey, RecipeKey, line_of
from ft_assets.settings.ungated import UNGATED
from ft_assets.workers.evals.verdicts import load_evidence
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import MissingInput, NotFound, UserError
from ft_resources.file_cache import FileCache
from ft_resources.store import Store

if TYPE_CHECKING:
    from ft_assets.workers.serving.talk import Talk

_JOB, _MODEL = "ftjob-", "ft:"
_REPORT = "eval_report"
_STATES = {"adapter": State.ACCEPTED, UNGATED: State.UNGATED}

_TALKED_TO = (State.ACCEPTED, State.UNGATED, State.REJECTED)


@dataclass(frozen=True, kw_only=True)
class FoundResult:
    """A result that can be talked to.

    Args:
        address: of the adapter or ungated result; of the evaluation of a candidate that was not let through.
        name: its line.
        state: accepted, ungated or rejected.
    """

    address: str
    name: str
    state: str


def find_result(target: str = "", *, tenant: str = "", store: Store | None = None) -> FoundResult:
    """The result that ``target`` names, of ``tenant`` alone where it is given; the newest one where it is empty.

    A target is an address, a submission's or a job's id, a job's model, ``LINE@staging`` or ``LINE@DIGEST``; or a
    dataset's, a recipe's or a line's key, of which the newest result is taken, and a rejected one only if there is no
    other. Raises NotFound.
    """
    store = store_or_default(store)
    tenant = tenant or caller_tenant()
    if "/" in target:
        return _at(store, target, tenant)
    if target.startswith((_JOB, _MODEL)):
        target = _submission_of_job(store, target, tenant)
    if "@" in target:
        whole = _own(target, tenant)
        artifact = names.find_model(Artifacts(store), whole, tenant=tenant or whole.partition(".")[0])
        return FoundResult(address=str(artifact.address), name=whole, state=State.ACCEPTED)
    ended = [each for each in list_submissions(tenant=tenant, store=store) if each.state in _TALKED_TO]
    named = [each for each in ended if not target or {target, _own(target, tenant)} & _names(each)]
    if not named:
        what = f"there is no result {target!r}" if target else "there is no result yet"
        raise NotFound(what, where="result", remedy="See what there is: ft status. Make one: ft run FILE --base BASE.")
    kept = named if not target else [each for each in named if each.state != State.REJECTED] or named
    return _of(store, kept[0])


@contextmanager
def open_talk(result: FoundResult, *, store: Store | None = None) -> Iterator["Talk"]:
    """The result and its base, loaded in this process while the block runs; every file is verified.

    Raises UserError for what is deleted or gone, CorruptArtifact, BadBase, and StoreUnavailable.
    """
    from ft_assets.workers.adapters.export import measured_weights
    from ft_assets.workers.serving.prompts import Prompts
    from ft_assets.workers.serving.talk import Talk

    artifacts = Artifacts(store_or_default(store))
    found, prefix, template = artifacts.get(Address.parse(result.address)), "", None
    base = artifacts.get(Address.parse(found.manifest.inputs["base"].address))
    is_report = found.address.asset == _REPORT
    if is_report:
        report, template = found, found.manifest.identity["params"]["chat_template"]
        found = artifacts.get(Address.parse(report.manifest.inputs["checkpoint"].address))
        prefix = measured_weights(found, report, load_evidence(report)).prefix
    else:
        require_alive(artifacts.store, found)
    with TemporaryDirectory(prefix="ft-talk-") as scratch:
        cache = FileCache.of_machine(Path(scratch))
        try:
            base_folder = cache.folder(base, Path(scratch) / "base")
            folder = cache.folder(found, Path(scratch) / "result", prefix)
            yield Talk(base_folder, folder, Prompts(base_folder if is_report else folder, template))
        finally:
            cache.close()


def _at(store: Store, target: str, tenant: str) -> FoundResult:
    # What begins like another tenant's address is not looked for either.
    is_own = tenant in ("", Address.parse(target).tenant)
    address = find_address(target, store=store) if is_own else Address.parse(target)
    artifact = Artifacts(store).find(address) if is_own else None
    if artifact is None:
        raise NotFound(f"there is nothing at {target}", where="result", remedy="See what there is: ft status.")
    if address.asset not in _STATES:
        remedy = "Name an adapter or an ungated result; of a rejected candidate, its submission: ft status"
        raise UserError(f"this is of the kind {address.asset}, and does not answer", where=str(address), remedy=remedy)
    return FoundResult(address=str(address), name=str(artifact.facts["line"]), state=_STATES[address.asset])


def _of(store: Store, one: Status) -> FoundResult:
    address = one.adapter
    if one.state == State.REJECTED:
        require_dataset_alive(store, DatasetKey.parse(one.dataset))
        address = _evaluation(Artifacts(store), one)
    return FoundResult(address=address, name=_line(one.dataset, one.recipe), state=one.state)


def _evaluation(artifacts: Artifacts, one: Status) -> str:
    """The address of a rejected candidate's evaluation: today's, or else the one that an earlier version of the code
    made. Raises NotFound."""
    try:
        return str(identity.eval_report(artifacts, one.dataset, one.recipe).address)
    except MissingInput as error:
        record = last_rejection(artifacts.store, one.dataset, one.recipe)
        if record and artifacts.find(Address.parse(record.eval_report.address)):
            return record.eval_report.address
        what = f"the candidate of submission {one.submission} is no longer in the store"
        raise NotFound(what, where="result", remedy=f"Make it again: ft run {one.dataset} {one.recipe}") from error


def _names(one: Status) -> set[str]:
    pair = f"{one.dataset}|{one.recipe}"
    return {one.submission, one.dataset, one.recipe, pair, _line(one.dataset, one.recipe)}


def _line(dataset: str, recipe: str) -> str:
    return line_of(DatasetKey.parse(dataset), RecipeKey.parse(recipe))


def _own(target: str, tenant: str) -> str:
    """``target`` as a key of the tenant, if it may be one without."""
    return f"{tenant}.{target}" if tenant and not target.startswith(f"{tenant}.") else target


def _submission_of_job(store: Store, target: str, tenant: str) -> str:
    """The id of the submission that a job became, by the job's id or the name of its model."""
    job = target.rpartition(":")[2].removeprefix(_JOB)
    for each in [tenant] if tenant else store.tenants():
        try:
            state = job_state(each, job, store=store)
        except NotFound:
            continue
        if state.settled and state.settled.submission:
            return state.settled.submission
    raise NotFound(
        f"there is no job {target!r} that became work", where="result", remedy="See what there is: ft status."
    )
