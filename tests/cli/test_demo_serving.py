"""The end of the demo asks what stands in staging over HTTP, and leaves nothing running."""

import psutil
import pytest

from ft_assets import api
from ft_assets.cli.demo_serving import ask_in_staging
from tests.e2e.project import Project
from tests.server.chat_world import LINE, Line

pytestmark = pytest.mark.e2e


def test_the_adapter_in_staging_answers_and_nothing_is_left(project: Project) -> None:
    line = Line(project)
    line.promote(line.adapter(1), "staging")
    before = set(psutil.Process().children(recursive=True))
    command, answer = ask_in_staging(LINE, "Is it open?", store=project.store)
    assert command.startswith("""printf 'Authorization: Bearer %s' "$FT_API_KEY" | curl http://127.0.0.1:""")
    assert f'"model": "{LINE}@staging"' in command
    assert answer
    assert set(psutil.Process().children(recursive=True)) - before == set()
    assert all(key.revoked_at for key in api.list_keys("acme"))
