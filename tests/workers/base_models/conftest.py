"""Base model folders, and a way to run base model work in process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Where it is imported already, tokenizers are compared in this process, which saves seconds a test.
import transformers  # noqa: F401

from ft_resources.artifacts import InputRef
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkContext
from tests.fake_base import make_fake_base
from tests.made import spec_of


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_fake_base(tmp_path / "base")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


@pytest.fixture
def work_context(store: Store, tmp_path: Path) -> Callable[..., WorkContext]:
    """Makes the context of one piece of work, each in a scratch folder of its own."""
    made: list[WorkContext] = []

    def make(asset: str, params: dict[str, Any], inputs: dict[str, InputRef] | None = None) -> WorkContext:
        request = WorkRequest(
            asset=asset, tenant="shared", code_version="1", inputs=inputs or {}, params=params, label="test"
        )
        spec = spec_of(store, request)
        scratch = tmp_path / f"scratch-{len(made)}"
        scratch.mkdir()
        made.append(WorkContext(spec, store, scratch))
        return made[-1]

    return make
