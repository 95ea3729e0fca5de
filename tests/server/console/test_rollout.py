"""The rollout that is open on a line's page: its stage, the division of traffic, and what outcomes say."""

from datetime import UTC, datetime, timedelta

import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.control.lines.promotion import promote
from ft_assets.control.rollouts.asked import Wish, start
from ft_resources.artifacts import Artifact, Artifacts
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE, decided
from tests.control.rollouts.made import leave_outcomes, traffic
from tests.e2e.project import Project
from tests.server.conftest import access as access
from tests.server.conftest import project as project
from tests.server.conftest import served as served
from tests.server.console.test_proposals import Person

pytestmark = pytest.mark.dagster


def test_the_lines_page_shows_stage_weights_and_bounds_of_the_open_rollout_and_none_without_one(
    adapters: list[Artifact], project: Project, served: FastAPI, access: api.Access
) -> None:
    viewer = Person(served, access, "vic", "viewer")
    artifacts, began = Artifacts(project.store), datetime.now(UTC) - timedelta(hours=1)
    incumbent, candidate = adapters[:2]
    promote(artifacts, str(incumbent.address), "production", decided())
    assert "<h2>Rollout</h2>" not in viewer.page
    wish = Wish(
        candidate=str(candidate.address),
        steps=(5, 25, 100),
        minimum=50,
        outcomes=("thumbs",),
        margins={"thumbs": 0.2},
    )
    start(artifacts, LINE, wish, decided(), now=began)
    seen = traffic(candidate.ref, incumbent.ref, good=(0.8, 0.9), n=40, begin=began)
    leave_outcomes(project.store, seen)
    page = viewer.page
    (evidence,) = api.show_rollout(LINE, store=project.store).evidence
    assert "<h2>Rollout</h2>" in page
    for shown in (
        "5 %<small>",
        "95 %<small>",
        "of 5, 25, 100 %",
        "40 of 50 at this weight",
        f"{evidence.least:+.3f} to {evidence.most:+.3f}",
        "-0.200",
        candidate.address.fingerprint[:12],
    ):
        assert shown in page, shown
    api.cancel_rollout(LINE, reason="enough", store=project.store, actor="ann")
    assert "<h2>Rollout</h2>" not in viewer.page
    copied = Wish(candidate=str(candidate.address), outcomes=("refusal",), shadow=20)
    start(artifacts, LINE, copied, decided())
    page = viewer.page
    for shown in ("20 % copied<small>", "100 %<small>", "its answers are discarded", "0 of 200 at this stage"):
        assert shown in page, shown
    cancelled = api.cancel_rollout(LINE, reason="enough", store=project.store, actor="ann")
    # What cannot be read is told, and takes no button away.
    project.store.put(cancelled.path, cancelled.data().replace(b"enough", b"plenty"))
    page = Person(served, access, "ann").page
    assert "The rollouts of this line cannot be read" in page
    assert "<h2>Roll back</h2>" in page
