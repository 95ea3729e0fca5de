"""Which result is talked to: by everything that people call one, the newest where nothing is said, and never another
tenant's."""

from collections.abc import Callable

import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.rejections.record import quarantine
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import Deleted, NotFound, UserError
from tests.cli.conftest import DATASET, LINE, RECIPE, Ft
from tests.cli.conftest import ft as ft
from tests.cli.conftest import instance as instance
from tests.cli.conftest import made as made
from tests.cli.conftest import made_later as made_later
from tests.cli.conftest import pair as pair
from tests.cli.conftest import project as project
from tests.e2e.project import Project

Made = dict[str, Artifact]
Ended = Callable[..., Submission]


@pytest.fixture
def ended(project: Project, made: Made) -> Ended:
    """Makes a submission of the pair that ended so."""

    def make(status: SubmissionStatus, key: str = "one") -> Submission:
        wish = {"dataset": DATASET, "recipe": RECIPE, "actor": "ann", "origin": "cli", "idempotency_key": key}
        one, _ = submit(project.store, TenantsFile(), **wish)
        finish(project.store, one, status, adapter=str(made["adapter"].address) if status == "accepted" else "")
        return one

    return make


def found(project: Project, target: str = "", tenant: str = "") -> tuple[str, str]:
    result = api.find_result(target, tenant=tenant, store=project.store)
    assert result.name == LINE
    return result.address, result.state


def test_a_result_is_found_by_all_that_people_call_it(project: Project, made: Made, ended: Ended) -> None:
    one, adapter = ended(SubmissionStatus.ACCEPTED), str(made["adapter"].address)
    keys = ("", one.id, DATASET, RECIPE, f"{DATASET}|{RECIPE}", LINE, adapter, adapter[:20])
    for target in keys:
        assert found(project, target) == (adapter, "accepted"), target
        assert found(project, target, "acme") == (adapter, "accepted"), target
        with pytest.raises(NotFound):
            api.find_result(target, tenant="globex", store=project.store)
    # Without the tenant, where it is known.
    for target in ("colours.v1", "colours.tiny"):
        assert found(project, target, "acme") == (adapter, "accepted")


def test_a_rejected_candidate_is_found_by_its_evaluation_and_after_what_was_kept(
    project: Project, made: Made, ended: Ended
) -> None:
    with pytest.raises(NotFound, match="there is no result yet"):
        api.find_result(store=project.store)
    rejected = ended(SubmissionStatus.REJECTED)
    report = str(identity.eval_report(Artifacts(project.store), DATASET, RECIPE).address)
    for target in ("", rejected.id, LINE):
        assert found(project, target) == (report, "rejected")
    ended(SubmissionStatus.FAILED, "two")
    ended(SubmissionStatus.ACCEPTED, "three")
    ended(SubmissionStatus.REJECTED, "four")
    # What a name means is what was kept; a submission is itself.
    states = {target: found(project, target)[1] for target in ("", rejected.id, LINE)}
    assert states == {"": "rejected", rejected.id: "rejected", LINE: "accepted"}


def test_a_rejected_candidate_of_an_earlier_version_of_the_code_is_found_by_its_rejection(
    project: Project, made: Made, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ended(SubmissionStatus.REJECTED)
    request = identity.adapter_request(Artifacts(project.store), DATASET, RECIPE)
    failed = Verdict(gate="task_gain", outcome="fail", reason="worse", numbers={})
    record = quarantine(Artifacts(project.store), request, [failed], actor="ann")
    assert record is not None
    monkeypatch.setitem(CODE_VERSIONS, "eval_report", "of-another-day")
    assert found(project, one.id) == (record.eval_report.address, "rejected")
    project.store.delete(f"{record.eval_report.address}/manifest.json")
    with pytest.raises(NotFound, match="no longer in the store"):
        api.find_result(one.id, store=project.store)


def test_what_is_no_result_is_said(project: Project, made: Made, ended: Ended, ft: Ft) -> None:
    one = ended(SubmissionStatus.ACCEPTED)
    for target in (
        "nobody",
        "ft:tiny:acme:x:0123",
        "ftjob-0123",
        "acme.colours.tiny@staging",
        "acme/adapter/" + "0" * 64,
    ):
        with pytest.raises(NotFound):
            api.find_result(target, store=project.store)
    with pytest.raises(UserError, match="of the kind checkpoint, and does not answer"):
        api.find_result(str(made["checkpoint"].address), store=project.store)
    assert ft("delete", str(made["adapter"].address), "--reason", "wrong data").exit_code == 0
    with pytest.raises(Deleted), api.open_talk(api.find_result(one.id, store=project.store), store=project.store):
        pass
