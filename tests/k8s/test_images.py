"""The small images are built, are as small as promised, and do their work with a root that nobody can write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.images import LIMITS_MB, build, run, size_mb, unpacked

pytestmark = [
    pytest.mark.images,
    pytest.mark.timeout(3600),
]


@pytest.fixture(scope="module", params=sorted(LIMITS_MB))
def image(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    with unpacked(build(request.param)) as root:
        yield request.param, root


def test_an_image_is_no_larger_than_promised(image: tuple[str, Path]) -> None:
    target, root = image
    assert size_mb(root) <= LIMITS_MB[target]


def test_its_user_is_nobody_in_particular_and_writes_to_tmp_alone(image: tuple[str, Path]) -> None:
    _, root = image
    tried = "id -u; id -g; for at in /app /opt/venv /tmp; do touch $at/x 2>/dev/null && echo $at; done; true"
    assert run(root, "sh", "-c", tried).split() == ["10001", "10001", "/tmp"]


def test_it_loads_what_it_is_for(image: tuple[str, Path]) -> None:
    target, root = image
    run(root, "python", "-m", "ft_assets.warm", "control" if target == "control" else "libraries")
    assert "Usage" in run(root, "ft", "--help")
    present = (
        "import importlib.util as u; print([u.find_spec(n) is not None for n in ('torch', 'numba', 'setuptools')])"
    )
    there = target != "control"
    assert run(root, "python", "-c", present) == f"{[there, there, there]}\n"
