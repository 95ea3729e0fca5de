"""What vLLM's environment needs for the plug-in, and where it does nothing; tests/vllm runs it there."""

import asyncio
import sys
import tomllib
from pathlib import Path

import pytest

from ft_assets.control.serving.fetched import FetchedAdapters
from ft_assets.vllm_plugin import StoreResolver, register
from ft_resources.errors import Misconfigured, NotFound, StoreUnavailable
from ft_resources.serving.adapter_folders import AdapterFolders
from tools.architecture import ROOT, Sources

# vLLM needs pydantic and numpy itself.
NEEDED = {"numpy", "obstore", "pydantic", "pydantic_core", "typing_extensions"}


def test_the_plug_in_needs_no_more_than_is_installed_beside_vllm() -> None:
    sources = Sources()
    assert sources.libraries_of("ft_assets.vllm_plugin") - sys.stdlib_module_names <= NEEDED


def test_vllm_finds_the_plug_in() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points == {"vllm.general_plugins": {"ft": f"{register.__module__}:{register.__name__}"}}


def test_it_does_nothing_without_a_base_and_says_what_else_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FT_VLLM_BASE", "FT_STORE"):
        monkeypatch.delenv(name, raising=False)
    register()
    monkeypatch.setenv("FT_VLLM_BASE", "folder:sha256:0")
    with pytest.raises(Misconfigured, match="FT_STORE"):
        register()


@pytest.mark.parametrize("error", [NotFound("no such model"), StoreUnavailable("it is away")])
def test_only_a_store_that_is_away_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def refuse(self: FetchedAdapters, name: str) -> None:
        raise error

    (tmp_path / "store" / "acme").mkdir(parents=True)
    monkeypatch.setattr(FetchedAdapters, "take", refuse)
    resolver = StoreResolver(str(tmp_path / "store"), AdapterFolders(tmp_path / "copies", 1), "folder:sha256:0")
    asked = resolver.resolve_lora("/models/base", "acme.a.b@0123456789abcdef\x1b[2J\nINFO all is well")
    if isinstance(error, StoreUnavailable):
        with pytest.raises(StoreUnavailable):
            asyncio.run(asked)
    else:
        assert asyncio.run(asked) is None
        (told,) = caplog.messages
        # Whoever asks chooses the name, and begins no line of the log.
        assert told == "acme.a.b@0123456789abcdef\ufffd[2J INFO all is well: no such model"
