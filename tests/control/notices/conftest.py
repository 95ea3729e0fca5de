"""A store, three webhooks, and rounds of telling between them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ft_assets.control.notices.deliver import Round, tell
from ft_assets.settings.tenants import load_tenants
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.control.notices.servers import Hook, webhook
from tests.control.notices.world import Tell, send_for, tenants_file


@pytest.fixture
def hooks() -> Iterator[dict[str, Hook]]:
    with webhook() as acme, webhook() as other, webhook() as platform:
        yield {"acme": acme, "other": other, "platform": platform}


@pytest.fixture
def tick(tmp_path: Path, store: Store, hooks: dict[str, Hook]) -> Tell:
    """A round at a later time; nothing is kept in the process between two of them."""
    path = tenants_file(tmp_path, hooks)

    def at(later_s: float = 0.0, **more: object) -> Round:
        moment = datetime.now(UTC) + timedelta(seconds=later_s)
        return tell(open_store(store.url), load_tenants(path), send_for(), now=lambda: moment, seconds=600.0, **more)

    return at
