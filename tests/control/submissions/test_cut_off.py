"""Runs that Dagster's own database cut off are told from those that failed by what they were asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
import psycopg2
import pytest
import sqlalchemy

from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.plan import MOST_AGAIN, Launch, RunState, Stage
from ft_assets.control.submissions.submit import submit
from ft_assets.graph.cut_off import is_databases, was_cut_off
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.run import _execute, drive
from ft_assets.graph.runs import run_states
from ft_assets.records.submissions import Submission, SubmissionStatus
from ft_assets.settings import tags
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import GateRejected, StoreUnavailable, UserError
from tests.control.submissions.test_runs import SUBMISSION
from tests.dagster_private import SqliteEventLogStorage
from tests.e2e.project import Project, make_project
from tests.postgres import postgres_database
from tests.sensors.conftest import add_version

pytestmark = pytest.mark.dagster

AWAY = sqlalchemy.exc.OperationalError("INSERT", {}, psycopg2.OperationalError("server closed the connection"))


def run(instance: dg.DagsterInstance, body: Callable[[], object], **run_tags: str) -> str:
    """The id of a run, named as that of a pair, whose one asset does ``body``."""

    @dg.asset
    def thing() -> None:
        body()

    job = dg.define_asset_job("train_pair", selection=[thing], executor_def=dg.in_process_executor)
    defs = dg.Definitions(assets=[thing], jobs=[job])
    result = defs.resolve_job_def("train_pair").execute_in_process(
        instance=instance, raise_on_error=False, tags=run_tags
    )
    return result.run_id


@contextmanager
def database_away(monkeypatch: pytest.MonkeyPatch, event: str, after: int = 0) -> Iterator[None]:
    """The instance's database is away once, when it is told of ``event`` after as many that it has heard of."""
    store, heard = SqliteEventLogStorage.store_event, [0]

    def fails(self: SqliteEventLogStorage, entry: dg.EventLogEntry) -> None:
        if entry.dagster_event and entry.dagster_event.event_type_value == event:
            heard[0] += 1
            if heard[0] == after + 1:
                raise AWAY
        store(self, entry)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteEventLogStorage, "store_event", fails)
        yield
    assert heard[0] > after, "the database was never told"


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance


@pytest.mark.parametrize("event", ["STEP_START", "ASSET_MATERIALIZATION", "STEP_OUTPUT", "STEP_SUCCESS"])
def test_a_database_that_is_away_at_a_boundary_of_a_step_cuts_its_run_off(instance, monkeypatch, event) -> None:
    with database_away(monkeypatch, event):
        run_id = run(instance, lambda: None)
    found = instance.get_run_by_id(run_id)
    assert found.status is dg.DagsterRunStatus.FAILURE
    assert was_cut_off(instance, run_id)


def test_a_connection_to_a_real_database_that_is_cut_in_the_middle_of_a_statement_cuts_the_run_off() -> None:
    cut_once = """
        CREATE SEQUENCE cuts;
        CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            -- A sequence counts on, whatever becomes of the transaction.
            IF NEW.dagster_event_type = 'ASSET_MATERIALIZATION' AND nextval('cuts') = 1 THEN
                PERFORM pg_terminate_backend(pg_backend_pid());
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER cut BEFORE INSERT ON event_logs FOR EACH ROW EXECUTE FUNCTION cut();
    """
    with postgres_database() as plain:
        url = plain.replace("postgresql://", "postgresql+psycopg2://", 1)
        storage = {"postgres": {"postgres_url": url}}
        with dg.instance_for_test(overrides={"storage": storage}) as instance:
            engine = sqlalchemy.create_engine(url)
            with engine.begin() as connection:
                connection.execute(sqlalchemy.text(cut_once))
            engine.dispose()
            first, second = run(instance, lambda: None), run(instance, lambda: None)
            assert was_cut_off(instance, first)
            again = instance.get_run_by_id(second)
            assert again.status is dg.DagsterRunStatus.SUCCESS


def raises(error: BaseException, cause: BaseException | None = None) -> Callable[[], None]:
    def body() -> None:
        raise error from cause

    return body


@pytest.mark.parametrize(
    "body",
    [
        raises(UserError("a row is wrong", where="row 3", remedy="mend it")),
        raises(GateRejected("exact_match fell")),
        raises(StoreUnavailable("the bucket does not answer"), cause=AWAY),
        raises(dg.Failure("it was meant to end"), cause=AWAY),
        raises(ValueError("sqlalchemy.exc.OperationalError: says a row")),
        raises(sqlalchemy.exc.ProgrammingError("SELECT", {}, psycopg2.ProgrammingError("no such column"))),
        raises(sqlalchemy.exc.IntegrityError("INSERT", {}, psycopg2.IntegrityError("twice"))),
    ],
    ids=["user", "gate", "store", "on purpose", "words", "sql", "integrity"],
)
def test_an_error_of_the_user_of_a_gate_or_of_code_is_no_cut(instance: dg.DagsterInstance, body) -> None:
    assert not was_cut_off(instance, run(instance, body))


def test_a_failed_blocking_check_is_no_cut(instance: dg.DagsterInstance) -> None:
    @dg.asset(check_specs=[dg.AssetCheckSpec("gate", asset="thing", blocking=True)])
    def thing() -> dg.MaterializeResult:
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=False, check_name="gate")])

    result = dg.materialize([thing], instance=instance, raise_on_error=False)
    assert not result.success
    assert not was_cut_off(instance, result.run_id)


def test_an_error_of_the_database_that_a_step_met_is_a_cut_and_a_run_without_a_failed_step_none(instance) -> None:
    """A waiting op asks the instance of its run, inside of what Dagster takes for the user's code."""
    assert was_cut_off(instance, run(instance, raises(AWAY)))
    assert not was_cut_off(instance, run(instance, lambda: None))


@pytest.mark.parametrize(
    "name",
    [
        "sqlalchemy.exc.OperationalError",
        "sqlalchemy.exc.TimeoutError",
        "dagster_postgres.utils.DagsterPostgresException",
    ],
)
def test_errors_are_known_by_their_full_names(name: str) -> None:
    short = name.rpartition(".")[2]
    assert is_databases([(short, f"{name}: too many retries for DB connection\n")])
    assert not is_databases([(short, f"some.other.{short}: x\n")])
    assert not is_databases([("BadData", "ft_resources.errors.BadData: x\n"), (short, f"{name}: x\n")])


def test_the_newest_run_says_which_launch_it_was_and_a_tag_that_is_no_number_says_enough(instance) -> None:
    run(instance, raises(AWAY), **{tags.SUBMISSION: SUBMISSION.id})
    assert run_states(instance, SUBMISSION).stages == {Stage.TRAIN_PAIR: RunState.CUT_OFF}
    assert run_states(instance, SUBMISSION).again == {}
    for said, again in (("1", 1), ("2", 2), ("many", MOST_AGAIN), ("9" * 5000, MOST_AGAIN)):
        run(instance, raises(AWAY), **{tags.SUBMISSION: SUBMISSION.id, tags.AGAIN: said})
        assert run_states(instance, SUBMISSION).again == {Stage.TRAIN_PAIR: again}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "project" / "tenants.yaml"))
    monkeypatch.setenv("FT_TRACKING", "off")
    return make_project(tmp_path / "project")


def asked(project: Project) -> Submission:
    register_recipe(project.store, project.recipe(), actor="ann")
    pair = {"dataset": add_version(project), "recipe": "tiny.v1"}
    return submit(project.store, load_tenants(), **pair, actor="ann", origin="python", driver="caller")[0]


def test_the_run_after_one_that_was_cut_off_finds_what_that_had_made(project, monkeypatch) -> None:
    submission, instance = asked(project), project.instance()
    list_keys(instance, dataset=submission.dataset)
    launch = Launch(submission=submission, stage=Stage.PREPARE_DATASET)
    # The second asset's work is done and kept when the database is told of it.
    with database_away(monkeypatch, "ASSET_MATERIALIZATION", after=1):
        assert _execute(project.store, instance, launch, NO_TENANTS) is RunState.CUT_OFF
    made = identity.approved_dataset(Artifacts(project.store), submission.dataset)
    attempts = len(attempts_at(project.store, made.address))
    assert _execute(project.store, instance, replace(launch, again=1), NO_TENANTS) is RunState.SUCCEEDED
    assert identity.approved_dataset(Artifacts(project.store), submission.dataset).manifest == made.manifest
    assert len(attempts_at(project.store, made.address)) == attempts == 1


def test_in_the_foreground_too_a_stage_is_launched_again_only_so_often(project, monkeypatch) -> None:
    submission, instance = asked(project), project.instance()
    launched: list[str] = []

    def cut(_: object, __: object, launch: Launch, tenants: TenantsFile) -> RunState:
        launched.append(launch.run_key)
        return RunState.CUT_OFF

    monkeypatch.setattr("ft_assets.graph.run._execute", cut)
    outcome = drive(project.store, instance, submission)
    assert outcome.status is SubmissionStatus.FAILED
    first = f"{submission.id}:prepare_dataset"
    assert launched == [first, f"{first}:again-1", f"{first}:again-2"]
