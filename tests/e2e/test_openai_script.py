"""A script that somebody wrote for OpenAI's API, against ``ft serve`` and a real daemon: from a file to a model."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from ft_assets import api
from tests.e2e.dagster_server import dagster_server, free_port, tail, wait_for
from tests.e2e.project import Project, make_project

pytestmark = pytest.mark.e2e


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path / "project")
    recipe = yaml.safe_load(project.recipe().read_text())
    own = {name: value for name, value in recipe.items() if name not in ("key", "base", "method")}
    models = {"models": {"tiny-1": {"base": "folder:./base", "recipe": own}}}
    (project.folder / "models.yaml").write_text(yaml.safe_dump(models))
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    monkeypatch.setenv("FT_STATE", str(project.folder / "state"))
    monkeypatch.delenv("FT_MODELS", raising=False)
    return project


def test_a_script_for_openai_s_api_gets_its_model_here(project: Project) -> None:
    _, key = api.create_key("acme", name="script", actor="root")
    port, log = free_port(), (project.folder / "serve.log").open("ab")
    serve = [str(Path(sys.executable).parent / "ft"), "serve", "--port", str(port)]
    with dagster_server(project):
        server = subprocess.Popen(serve, env=project.environment, cwd=project.folder, stdout=log, stderr=log)
        try:
            wait_for(lambda: _answers(port), 60, "the API")
            script = [sys.executable, str(Path(__file__).parent / "openai_script.py"), str(project.dataset()), "tiny-1"]
            place = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": key}
            done = subprocess.run(
                script, env={**project.environment, **place}, capture_output=True, text=True, timeout=500
            )
        finally:
            server.terminate()
            server.wait(20)
            log.close()
    said = done.stdout.splitlines()
    assert done.returncode == 0, (done.stdout, done.stderr, tail(project.folder / "serve.log"))
    assert said[0] == "cancelled: cancelled"
    assert "status: succeeded " in said
    model = said[-1].removeprefix("model: ")
    assert model.startswith("ft:tiny-1:acme:colours:")
    assert f"event: New fine-tuned model created: {model}" in said
    steps = sum(line.startswith("event: Step ") for line in said)
    assert "event: Training" in said
    assert any(line.startswith(f"checkpoint: {steps} ") for line in said)
    assert [line.split()[1] for line in said if line.startswith("result: ")] == ["step_metrics.csv", "report.html"]
    assert int(next(line for line in said if line.startswith("tokens: ")).split()[1]) > 0


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/v1/models").status_code == 401
    except httpx.HTTPError:
        return False
