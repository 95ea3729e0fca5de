"""The page of the API as a reader follows it: every command, from upload to an answer, against a real server."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.site.build import ROOT
from tests.e2e.dagster_server import dagster_server
from tests.e2e.ft_serve import ft_serve
from tests.e2e.project import Project, make_project

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("warm"), pytest.mark.timeout(3600)]

PAGE = ROOT / "docs/how-to/api.md"
_BEFORE = 'set -euo pipefail\nft() { python -m tests.warm_workers.ft "$@"; }\n'


def run(project: Project, commands: str) -> list[Any]:
    """Run commands of the page; the JSON that they print."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", _BEFORE + commands.replace(". .venv/bin/activate", "true")],
        cwd=project.folder,
        env={**project.environment, "PATH": path, "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    decoder, found, text = json.JSONDecoder(), [], done.stdout
    while (at := text.find("{")) >= 0:
        value, length = decoder.raw_decode(text[at:])
        found.append(value)
        text = text[at + length :]
    return found


def test_rows_become_an_answer_by_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path / "project")
    (project.folder / "ft_assets").mkdir()
    (project.folder / "ft_assets/demo").symlink_to(ROOT / "ft_assets/demo")
    monkeypatch.setenv("FT_STATE", str(project.folder / "state"))
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    monkeypatch.setenv("FT_MODELS", str(project.folder / ".ft/api/models.yaml"))
    first, *others = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    made, serve = first.rsplit("\n", 2)[:2]
    assert serve == "FT_MODELS=.ft/api/models.yaml make serve"
    run(project, made)
    with dagster_server(project), ft_serve(project) as url:
        page = "\n".join(others).replace("http://127.0.0.1:8000", url)
        uploaded, completed, job, models, dataset, decision, answer = run(project, page)
    assert (uploaded["key"], completed["key"], dataset["key"]) == ("acme.tickets.v1",) * 3
    assert (job["status"], job["training_file_version"]) == ("succeeded", "acme.tickets.v1"), job
    assert re.fullmatch("tiny@sha256:[0-9a-f]{64}", job["base_model"])
    later = ("step", "loss", "grad_norm", "tokens_per_sec", "checkpoint_path", "cost", "gpu_hours")
    assert [name for name in later if job[name] is None] == []
    assert job["created_at"] <= job["estimated_start"] < job["estimated_completion"]
    assert [each["id"] for each in models["data"]] == [job["fine_tuned_model"]]
    assert (decision["stage"], models["data"][0]["dataset_version"]) == ("staging", "acme.tickets.v1")
    assert answer["model"] == job["fine_tuned_model"]
    assert answer["choices"][0]["message"]["content"].strip()
