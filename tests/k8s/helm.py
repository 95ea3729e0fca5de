"""Our chart as Helm itself renders it: with its symbolic links, and a chart in the place of Dagster's."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.k8s.chart import K8S
from tests.k8s.kustomize import Manifest
from tests.k8s.programs import program

HELM = program("helm")
# It shows what Dagster's chart is given.
STUB = """
apiVersion: v1
kind: ConfigMap
metadata: {name: given, namespace: {{ .Release.Namespace }}}
data: {values: {{ toJson .Values | quote }}}
"""


def copy_chart(folder: Path) -> Path:
    """The chart in a copy of ``k8s``, where the one that it depends on is a stub."""
    shutil.copytree(K8S, folder / "k8s", symlinks=True)
    chart = folder / "k8s" / "helm" / "ft-platform"
    (said,) = yaml.safe_load((chart / "Chart.yaml").read_text())["dependencies"]
    stub = chart / "charts" / said["name"]
    (stub / "templates").mkdir(parents=True)
    stub_chart = {"apiVersion": "v2", "name": said["name"], "version": said["version"]}
    (stub / "Chart.yaml").write_text(yaml.safe_dump(stub_chart))
    (stub / "templates" / "given.yaml").write_text(STUB)
    return chart


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False)


def template(chart: Path, values: dict[str, Any] | None = None, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = chart.parent / "values.yaml"
    file.write_text(yaml.safe_dump(values or {}))
    return helm("template", "dagster", chart, "--namespace", "ft-system", "--values", file, *arguments)


def objects(chart: Path, values: dict[str, Any] | None = None, *arguments: str) -> list[Manifest]:
    """What the chart installs, with its tests."""
    done = template(chart, values, *arguments)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def is_hook(manifest: Manifest) -> bool:
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})
