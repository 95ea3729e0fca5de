"""``ft collect`` removes leftovers where the tenants file says so; what today's code leads to is none."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ft_assets.control import identity
from ft_assets.control.retention.collect_unreferenced import collect_unreferenced
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.retention import Leftovers, Retention
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.errors import MissingInput
from tests.cli.conftest import Ft, publish
from tests.e2e.project import Project

TENANTS = TenantsFile(retention=Retention(leftovers=Leftovers(unreferenced_days=1)))


def test_a_dry_run_shows_what_would_go_and_removes_nothing(ft: Ft, project: Project, pair: tuple[str, str]) -> None:
    raw = identity.raw_dataset(Artifacts(project.store), pair[0]).address
    late = f"{raw}/late-writer/rows.jsonl"
    project.store.put(late, b"late")
    assert ft("collect", "--dry-run").stdout == ""
    (project.folder / "tenants.yaml").write_text("retention: {leftovers: {attempt_days: 1, unreferenced_days: 1}}\n")
    assert ft("collect").stdout == ""
    root = project.store.local_path(late)
    assert root is not None
    ago = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(root, (ago, ago))
    said = f"{raw}: folder late-writer (another writer finished first; 0.0 MB)\n"
    assert ft("collect", "--dry-run").stdout == f"would remove {said}"
    assert project.store.exists(late)
    assert ft("collect").stdout == f"removed {said}"
    assert not project.store.exists(late)


def test_what_a_failed_submission_leads_to_stays_until_the_code_makes_something_else(
    project: Project, pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts, now = Artifacts(project.store), datetime.now(UTC)
    asked, _ = submit(
        project.store, load_tenants(), dataset=pair[0], recipe=pair[1], actor="ann", origin="ui", idempotency_key="k"
    )
    finish(project.store, asked, SubmissionStatus.FAILED, reason="no")
    requests = {
        "dataset": lambda: identity.dataset_request(artifacts, pair[0]),
        "base_model": lambda: identity.base_model_request(artifacts, pair[1]),
        "baseline_report": lambda: identity.baseline_report_request(artifacts, pair[1]),
        "token_pack": lambda: identity.token_pack_request(artifacts, *pair),
        "checkpoint": lambda: identity.checkpoint_request(artifacts, *pair),
        "eval_report": lambda: identity.eval_report_request(artifacts, *pair),
    }
    made = {asset: publish(artifacts, request()) for asset, request in requests.items()}
    for days in (0, 2):
        done = collect_unreferenced(artifacts, TENANTS, now=now + timedelta(days=days))
        assert (done.plan.mark, done.addresses) == ((), ())
    old = tuple(str(made[asset].address) for asset in ("eval_report", "checkpoint", "token_pack"))
    with monkeypatch.context() as newer:
        newer.setitem(CODE_VERSIONS, "token_pack", "another")
        assert set(collect_unreferenced(artifacts, TENANTS, now=now).plan.mark) == set(old)
    # Taken back to the earlier code, what that made is led to again.
    assert set(collect_unreferenced(artifacts, TENANTS, now=now + timedelta(days=2)).plan.unmark) == set(old)
    with monkeypatch.context() as newer:
        newer.setitem(CODE_VERSIONS, "token_pack", "another")
        collect_unreferenced(artifacts, TENANTS, now=now)
        assert collect_unreferenced(artifacts, TENANTS, now=now + timedelta(days=2)).addresses == old
        assert identity.dataset(artifacts, pair[0]).address == made["dataset"].address
        assert identity.baseline_report(artifacts, pair[1]).address == made["baseline_report"].address
        with pytest.raises(MissingInput):
            identity.token_pack(artifacts, *pair)
