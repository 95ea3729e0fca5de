"""The end of the demo asks what stands in production over HTTP, and leaves nothing running."""

import psutil
import pytest

from ft_assets import api
from ft_assets.cli.demo_serving import ask_in_production
from tests.e2e.project import Project
from tests.server.chat_world import LINE, Line

pytestmark = pytest.mark.e2e


def test_the_adapter_in_production_answers_and_nothing_is_left(project: Project) -> None:
    line = Line(project)
    line.promote(line.adapter(1), "production")
    before = set(psutil.Process().children(recursive=True))
    command, answer = ask_in_production(LINE, "Is it open?", store=project.store)
    assert command.startswith("""printf 'Authorization: Bearer %s' "$FT_API_KEY" | curl http://127.0.0.1:""")
    assert f'"model": "{LINE}"' in command
    assert answer
    assert set(psutil.Process().children(recursive=True)) - before == set()
    assert all(key.revoked_at for key in api.list_keys("acme"))
