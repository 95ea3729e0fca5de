"""The image, as far as it can be told without building it: what it copies is what is installed, and nobody is root."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

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


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def stage_of(name: str) -> list[tuple[str, str]]:
    """The instructions of a stage, the first of which names it."""
    found, inside = [], False
    for each, rest in instructions():
        inside = rest.endswith(f" AS {name}") if each == "FROM" else inside
        found += [(each, rest)] if inside else []
    return found


def wheel(folder: Path, *, cuda: str, **args: str) -> tuple[list[str], str]:
    """What the stage of flash-attn asks pip for, and what it asks it to build, with a PyTorch for this CUDA."""
    (script,) = [rest for name, rest in stage_of("flash-attn") if name == "RUN"]
    made, venv = folder / "wheels", folder / "venv"
    library = venv / "lib/python3.11/site-packages/nvidia/cu13"
    for part in (folder / "bin", library / "bin", library / "lib"):
        part.mkdir(parents=True)
    (library / "bin" / "nvcc").touch()
    asked = folder / "asked"
    commands = {
        "pip": f'echo "$@ CUDA_HOME=$CUDA_HOME $FLASH_ATTN_CUDA_ARCHS" >> {asked}',
        "python": f"echo {cuda}",
    }
    for name, command in commands.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / "bin" / name).chmod(0o755)
    defaults = [rest.partition("=") for name, rest in stage_of("flash-attn") if name == "ARG"]
    environment = {name: value.strip('"') for name, _, value in defaults} | args
    subprocess.run(
        ["sh", "-c", script.replace("/wheels", str(made)).replace("/opt/venv", str(venv))],
        cwd=folder,
        env={**environment, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        check=True,
    )
    assert made.is_dir()
    source = folder / "source.txt"
    assert not source.exists() or (library / "lib" / "libcudart.so").is_symlink()
    return (asked.read_text().splitlines() if asked.exists() else []), source.read_text() if source.exists() else ""


def test_flash_attn_is_compiled_by_default_from_a_pinned_source_by_the_compiler_of_pytorch_s_cuda(
    tmp_path: Path,
) -> None:
    (install, build), source = wheel(tmp_path, cuda="13.0")
    assert "-c constraints.txt" in install
    assert {"nvidia-cuda-nvcc", "nvidia-cuda-cccl"} <= set(install.split())
    assert all(name in pinned() for name in ("nvidia-cuda-nvcc", "nvidia-cuda-cccl"))
    assert "wheel --require-hashes --no-deps --no-build-isolation" in build
    assert "nvidia/cu13 80;90;100;120" in build
    assert source.startswith(f"flash-attn=={pinned()['flash-attn']} --hash=sha256:")
    assert re.search(r"sha256:[0-9a-f]{64}$", source)
    cuda = {pinned()[name].rpartition(".")[0][:4] for name in ("nvidia-cuda-nvcc", "nvidia-cuda-runtime")}
    assert cuda == {pinned()["cuda-toolkit"][:4]}


@pytest.mark.parametrize(("cuda", "source"), [("", "source"), ("13.0", "none")])
def test_flash_attn_is_left_out_of_images_without_cuda_and_where_nobody_wants_it(
    cuda: str, source: str, tmp_path: Path
) -> None:
    assert wheel(tmp_path, cuda=cuda, FLASH_ATTN=source) == ([], "")


def test_a_wheel_of_flash_attn_by_its_address_is_taken_instead(tmp_path: Path) -> None:
    address = f"https://wheels.example.org/flash_attn-2.8.3-cp311-cp311-linux_x86_64.whl#sha256={'0' * 64}"
    (build,), source = wheel(tmp_path, cuda="13.0", FLASH_ATTN=address)
    assert build.startswith("wheel --no-deps -w")
    assert address in build
    assert not source


def test_a_change_of_the_project_does_not_compile_flash_attn_again_and_it_is_installed() -> None:
    before = [rest for stage in ("pytorch", "flash-attn") for name, rest in stage_of(stage) if name == "COPY"]
    assert before == ["constraints.txt ./"]
    build = stage_of("build")
    assert ("COPY", "--from=flash-attn /wheels /wheels") in build
    assert any(name == "RUN" and "/wheels" in rest and "pip install" in rest for name, rest in build)


def test_the_build_ends_with_a_trial_of_all_kernels_by_the_images_user() -> None:
    final = instructions()[max(at for at, (name, _) in enumerate(instructions()) if name == "FROM") :]
    names = [name for name, _ in final]
    last = max(at for at, name in enumerate(names) if name == "RUN")
    assert final[last][1].startswith("ft kernels &&")
    assert names.index("USER") < last


def test_what_is_run_is_shell_that_parses() -> None:
    for script in words_of("RUN"):
        subprocess.run(["sh", "-n", "-c", script], check=True)


def test_what_is_compiled_at_run_time_finds_a_compiler_in_the_final_stage() -> None:
    final = instructions()[max(at for at, (name, _) in enumerate(instructions()) if name == "FROM") :]
    assert any(name == "RUN" and re.search(r"apt-get install .* gcc g\+\+ ", rest) for name, rest in final)


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
