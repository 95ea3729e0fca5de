"""Where the store is not mounted, every sensor says so and creates nothing."""

import dagster as dg
import pytest

from ft_assets.definitions import defs
from ft_resources.dagster_resources import HubResource, LauncherResource, StoreResource

# The ageing sensor reads no store where the launcher has no queue.
NAMES = sorted({sensor.name for sensor in defs.sensors or []} - {"ageing_sensor"})


@pytest.mark.parametrize("name", NAMES)
def test_a_sensor_without_a_store_skips_with_the_reason(name, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("FT_TENANTS", raising=False)
    monkeypatch.chdir(tmp_path)
    sensor = defs.resolve_sensor_def(name)
    given = {
        "store": StoreResource(url=str(tmp_path / "mount" / "store")),
        "launcher": LauncherResource(),
        "hub": HubResource(),
    }
    wanted = {key: value for key, value in given.items() if key in sensor.required_resource_keys}
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor(dg.build_sensor_context(instance=instance), **wanted)
    assert "there is no store here" in (found.skip_message or "")
    assert not (tmp_path / "mount").exists()
