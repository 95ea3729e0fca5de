"""What was submitted without a request over HTTP, as ``ft run`` and ``ft submit`` do, is a job like any other."""

import openai
import pytest

from ft_assets import api
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome, finish
from ft_resources.errors import UserError
from tests.e2e.project import Project
from tests.server.conftest import Client, settled, upload


@pytest.fixture
def submission(project: Project) -> Submission:
    asked = api.submit(
        project.dataset(),
        project.recipe("acme.tiny.v1"),
        name="acme.colours",
        origin="cli",
        actor="bo",
        store=project.store,
    )
    return asked.submission


def test_a_submission_of_the_command_line_is_listed_with_its_state_and_events(
    client: Client, project: Project, submission: Submission
) -> None:
    acme = client()
    (job,) = acme.fine_tuning.jobs.list()
    assert (job.status, job.model, job.model_extra["user_provided_suffix"]) == ("queued", "acme.tiny.v1", "colours")
    assert job.model_extra["ft"]["submission"] == submission.id
    assert job.model_extra["ft"]["dataset"] == job.training_file == "acme.colours.v1"
    assert acme.fine_tuning.jobs.retrieve(job.id) == job
    said = [event.message for event in acme.fine_tuning.jobs.list_events(job.id)]
    assert "Submitted by bo: dataset acme.colours.v1 with recipe acme.tiny.v1" in said
    assert not any("file-" in each for each in said)
    finish(project.store, submission, SubmissionStatus.FAILED, reason="the disk is full")
    (job,) = acme.fine_tuning.jobs.list()
    assert (job.status, job.error.message) == ("failed", "the disk is full.")


def test_it_is_cancelled_as_a_job(client: Client, project: Project, submission: Submission) -> None:
    acme = client()
    (job,) = acme.fine_tuning.jobs.list()
    assert acme.fine_tuning.jobs.cancel(job.id).status == "cancelled"
    outcome = find_outcome(project.store, submission)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.CANCELLED


def test_another_tenant_neither_sees_nor_cancels_it(client: Client, submission: Submission) -> None:
    (job,) = client().fine_tuning.jobs.list()
    other = client("other")
    assert not list(other.fine_tuning.jobs.list())
    for does in (other.fine_tuning.jobs.retrieve, other.fine_tuning.jobs.cancel):
        with pytest.raises(openai.NotFoundError):
            does(job.id)


def test_a_request_over_http_is_one_job_and_a_repeated_submission_too(client: Client, project: Project) -> None:
    acme = client()
    asked = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    assert [job.id for job in acme.fine_tuning.jobs.list()] == [asked.id]
    for _ in range(2):
        api.submit("acme.rows.v1", project.recipe("acme.own.v1"), store=project.store)
    assert len(list(acme.fine_tuning.jobs.list())) == 2


def test_what_is_refused_is_not_listed(client: Client, project: Project) -> None:
    with pytest.raises(UserError):
        api.submit("acme.nothing.v1", project.recipe("acme.own.v1"), store=project.store)
    assert not list(client().fine_tuning.jobs.list())
