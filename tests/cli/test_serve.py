"""``ft serve`` says what keeps it from serving before it says where it serves."""

import socket

import pytest

from ft_assets.cli import serve
from tests.cli.conftest import Ft


def test_a_second_dagster_is_refused_before_anything_is_told_to_be_there(
    ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(serve, "_UI_PORT", port)
        result = ft("serve", "--ui")
    assert result.exit_code != 0
    assert f"port {port} is in use" in str(result.exception) + result.stderr
    assert "http://" not in result.output
