"""Model servers that are started outside the platform: one strict YAML file, ``servers.yaml`` or what ``FT_SERVERS``
names."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ft_assets.settings.environment import project_folder
from ft_resources.errors import Misconfigured
from ft_resources.serving.servers import ConfiguredServer
from ft_resources.settings import Settings
from ft_resources.strict import read_strict

_UNREADABLE = "Correct FT_SERVERS, or unset it: then `servers.yaml` of the project applies, or no server is known."


class ComputingSettings(Settings):
    """How a server computes, as it was started. Parity is proved for these settings and no others."""

    engine: str = Field(min_length=1, description="Engine and version, such as `vllm 0.32.0`.")
    dtype: Literal["float32", "float16", "bfloat16"] = Field(description="Data type of activations.")
    weight_bits: Literal[4, 8] | None = Field(
        default=None, description="Bits of quantised weights; null: not quantised."
    )
    options: dict[str, str] = Field(
        default_factory=dict,
        description="Other options that affect answers, such as `kv-cache-dtype`.",
    )


class ServerSettings(Settings):
    """A server in vLLM's dialect, with LoRA adapters that are loaded while it runs."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?$")] = Field(
        description="Name of the server in messages."
    )
    url: str = Field(
        pattern=r"^https?://[^/]+$",
        description="URL of the server, without a path. Only `ft serve` should be able to reach it: its key protects "
        "only some of its endpoints.",
    )
    base: str = Field(
        pattern=r"^(hub:[^@]+@[0-9a-f]{40}|folder:sha256:[0-9a-f]{64})$",
        description="Base that the server was started with: hub:ORG/NAME@COMMIT, or folder:sha256:DIGEST.",
    )
    key: Annotated[str, Field(pattern=r"^FT_SERVER_KEY_[A-Z0-9_]+$")] = Field(
        description="Environment variable with the API key that the server was started with."
    )
    computes: ComputingSettings | None = Field(
        default=None, description="Settings of the engine; required for a proof of parity."
    )
    fetches: bool = Field(
        default=False,
        description="Whether the server is vLLM with this platform's plug-in, which fetches adapters from the store.",
    )


class ServersFile(Settings):
    """The whole file."""

    servers: list[ServerSettings] = Field(
        default_factory=list, description="Model servers; several may serve the same base."
    )
    adapters: str = Field(
        default="",
        description="Folder for adapters, written by `ft serve` and read by servers at the same path, such as a shared "
        "volume; empty: a folder below `FT_CACHE`. Not needed by servers that fetch adapters themselves.",
    )

    @model_validator(mode="after")
    def _differ(self) -> "ServersFile":
        names = [each.name for each in self.servers]
        if len(set(names)) != len(names):
            raise ValueError("servers: two have the same name")
        return self

    def configured(self) -> list[ConfiguredServer]:
        """The servers with their keys. Raises Misconfigured for a variable that is not set."""
        for each in self.servers:
            if not os.environ.get(each.key):
                remedy = f"Set it to the key that {each.name} was started with."
                raise Misconfigured("the variable is not set", where=each.key, remedy=remedy)
        return [
            ConfiguredServer(
                name=each.name, url=each.url, base=each.base, key=os.environ[each.key], fetches=each.fetches
            )
            for each in self.servers
        ]


def servers_path() -> Path:
    """``FT_SERVERS``, else ``servers.yaml`` of the project."""
    named = os.environ.get("FT_SERVERS")
    return Path(named) if named else (project_folder() or Path.cwd()) / "servers.yaml"


def load_servers(path: Path | None = None) -> ServersFile:
    """The file at ``path``, else that of ``servers_path``. Only a file that nobody named may be absent.

    Raises UserError for a file that is invalid or cannot be read.
    """
    file = path or servers_path()
    if path is None and "FT_SERVERS" not in os.environ and not file.exists():
        return ServersFile()
    return read_strict(ServersFile, file, what="the servers file", remedy=_UNREADABLE)
