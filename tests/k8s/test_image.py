"""The image, as far as it can be told without building it: what it copies is what is installed, and nobody is root."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ft_resources.kubernetes.settings import KubernetesSettings
from tests.k8s.chart import K8S, values
from tools.sbom import locked

ROOT = K8S.parent
TARGETS = ("control", "worker-cpu", "worker")
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
    assert packages | {"pyproject.toml", PROJECT["project"]["readme"], "k8s/locks", "k8s/slim.sh"} == copied()
    sent = {line[1:] for line in (K8S / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == copied()
    assert all((ROOT / name).exists() for name in copied())
    compiled = re.search(r"compileall -q (.+)", " ".join(words_of("RUN")))
    assert compiled is not None
    assert packages <= set(compiled[1].split())


def test_only_what_a_lock_names_is_installed_and_only_by_its_digest() -> None:
    installs = [line for rest in words_of("RUN") for line in re.findall(r"pip (?:install|wheel) [^;&]+", rest)]
    own = [line.strip() for line in installs if "-e ." in line]
    plain = "pip install --no-deps --no-build-isolation --no-compile -e ."
    assert own == [plain, plain, f"{plain} $(find /wheels -name '*.whl')"]
    assert all(line.split()[2] == "$LOCKED" for line in installs if "-e ." not in line)
    (environment,) = [rest for rest in words_of("ENV") if "LOCKED=" in rest]
    assert 'LOCKED="--require-hashes --no-deps --no-build-isolation"' in environment
    named = {name for line in installs for name in re.findall(r"locks/(\S+)", line)}
    assert named == {file.name for file in (K8S / "locks").iterdir()}


def test_what_is_written_without_further_settings_goes_to_the_only_folder_that_may_be_written() -> None:
    (environment,) = [rest for rest in words_of("ENV") if "HOME=" in rest]
    places = dict(word.split("=", 1) for word in environment.split())
    for name in ("HOME", "FT_STATE", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"):
        assert Path(places[name]).parts[:2] == ("/", "tmp"), name


def locked_in(name: str) -> dict[str, str]:
    return {package: version for package, (version, _) in locked(K8S / "locks", f"{name}.txt").items()}


def stage_of(name: str) -> list[tuple[str, str]]:
    """The instructions of a stage, the first of which names it."""
    found, inside = [], False
    for each, rest in instructions():
        inside = rest.endswith(f" AS {name}") if each == "FROM" else inside
        found += [(each, rest)] if inside else []
    return found


def takes(name: str) -> set[str]:
    """The stages that one is made of, itself included."""
    parts = {name}
    for instruction, rest in stage_of(name):
        source = rest.split()[0] if instruction == "FROM" else rest.removeprefix("--from=").split()[0]
        if instruction == "FROM" or (instruction == "COPY" and rest.startswith("--from=")):
            parts |= takes(source)
    return parts


def wheel(folder: Path, **args: str) -> list[str]:
    """What the stage of flash-attn asks pip for."""
    (script,) = [rest for name, rest in stage_of("flash-attn") if name == "RUN"]
    made, venv = folder / "wheels", folder / "venv"
    library = venv / "lib/python3.11/site-packages/nvidia/cu13"
    for part in (folder / "bin", library / "bin", library / "lib"):
        part.mkdir(parents=True)
    (library / "bin" / "nvcc").touch()
    asked = folder / "asked"
    pip = folder / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\necho "$@ CUDA_HOME=$CUDA_HOME $FLASH_ATTN_CUDA_ARCHS" >> {asked}\n')
    pip.chmod(0o755)
    defaults = [rest.partition("=") for name, rest in stage_of("flash-attn") if name == "ARG"]
    environment = {name: value.strip('"') for name, _, value in defaults} | args
    subprocess.run(
        ["sh", "-c", script.replace("/wheels", str(made)).replace("/opt/venv", str(venv))],
        cwd=folder,
        env={**environment, "LOCKED": "--locked", "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        check=True,
    )
    assert made.is_dir()
    lines = asked.read_text().splitlines() if asked.exists() else []
    assert len(lines) < 2 or (library / "lib" / "libcudart.so").is_symlink()
    return lines


def test_flash_attn_is_compiled_by_default_from_a_pinned_source_by_the_compiler_of_pytorch_s_cuda(
    tmp_path: Path,
) -> None:
    install, build = wheel(tmp_path)
    assert install.startswith("install --locked --no-compile -r locks/flash-attn-build.txt")
    assert "wheel --locked" in build
    assert "-r locks/flash-attn.txt" in build
    assert "nvidia/cu13 80;90;100;120" in build
    tools, cuda = locked_in("flash-attn-build"), locked_in("cuda")
    assert list(locked_in("flash-attn")) == ["flash-attn"]
    assert {tools[name].rpartition(".")[0] for name in ("nvidia-cuda-nvcc", "nvidia-cuda-cccl")} == {"13.0"}
    assert tools["nvidia-cuda-runtime"] == cuda["nvidia-cuda-runtime"]
    assert cuda["cuda-toolkit"].startswith("13.0.")


def test_flash_attn_is_left_out_where_nobody_wants_it_and_of_images_without_cuda(tmp_path: Path) -> None:
    assert wheel(tmp_path, FLASH_ATTN="none") == []
    assert takes("worker") >= {"flash-attn", "pytorch"}
    for target in ("control", "worker-cpu"):
        assert not takes(target) & {"flash-attn", "pytorch"}


def test_a_wheel_of_flash_attn_by_its_address_is_taken_instead(tmp_path: Path) -> None:
    address = f"https://wheels.example.org/flash_attn-2.8.3-cp311-cp311-linux_x86_64.whl#sha256={'0' * 64}"
    (build,) = wheel(tmp_path, FLASH_ATTN=address)
    assert build.startswith("wheel --locked")
    assert "-r wheel.txt" in build
    assert (tmp_path / "wheel.txt").read_text().strip() == address


def test_a_change_of_the_project_does_not_compile_flash_attn_again_and_it_is_installed() -> None:
    before = [rest for stage in ("tools", "pytorch", "flash-attn") for name, rest in stage_of(stage) if name == "COPY"]
    assert before == ["k8s/locks locks", "k8s/slim.sh slim.sh"]
    build = stage_of("worker-build")
    assert ("COPY", "--from=flash-attn /wheels /wheels") in build
    assert any(name == "RUN" and "/wheels" in rest and "pip install" in rest for name, rest in build)


@pytest.mark.parametrize("target", ["worker-cpu", "worker"])
def test_the_build_ends_with_a_trial_of_all_kernels_by_the_images_user(target: str) -> None:
    final = stage_of(target)
    names = [name for name, _ in final]
    last = max(at for at, name in enumerate(names) if name == "RUN")
    assert final[last][1].startswith("ft kernels &&")
    assert names.index("USER") < last


def test_what_is_run_is_shell_that_parses() -> None:
    for script in words_of("RUN"):
        subprocess.run(["sh", "-n", "-c", script], check=True)


def test_what_is_compiled_at_run_time_finds_a_compiler_in_the_images_of_workers_alone() -> None:
    compilers = [rest for name, rest in stage_of("compilers") if name == "RUN"]
    assert any(re.search(r"apt-get install .* gcc g\+\+ ", rest) for rest in compilers)
    bases = {target: stage_of(target)[0][1].split()[0] for target in TARGETS}
    assert bases == {"control": "runtime", "worker-cpu": "compilers", "worker": "compilers"}


def test_who_names_no_target_gets_the_image_that_has_everything() -> None:
    assert [rest for name, rest in instructions() if name == "FROM"][-1].endswith(" AS worker")


def base_check(base: str, python: str) -> subprocess.CompletedProcess[str]:
    """What the first stage says of a base image, one with this Python."""
    script = stage_of("tools")[2][1].replace("python -c", f"{sys.executable} -c")
    script = script.replace("sys.version_info[:2]", python)
    return subprocess.run(["sh", "-c", script], env={"BASE": base}, capture_output=True, text=True, check=False)


def test_a_base_is_named_by_its_digest_and_has_the_python_of_the_locks() -> None:
    assert next(rest for name, rest in instructions() if name == "ARG") == "BASE"
    digest = f"python:3.11-slim@sha256:{'0' * 64}"
    assert base_check(digest, "(3, 11)").returncode == 0
    for base, python, said in (("python:3.11-slim", "(3, 11)", "by its digest"), (digest, "(3, 12)", "Python 3.11")):
        refused = base_check(base, python)
        assert (refused.returncode, said in refused.stderr) == (1, True)
    made_for = re.search(r"--python-version (\S+)", (ROOT / "Makefile").read_text())
    assert made_for is not None
    assert made_for[1] == "3.11"


def test_a_pytorch_for_cpus_is_installed_from_the_index_and_by_the_digest_that_are_said(tmp_path: Path) -> None:
    (script,) = [rest for name, rest in stage_of("pytorch-cpu") if name == "RUN" and "TORCH_INDEX" in rest]
    (tmp_path / "pip").write_text('#!/bin/sh\necho "$@"; cat torch.txt 2>/dev/null || true\n')
    (tmp_path / "pip").chmod(0o755)
    (tmp_path / "locks").symlink_to(K8S / "locks")

    def pip(**args: str) -> subprocess.CompletedProcess[str]:
        environment = {"LOCKED": "--locked", "PATH": f"{tmp_path}:{os.environ['PATH']}", **args}
        return subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    index = {"TORCH_INDEX": "https://index.example/cpu"}
    for args, lacking in ((index, "TORCH_SHA256"), ({"TORCH_SHA256": "ab"}, "TORCH_INDEX")):
        refused = pip(**args)
        assert (refused.returncode != 0, lacking in refused.stderr, refused.stdout) == (True, True, "")
    version = locked_in("cuda")["torch"]
    assert pip(**index, TORCH_SHA256="ab").stdout == (
        "install --locked --no-compile --index-url https://index.example/cpu -r torch.txt\n"
        f"torch=={version} --hash=sha256:ab\n"
    )


def test_the_images_user_is_the_one_that_pods_run_as() -> None:
    assert all(("USER", user) in stage_of(target) for target in TARGETS for user in words_of("USER"))
    user, *_ = words_of("USER")
    run_as = KubernetesSettings(image=f"r/ft@sha256:{'0' * 64}").run_as
    pod = values()["dagsterDaemon"]["podSecurityContext"]
    assert user == f"{run_as}:{run_as}" == f"{pod['runAsUser']}:{pod['runAsGroup']}"


def test_the_images_own_command_serves_what_the_chart_is_told_to_serve() -> None:
    deployment = values()["dagster-user-deployments"]["deployments"][0]
    (command,) = words_of("CMD")
    assert all(f'"{word}"' in command for word in [*deployment["dagsterApiGrpcArgs"], str(deployment["port"])])
    assert words_of("EXPOSE") == [str(deployment["port"])]
