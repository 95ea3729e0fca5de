"""The image, as far as it can be told without building it: what it copies is what is installed, and nobody is root."""

import re
import tomllib
from typing import Any

from ft_resources.kubernetes.settings import KubernetesSettings
from tests.k8s.chart import K8S, values

ROOT = K8S.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions() -> list[tuple[str, str]]:
    """Instructions with their words, continued lines joined, without comments."""
    text = "".join(line for line in (K8S / "Dockerfile").open() if not line.startswith("#")).replace("\\\n", " ")
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())]


def words_of(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def copied() -> set[str]:
    """What is copied from the checkout."""
    return {part for rest in words_of("COPY") if not rest.startswith("--from") for part in rest.split()[:-1]}


def test_every_package_and_what_its_metadata_needs_is_copied_and_sent_to_the_builder() -> None:
    packages = {each.rstrip("*") for each in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages | {"pyproject.toml", PROJECT["project"]["readme"], "constraints.txt"} == copied()
    sent = {line[1:] for line in (K8S / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == copied()
    assert all((ROOT / name).exists() for name in copied())
    compiled = re.search(r"compileall -q (.+)", " ".join(words_of("RUN")))
    assert compiled is not None
    assert packages <= set(compiled[1].split())


def test_what_is_installed_is_pinned_and_an_extra_that_there_is() -> None:
    installs = [line for rest in words_of("RUN") for line in re.findall(r"pip install [^;&]+", rest)]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)
    extras = {
        extra for line in installs for found in re.findall(r"\[([a-z0-9,]+)\]", line) for extra in found.split(",")
    }
    assert extras == {"train", "float8"}
    assert extras <= set(PROJECT["project"]["optional-dependencies"])


def test_what_is_compiled_at_run_time_finds_a_compiler_in_the_final_stage() -> None:
    final = instructions()[max(at for at, (name, _) in enumerate(instructions()) if name == "FROM") :]
    assert any(name == "RUN" and re.search(r"apt-get install .* gcc ", rest) for name, rest in final)


def test_the_bases_python_is_one_that_the_project_takes() -> None:
    (base,) = [rest.partition("=")[2] for rest in words_of("ARG") if rest.startswith("BASE=")]
    version = re.match(r"python:(\d+)\.(\d+)-slim", base)
    assert version is not None
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.13"
    assert (3, 11) <= (int(version[1]), int(version[2])) < (3, 13)


def test_the_images_user_is_the_one_that_pods_run_as() -> None:
    (user,) = words_of("USER")
    run_as = KubernetesSettings(image=f"r/ft@sha256:{'0' * 64}").run_as
    pod = values()["dagsterDaemon"]["podSecurityContext"]
    assert user == f"{run_as}:{run_as}" == f"{pod['runAsUser']}:{pod['runAsGroup']}"


def test_the_images_own_command_serves_what_the_chart_is_told_to_serve() -> None:
    deployment = values()["dagster-user-deployments"]["deployments"][0]
    (command,) = words_of("CMD")
    assert all(f'"{word}"' in command for word in [*deployment["dagsterApiGrpcArgs"], str(deployment["port"])])
    assert words_of("EXPOSE") == [str(deployment["port"])]
