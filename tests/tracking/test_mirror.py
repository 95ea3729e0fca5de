"""The mirror against a real MLflow on SQLite: points once, versions once, and no harm when MLflow is down."""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.attempts import Attempt
from ft_resources.canonical import digest
from ft_resources.errors import UserError
from ft_resources.execution import Observer
from ft_resources.mlflow_ui import command
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.tracking import Mirror, MlflowObserver, default_uri, mirrored, shared_mirror
from ft_resources.work import WorkSpec
from tests.mlflow_tables import new_mlflow as new_mlflow

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = Address(tenant="acme", asset="checkpoint", fingerprint="ab" * 32)
LINE = "acme.support.tiny"
# Nothing here is about speed.
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def uri(new_mlflow: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests of this file; each test uses addresses of its own."""
    return new_mlflow(tmp_path_factory.mktemp("mlflow") / "state")


@pytest.fixture
def client(uri: str) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(uri, uri)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


def attempt_at(store: Store, fingerprint: str, number: int = 1) -> Attempt:
    """A claimed attempt with a spec, as Execution leaves it."""
    address = Address(tenant="acme", asset="checkpoint", fingerprint=fingerprint)
    attempt = Attempt(store, address, number)
    attempt.claim("ann")
    attempt.write_spec(
        WorkSpec(
            asset="checkpoint",
            store_url=store.url,
            store_layout=store.layout,
            address=address,
            attempt=number,
            identity={},
            inputs={"pack": InputRef(address="acme/token_pack/ff", digest="00")},
            params={"training": {"learning_rate": 0.0002, "schedule": "cosine"}, "lora": None},
            runtime={},
            label="acme.support.v1|tiny.v1",
            actor="ann",
        )
    )
    return attempt


def chunk(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps({**row, "at": time.time()}) + "\n" for row in rows).encode()


def run_of(client: Any, fingerprint: str) -> Any:
    experiment = client.get_experiment_by_name("acme").experiment_id
    (run,) = client.search_runs([experiment], f"tags.`ft.address` = 'acme/checkpoint/{fingerprint}'")
    return run


def points(client: Any, run: Any, metric: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric)]


def test_a_curve_that_is_sent_again_has_each_point_once(uri: str, store: Store, client: Any) -> None:
    first, mirror = attempt_at(store, "aa"), Mirror(uri)
    observer = MlflowObserver(mirror, Observer())
    observer.attempt(first, attached=False)
    observer.steps(first, 1, chunk({"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.5}))
    # The validation loss of a step comes in a row of its own, after the training loss.
    observer.steps(first, 2, chunk({"step": 2, "validation_loss": 2.7}, {"step": 3, "loss": 2.25}))
    first.record_ending(Outcome.PREEMPTED)
    observer.ended()
    # Another orchestrator attaches to the second attempt, which resumed after step 1.
    second = attempt_at(store, "aa", 2)
    other = Mirror(uri)
    observer = MlflowObserver(other, Observer())
    observer.attempt(second, attached=True)
    assert mirror.flush(PATIENCE_S) == ""
    observer.steps(second, 1, chunk({"step": 2, "loss": 2.5}, {"step": 2, "validation_loss": 2.7}))
    observer.steps(second, 2, chunk({"step": 3, "loss": 2.25}, {"step": 4, "loss": 2.0}))
    second.record_ending(Outcome.DONE)
    observer.ended()
    assert other.flush(PATIENCE_S) == ""
    run = run_of(client, "aa")
    assert points(client, run, "loss") == [(1, 3.0), (2, 2.5), (3, 2.25), (4, 2.0)]
    assert points(client, run, "validation_loss") == [(2, 2.7)]
    assert run.info.status == "FINISHED"


def test_every_number_of_a_step_is_a_curve_of_its_own_also_where_it_comes_late(
    uri: str, store: Store, client: Any
) -> None:
    attempt, mirror = attempt_at(store, "ac"), Mirror(uri)
    observer = MlflowObserver(mirror, Observer())
    observer.attempt(attempt, attached=False)
    # A CPU has no MFU; a GPU's utilisation is first known after a second.
    first = {"step": 1, "loss": 3.0, "mfu": None, "data_wait_s": 0.1, "rewards/chosen": 0.25}
    second = {"step": 2, "loss": 2.5, "mfu": 0.4, "data_wait_s": 0.2, "gpu_utilisation": 0.9}
    validation = {"step": 2, "validation_loss": 2.0, "validation_perplexity": 7.389056}
    observer.steps(attempt, 1, chunk(first, second, validation))
    observer.steps(attempt, 2, chunk(second, validation))
    assert mirror.flush(PATIENCE_S) == ""
    run = run_of(client, "ac")
    assert points(client, run, "mfu") == [(2, 0.4)]
    assert points(client, run, "gpu_utilisation") == [(2, 0.9)]
    assert points(client, run, "data_wait_s") == [(1, 0.1), (2, 0.2)]
    assert points(client, run, "rewards/chosen") == [(1, 0.25)]
    assert points(client, run, "validation_perplexity") == [(2, 7.389056)]


def test_a_run_shows_the_settled_parameters_and_what_it_was_made_of(uri: str, store: Store, client: Any) -> None:
    attempt = attempt_at(store, "bb")
    with mirrored(uri, logging.getLogger("test"), Observer()) as observer:
        observer.attempt(attempt, attached=False)
        observer.steps(attempt, 1, chunk({"step": 1, "loss": 1.0, "note": "text", "flag": True}))
        attempt.record_ending(Outcome.DIVERGED)
    run = run_of(client, "bb")
    assert run.data.params == {"training.learning_rate": "0.0002", "training.schedule": "cosine", "lora": "null"}
    assert run.data.tags["ft.input.pack"] == "acme/token_pack/ff"
    assert run.info.run_name == "acme.support.v1|tiny.v1"
    assert run.info.status == "FAILED"
    assert set(run.data.metrics) == {"loss"}


def test_work_without_steps_never_touches_mlflow(store: Store, tmp_path: Path) -> None:
    attempt = attempt_at(store, "cc")
    with mirrored(f"sqlite:///{tmp_path}/none.db", logging.getLogger("test"), Observer()) as observer:
        observer.attempt(attempt, attached=False)
        observer.progress({"phase": "packing"})
        attempt.record_ending(Outcome.DONE)
    assert not (tmp_path / "none.db").exists()


def an_adapter(store: Store, folder: Path, seed: int) -> Artifact:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    identity = {"asset": "adapter", "params": {"line": LINE, "seed": seed}}
    return Artifacts(store).publish(
        Address(tenant="acme", asset="adapter", fingerprint=digest(identity)),
        folder,
        writer="w1",
        identity=identity,
        inputs={"checkpoint": InputRef(address=str(ADDRESS), digest="00")},
        facts={"line": LINE, "metrics": {"exact_match": 0.7}},
        actor="ann",
    )


def test_an_adapter_is_one_version_however_often_it_is_registered(
    uri: str, store: Store, client: Any, tmp_path: Path
) -> None:
    one, two = an_adapter(store, tmp_path / "one", 1), an_adapter(store, tmp_path / "two", 2)
    for mirror in (Mirror(uri), Mirror(uri)):
        mirror.register_adapter(one, tags={"ft.dataset": "acme.support.v1"}, card="# Card\n" + "x" * 9000)
        mirror.register_adapter(two, tags={}, card="# Two")
        assert mirror.flush(PATIENCE_S) == ""
    versions = sorted(client.search_model_versions(f"name = '{LINE}'"), key=lambda version: int(version.version))
    assert [version.tags["ft.fingerprint"] for version in versions] == [
        one.address.fingerprint,
        two.address.fingerprint,
    ]
    assert versions[0].source == store.url_of(f"{one.address}/w1")
    assert versions[0].tags["ft.dataset"] == "acme.support.v1"
    assert versions[0].description.startswith("# Card")
    assert len(versions[0].description) <= 5000


def test_when_mlflow_is_down_the_work_gets_one_warning_and_goes_on(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    uri, attempt = f"sqlite:///{tmp_path}/file/mlflow.db", attempt_at(store, "dd")
    for _ in range(2):
        caplog.clear()
        with mirrored(uri, logging.getLogger("test"), Observer()) as observer:
            observer.attempt(attempt, attached=False)
            observer.steps(attempt, 1, chunk({"step": 1, "loss": 1.0}))
            observer.steps(attempt, 2, chunk({"step": 2, "loss": 1.0}))
        assert len(caplog.records) == 1
        assert "the work continues without it" in caplog.text


def test_a_slow_mlflow_holds_the_work_up_no_longer_than_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, answers = Mirror("sqlite:////nowhere/mlflow.db"), threading.Event()
    monkeypatch.setattr(mirror._server, "start", lambda *_: answers.wait(PATIENCE_S))
    mirror.run_started("acme/checkpoint/ee", name="x", params={}, tags={})
    mirror.run_finished("acme/checkpoint/ee", "FINISHED")
    assert "did not answer" in mirror.flush(0.2)
    assert mirror.flush(0.2) == ""
    answers.set()


def test_tracking_can_be_switched_off_and_pointed_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("FT_TRACKING", raising=False)
    monkeypatch.setenv("FT_STATE", str(tmp_path))
    assert default_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    assert default_uri() == "http://mlflow:5000"
    monkeypatch.setenv("FT_TRACKING", "off")
    assert default_uri() == ""
    seen: list[int] = []

    class Watcher(Observer):
        def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
            seen.append(chunk)

    with mirrored("", logging.getLogger("test"), Watcher()) as observer:
        observer.steps(Attempt(Store(str(tmp_path / "s")), ADDRESS, 1), 1, b"")
    assert seen == [1]


def test_a_mirror_that_failed_is_replaced_and_a_good_one_is_shared() -> None:
    good = shared_mirror("sqlite:////nowhere/good.db")
    assert shared_mirror("sqlite:////nowhere/good.db") is good
    good._problem = "failed"
    assert shared_mirror("sqlite:////nowhere/good.db") is not good


def test_importing_the_mirror_imports_no_mlflow() -> None:
    script = "import sys, ft_resources.tracking; raise SystemExit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_the_pages_open_on_the_store_that_trainings_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_TRACKING", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("FT_STATE", str(tmp_path / "state"))
    arguments = command(default_uri(), "5001")
    assert arguments[arguments.index("--backend-store-uri") + 1] == f"sqlite:///{tmp_path}/state/mlflow.db"
    assert (tmp_path / "state").is_dir()
    assert (
        "ft_resources.mlflow_ui"
        in subprocess.run(["make", "-n", "mlflow"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mlflow.example.org")
    with pytest.raises(UserError, match=r"https://mlflow\.example\.org"):
        command(default_uri(), "5001")
    monkeypatch.setenv("FT_TRACKING", "off")
    with pytest.raises(UserError, match="FT_TRACKING"):
        command(default_uri(), "5001")


@pytest.mark.subprocess
def test_two_who_are_first_at_once_make_the_tables_once_and_not_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster migrates by the alembic of this process, perhaps at this moment."""

    def refused(*_: object, **__: object) -> None:
        pytest.fail("a migration in a process that may make others")

    monkeypatch.setattr("alembic.command.upgrade", refused)
    uri = f"sqlite:///{tmp_path}/state/mlflow.db"
    mirrors = [Mirror(uri) for _ in range(2)]
    for number, mirror in enumerate(mirrors):
        mirror.run_started(f"acme/checkpoint/{number}", name="x", params={}, tags={})
    assert [mirror.flush(PATIENCE_S) for mirror in mirrors] == ["", ""]
