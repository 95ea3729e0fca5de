"""What is read at a server looks as it does beside the store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.api import serving
from ft_assets.control.serving.status import write_status
from ft_resources.artifacts import Artifact
from tests.cli.conftest import DATASET, LINE, RECIPE, Ft
from tests.cli.test_review import held as held
from tests.control.serving.world import made_status
from tests.e2e.project import Project
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster
READS = [
    ("dataset", "list"),
    ("dataset", "list", "--json"),
    ("dataset", "list", "acme.colours"),
    ("dataset", "report", DATASET, "--json"),
    ("dataset", "watched"),
    ("dataset", "classifier", "list"),
    ("dataset", "encoder", "list"),
    ("dataset", "name-model", "list"),
    ("suite", "list"),
    ("suite", "catalogue"),
    ("recipe", "list"),
    ("recipe", "list", "--json", "--trials", "--retired"),
    ("recipe", "show", RECIPE),
    ("recipe", "show", RECIPE, "--yaml"),
    ("recipe", "schema"),
    ("adapter", "list"),
    ("estimate", DATASET, RECIPE),
    ("estimate", DATASET, RECIPE, "--json"),
    ("lines",),
    ("line", LINE, "--json"),
    ("lineage", DATASET),
    ("lineage", f"{DATASET}|{RECIPE}"),
    ("verify", DATASET),
    ("notices", "acme"),
    ("usage", "acme"),
    ("usage", "acme", "--json", "--attempts"),
    ("status",),
    ("status", "--json"),
]


def test_what_is_read_looks_as_beside_the_store(made: dict[str, Artifact], beside: Ft, far: Far) -> None:
    for command in READS:
        here, there = beside(*command), far(*command)
        shown = (here.exit_code, here.stdout, here.stderr)
        assert (there.exit_code, there.stdout, there.stderr) == shown, (command, there.exception)


def test_the_page_of_a_report_is_the_consoles(held: tuple[str, str], far: Far, url: str, project: Project) -> None:
    address = api.dataset_report(DATASET, store=project.store).artifact.address
    shown = far("dataset", "report", DATASET).stdout
    assert f"  page: {url.removesuffix('/v1')}/console/reports/{address}/report/report.html\n" in shown


def test_what_is_served_is_shown_of_ones_own_tenant_only(
    far_as: Callable[..., Far], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "status_file", lambda: tmp_path / "status.json")
    write_status(made_status(), tmp_path / "status.json")
    acme, globex = (far_as(tenant)("serve", "status") for tenant in ("acme", "globex"))
    assert (acme.exit_code, globex.exit_code) == (0, 0), acme.output
    assert ("acme.a.tiny" in acme.output, "globex" in acme.output) == (True, False)
    assert ("acme" in globex.output, "weights are damaged" in globex.output) == (False, True)
