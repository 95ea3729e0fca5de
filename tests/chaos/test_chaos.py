"""One seeded fault of each kind: the artifact is there once, nothing is left running, everything is billed once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.faults import KINDS
from tests.chaos.runs import BUCKET, chaos_run
from tests.s3_server import s3_server, use_bucket

pytestmark = pytest.mark.e2e
_SEED = 7


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as url, pytest.MonkeyPatch.context() as patch:
        use_bucket(patch, url, BUCKET)
        yield url


@pytest.mark.parametrize("kind", KINDS)
def test_work_survives_a_fault_whole(kind: str, tmp_path: Path, endpoint: str) -> None:
    run = chaos_run(tmp_path, kind, _SEED, endpoint)
    assert run.struck
    assert run.problems == []
