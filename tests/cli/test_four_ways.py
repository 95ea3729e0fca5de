"""The lines that the pages say to write for each way to use the graph. From Python: ``e2e/test_main_path.py``."""

import re
import shlex

import dagster as dg
import pytest
import yaml

from ft_assets.definitions import build_definitions
from ft_assets.records.submissions import open_submissions
from ft_resources.dagster_resources import StoreResource
from ft_sensors.retraining import retraining_sensor
from tests.cli.conftest import DATASET, RECIPE, Ft
from tests.e2e.project import ROOT, Project

pytestmark = pytest.mark.dagster
_NAMES = {"acme.tickets": "acme.colours", "dataset: tickets": "dataset: colours", "support.v1": RECIPE}


def lines(page: str, language: str) -> list[str]:
    """The page's blocks of a language, with the names of this project's pair."""
    text = (ROOT / f"docs/how-to/{page}.md").read_text(encoding="utf-8")
    for theirs, ours in _NAMES.items():
        text = text.replace(theirs, ours)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_readme_has_the_commands_of_the_pages() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page, command in (("backfill", "ft backfill --dataset"), ("retraining", "ft dataset add more-tickets.csv")):
        (line,) = re.findall(rf"^{command}.*$", (ROOT / f"docs/how-to/{page}.md").read_text("utf-8"), re.MULTILINE)
        assert line in readme


def test_the_job_of_the_ui_records_what_its_configuration_asks_for(
    project: Project, instance: dg.DagsterInstance, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (config,) = lines("dagster", "yaml")
    asked = yaml.safe_load(config)
    job = build_definitions(project.store_url).resolve_job_def("fine_tune")
    assert job.execute_in_process(asked, instance=instance).success
    (submission,) = open_submissions(project.store)
    assert (submission.pair, submission.max_gpu_hours) == ("|".join(pair), 2)
    assert list(submission.gates) == ["exact_match > 0.6"]


def test_the_command_asks_for_one_backfill_over_its_pairs(
    project: Project, instance: dg.DagsterInstance, pair: tuple[str, str], ft: Ft
) -> None:
    command = shlex.split(lines("backfill", "sh")[0].replace(" --recipe rates.v1", ""))
    done = ft(*command[1:])
    assert (done.exit_code, command[0]) == (0, "ft")
    assert [backfill.backfill_id for backfill in instance.get_backfills()] == [done.stdout.strip()]


def test_a_new_version_of_what_is_subscribed_to_requests_its_runs(
    project: Project, instance: dg.DagsterInstance, pair: tuple[str, str], ft: Ft
) -> None:
    (subscription,) = lines("retraining", "yaml")
    (project.folder / "tenants.yaml").write_text(subscription)
    project.dataset(170).rename("more-tickets.jsonl")
    (command,) = lines("retraining", "sh")
    assert ft(*shlex.split(command.replace(".csv", ".jsonl"))[1:]).exit_code == 0
    context = dg.build_sensor_context(instance=instance)
    found = retraining_sensor(context, store=StoreResource(url=project.store_url))
    assert {(each.job_name, each.partition_key) for each in found.run_requests} == {
        ("prepare_dataset", DATASET.replace("v1", "v2")),
        ("prepare_recipe", RECIPE),
    }
