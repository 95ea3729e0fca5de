"""A base and adapters that all tests of a session share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ft_assets.workers.serving.engine import Engine
from tests.fake_base import make_fake_base
from tests.workers.serving.world import make_adapter, make_engine


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("serving") / "base")


@pytest.fixture(scope="session")
def adapters(base: Path) -> dict[str, Path]:
    """By name: two of plain LoRA, one of rank-stabilised LoRA, one of DoRA, and one that also has its own head."""
    kinds = {
        "acme.support@1": {"seed": 1},
        "acme.support@2": {"seed": 2, "r": 2, "target_modules": ["o_proj", "up_proj"]},
        "rs": {"seed": 3, "use_rslora": True},
        "dora": {"seed": 4, "use_dora": True},
        "head": {"seed": 5, "modules_to_save": ["norm"]},
    }
    return {name: make_adapter(base.parent / name, base, **kind) for name, kind in kinds.items()}


@pytest.fixture
def engine(base: Path) -> Iterator[Engine]:
    made = make_engine(base)
    yield made
    made.close()
