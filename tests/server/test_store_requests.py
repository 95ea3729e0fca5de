"""How often an answer asks the store: a request to a bucket takes tens of milliseconds, and some wait for others."""

from collections import Counter
from collections.abc import Callable

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ft_assets import api
from ft_assets.records.submissions import Submission, SubmissionStatus, find_submission, finish
from ft_assets.server.app import api_app
from ft_resources.artifacts import Artifact
from tests.cli.test_lines import adapters as adapters
from tests.e2e.project import Project
from tests.server.conftest import Nobody
from tests.watched_store import WatchedStore

# What matters here is who waits for whom. What begins at one moment begins within so long on a busy machine too.
_LASTS_S = 0.5
Asking = Callable[[WatchedStore], TestClient]


@pytest.fixture
def asking(project: Project, served: FastAPI, access: api.Access) -> Asking:
    """A member's client of an application over the given store, which settles no job."""
    _, key = api.create_key("acme", role="member", access=access, actor="root")

    def make(store: WatchedStore) -> TestClient:
        app = api_app(store, access, orchestrator=Nobody(), settle=lambda job: None)
        return TestClient(
            app, base_url="http://127.0.0.1", headers={"authorization": f"Bearer {key}"}, follow_redirects=False
        )

    return make


def uploaded(project: Project, client: TestClient) -> str:
    rows = project.dataset().read_bytes()
    answer = client.post("/v1/files", files={"file": ("rows.jsonl", rows)}, data={"purpose": "fine-tune"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def create(client: TestClient, file: str, seed: int) -> str:
    answer = client.post("/v1/fine_tuning/jobs", json={"model": "tiny", "training_file": file, "seed": seed})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def waiting_jobs(project: Project, client: TestClient, jobs: int) -> list[Submission]:
    """Jobs that became submissions, which nobody launches."""
    file = uploaded(project, client)
    return [waiting_job(project, client, file, seed) for seed in range(jobs)]


def waiting_job(project: Project, client: TestClient, file: str, seed: int) -> Submission:
    job = api.job_state("acme", create(client, file, seed).removeprefix("ftjob-"), store=project.store).job
    became = api.settle_job(job, store=project.store, orchestrator=Nobody()).submission
    found = find_submission(project.store, "acme", became)
    assert found is not None
    return found


def test_a_job_is_recorded_in_four_turns_at_the_store(project: Project, asking: Asking) -> None:
    store = WatchedStore(project.store_url, lasts_s=_LASTS_S)
    client = asking(store)
    file = uploaded(project, asking(WatchedStore(project.store_url)))
    store.looks.clear()
    create(client, file, seed=1)
    # Whether the tenant was erased; what is known of request and file; the request's key, and the job's
    # marker; the job.
    assert (store.turns, len(store.looks)) == (4, 7), store.looks


def test_a_page_asks_once_for_what_its_jobs_share_and_twice_for_each_job(
    project: Project, asking: Asking, access: api.Access
) -> None:
    store = WatchedStore(project.store_url)
    client = asking(store)
    waiting_jobs(project, client, jobs=6)
    identity = api.identify(client.headers["authorization"].partition(" ")[2], store=store, access=access)
    client.cookies.set("ft-session", api.open_session(identity, store=store, access=access))

    def asked(path: str) -> Counter[tuple[str, str]]:
        store.looks.clear()
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return Counter((look.what, look.path) for look in store.looks)

    # What never changes is read by the first page that shows it.
    asked("/v1/fine_tuning/jobs")
    of_all, of_two = asked("/v1/fine_tuning/jobs"), asked("/v1/fine_tuning/jobs?limit=1")
    # Once by who is let in, once by whose jobs these are.
    assert {each for each, times in of_all.items() if times > 1} <= {("entries", "acme/tombstones/tenant-acme")}
    # Its outcome and its pauses; its recipe, which differs in the seed, never changes.
    assert of_all.total() - of_two.total() == 4 * 2
    assert not [each for each in of_all if each[0] == "names" and "/submissions/" in each[1]]
    assert set(asked("/console/jobs")) == set(of_all)


def test_a_page_reads_at_once_where_its_jobs_were_read_before_and_shows_what_changed_since(
    project: Project, asking: Asking
) -> None:
    store = WatchedStore(project.store_url, lasts_s=_LASTS_S)
    client = asking(store)
    waiting_jobs(project, asking(WatchedStore(project.store_url)), jobs=3)
    newest, *_, oldest = [each["id"] for each in client.get("/v1/fine_tuning/jobs").json()["data"]]
    store.looks.clear()
    client.get("/v1/fine_tuning/jobs")
    # Whether the tenant was erased; the folders of jobs; the names in one; all of the rest.
    assert store.turns == 4, store.looks
    # Another server, or a command, does both.
    elsewhere = asking(WatchedStore(project.store_url))
    elsewhere.post(f"/v1/fine_tuning/jobs/{newest}/pause")
    elsewhere.post(f"/v1/fine_tuning/jobs/{oldest}/cancel")
    listed = {each["id"]: each["status"] for each in client.get("/v1/fine_tuning/jobs").json()["data"]}
    assert list(listed.values()) == ["paused", "queued", "cancelled"]


def test_models_are_listed_without_a_request_for_any_one_job_once_those_that_ended_are_known(
    project: Project, asking: Asking, adapters: list[Artifact]
) -> None:
    store = WatchedStore(project.store_url)
    client = asking(store)
    first, second, _ = waiting_jobs(project, client, jobs=3)
    adapter = str(adapters[0].address)
    for each in (first, second):
        finish(project.store, each, SubmissionStatus.ACCEPTED, adapter=adapter)

    def listed() -> tuple[int, Counter[str]]:
        store.looks.clear()
        models = client.get("/v1/models").json()["data"]
        looks = Counter(look.path for look in store.looks if "tombstones/tenant-" not in look.path)
        return len([each for each in models if each["id"].startswith("ft:")]), looks

    assert listed()[0] == 2
    count, looks = listed()
    assert count == 2
    # What was deleted, and lists.
    assert not [path for path in looks if "/submissions/" in path], looks
    assert not [path for path in looks if "/adapter" in path or path.endswith("/manifest.json")], looks


def test_a_page_within_one_folder_of_jobs_does_not_list_the_folders(project: Project, asking: Asking) -> None:
    store = WatchedStore(project.store_url)
    client = asking(store)
    file = uploaded(project, client)
    jobs = [create(client, file, seed) for seed in range(4)]
    store.looks.clear()
    page = client.get("/v1/fine_tuning/jobs", params={"after": jobs[-1], "limit": 2}).json()
    assert ([each["id"] for each in page["data"]], page["has_more"]) == (jobs[-2:0:-1], True)
    assert [look.path for look in store.looks if look.what == "folders"] == []
