"""The page for Prometheus: there if enabled, and never a reason for a training to end."""

import sys
import urllib.request
from pathlib import Path

import pytest

from ft_assets.workers.training.telemetry.prometheus import PORT, MetricsPage, open_page
from ft_resources.artifacts import Address
from ft_resources.work import WorkSpec


@pytest.fixture
def spec(tmp_path: Path) -> WorkSpec:
    return WorkSpec(
        asset="checkpoint",
        store_url=str(tmp_path),
        address=Address(tenant="acme", asset="checkpoint", fingerprint="ab" * 32),
        attempt=3,
        identity={},
        inputs={},
        params={},
        runtime={},
        label="acme.books.v1|tiny.v1",
        actor="ann",
    )


def scraped(page: MetricsPage) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_the_newest_number_of_each_column_is_a_gauge_that_says_whose_it_is(spec: WorkSpec) -> None:
    page = MetricsPage(spec, 0)
    try:
        page.show({"step": 1, "loss": 3.0, "mfu": None, "rewards/chosen": 0.5, "note": "text"})
        page.show({"step": 2, "loss": 2.5})
        labels = '{attempt="3",dataset="acme.books.v1",recipe="tiny.v1",tenant="acme"}'
        names = {"step": 2.0, "loss": 2.5, "rewards_chosen": 0.5}
        assert scraped(page) == {f"ft_training_{name}{labels}": value for name, value in names.items()}
    finally:
        page.close()


def test_nothing_is_served_unless_asked_for(spec: WorkSpec, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_page(spec, {}) is None
    assert open_page(spec, {PORT: ""}) is None
    assert capsys.readouterr().out == ""


def test_a_port_that_is_taken_or_no_port_is_a_warning(spec: WorkSpec, capsys: pytest.CaptureFixture[str]) -> None:
    first = open_page(spec, {PORT: "0"})
    assert first is not None
    try:
        for port in (str(first.port), "many", "99999"):
            assert open_page(spec, {PORT: port}) is None
            assert f"warning: no metrics on port '{port}'" in capsys.readouterr().out
    finally:
        first.close()
    again = open_page(spec, {PORT: str(first.port)})
    assert again is not None, "a page that is closed frees its port"
    again.close()


def test_without_the_library_training_goes_on(spec: WorkSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert open_page(spec, {PORT: "0"}) is None
