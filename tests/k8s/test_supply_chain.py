"""What the image consists of: each package by digest, the ones that the project asks for, and a list of all of them."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.k8s.chart import K8S
from tools.sbom import locked, sbom

ROOT = K8S.parent
LOCKS = K8S / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Of a PyTorch with CUDA, which the machine that runs this may be without.
CUDA = re.compile(r"triton|(cuda|nvidia)-[a-z0-9-]+")


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines if "==" in line)}


def needed(requirements: list[str], extras: frozenset[str], known: set[str]) -> Iterator[str]:
    """The packages that ``requirements``, of a package with ``extras``, lead to by what is installed here."""
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            continue
        name, key = canonicalize_name(requirement.name), f"{requirement.name}{sorted(requirement.extras)}"
        if key not in known:
            known.add(key)
            yield name
            yield from needed(requires(name) or [], frozenset(requirement.extras), known)


def test_every_line_of_a_lock_is_a_pin_with_a_digest() -> None:
    for file in LOCKS.iterdir():
        lines = file.read_text().splitlines()
        pins = [at for at, line in enumerate(lines) if re.fullmatch(r"[a-z0-9.-]+==\S+ \\", line)]
        hashes = [at for at, line in enumerate(lines) if re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}( \\)?", line)]
        assert sorted(pins + hashes) == list(range(len(lines))), file
        assert all(at + 1 in hashes for at in pins), file
        assert len(locked(LOCKS, file.name)) == len(pins)


@pytest.mark.statistics
def test_the_locks_pin_the_versions_that_the_project_is_tested_with() -> None:
    """Else the image would run what no test has seen: `make lock` after a change of constraints.txt."""
    tested = constraints()
    assert {name: version for name, (version, _) in locked(LOCKS).items() if tested.get(name) != version} == {}
    for file in LOCKS.iterdir():
        for name, found in locked(LOCKS, file.name).items():
            assert found == locked(LOCKS)[name]


def test_the_image_gets_what_the_project_asks_for_and_nothing_else() -> None:
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["train"]]
    asked += PROJECT["optional-dependencies"]["float8"]
    try:
        found = set(needed(asked, frozenset(), set()))
    except PackageNotFoundError as error:
        pytest.skip(f"{error} is not installed, so what it needs is unknown")
    image = {*locked(LOCKS, "platform.txt"), *locked(LOCKS, "cuda.txt")}
    assert found - image == set()
    assert {name for name in image - found if not CUDA.fullmatch(name)} == set()


def test_the_control_planes_packages_are_some_of_all_and_lead_to_all_that_is_locked_for_them() -> None:
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["control"]
    asked = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    asked |= {canonicalize_name(Requirement(each).name) for each in PROJECT["optional-dependencies"]["train"]}
    assert set(group) - asked == {"mlflow-skinny"}
    lock = locked(LOCKS, "control.txt")
    assert set(needed(group, frozenset(), set())) == set(lock)
    assert lock.items() <= locked(LOCKS, "platform.txt").items()


def test_the_bill_of_materials_names_every_pin_with_its_digests() -> None:
    text = sbom(LOCKS)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    found = {
        each["name"]: (each["version"], each["purl"], tuple(sorted(part["content"] for part in each["hashes"])))
        for each in json.loads(text)["components"]
    }
    assert found == {
        name: (version, f"pkg:pypi/{name}@{version}", tuple(sorted(hashes)))
        for name, (version, hashes) in locked(LOCKS).items()
    }
    assert len(found) > 200
