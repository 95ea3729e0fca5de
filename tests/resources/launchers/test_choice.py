"""Which launcher a process gets."""

import sys
from pathlib import Path

import pytest

from ft_resources.dagster_resources import LauncherResource
from ft_resources.errors import BadRecipe, UserError
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.launchers.choice import make_launcher
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.launchers.local import LocalLauncher
from ft_resources.launchers.worker_pythons import worker_pythons
from tests.resources.launchers.conftest import OnCluster


def test_without_a_cluster_workers_run_here() -> None:
    assert isinstance(LauncherResource().launcher, LocalLauncher)


def test_an_unknown_launcher_is_an_error_that_names_the_known() -> None:
    with pytest.raises(UserError, match="'slurm'") as caught:
        make_launcher("slurm")
    assert "kubernetes" in caught.value.remedy


def test_the_python_of_a_kind_of_work_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_pythons() == {}
    monkeypatch.setenv("FT_WORKER_PYTHONS", f"quantized_model={sys.executable}, merged_model={sys.executable},")
    assert worker_pythons() == {"quantized_model": sys.executable, "merged_model": sys.executable}
    assert isinstance(make_launcher("local"), LocalLauncher)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("quantised_model=/bin/sh", "no kind of work 'quantised_model': did you mean 'quantized_model'"),
        ("quantized_model=/nowhere/python", "there is no program '/nowhere/python'"),
        ("quantized_model=/bin", "there is no program '/bin'"),
        ("quantized_model", "there is no program ''"),
    ],
)
def test_a_mistake_in_it_is_told_before_anything_is_launched(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_WORKER_PYTHONS", text)
    with pytest.raises(UserError, match=said) as caught:
        make_launcher("local")
    assert caught.value.where == "FT_WORKER_PYTHONS"


def test_mistakes_of_the_settings_file_come_with_the_nearest_key(tmp_path: Path) -> None:
    file = tmp_path / "kubernetes.yaml"
    with pytest.raises(BadRecipe, match="cannot be read"):
        read_settings(str(file))
    file.write_text("image: registry.example/ft:latest\nqueu: x\n")
    with pytest.raises(BadRecipe, match="queue") as caught:
        read_settings(str(file))
    assert "digest" in str(caught.value)
    file.write_bytes(b"image: x\nqueue: \xff\n")
    with pytest.raises(BadRecipe, match="not UTF-8") as caught:
        read_settings(str(file))
    assert "line 2" in caught.value.where


@pytest.mark.cluster
def test_a_settings_file_and_a_kubeconfig_make_a_cluster_launcher(
    on_cluster: OnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubernetes.yaml"
    file.write_text(f"image: {on_cluster.settings().image}\nstore_egress: [{{cidr: 10.1.0.0/16, port: 9000}}]\n")
    monkeypatch.setenv("KUBECONFIG", str(on_cluster.access.kubeconfig))
    monkeypatch.setenv("FT_KUBERNETES", str(file))
    assert isinstance(LauncherResource(kind="kubernetes").launcher, KubernetesLauncher)
