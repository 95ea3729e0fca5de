"""Which servers answer for adapters to a base, and how they compute."""

import tempfile
from pathlib import Path

from ft_assets.settings.base_sources import source_of
from ft_assets.settings.servers import ServersFile
from ft_assets.workers.serving.embedded_settings import embedded_settings
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import Artifact

EMBEDDED = "embedded"
"""Name of the server that ``ft serve`` starts for a base that no configured server has."""


def settings_by_server(base: Artifact, servers: ServersFile) -> dict[str, ServerSettings | None]:
    """The servers of a base by name, with their settings; None if ``servers.yaml`` does not give them.

    The embedded server's are those that it has on this machine. Its base is fetched only where a GPU computes in the
    base's own dtype.
    """
    source = source_of(base.manifest.identity["params"])
    named = [each for each in servers.servers if each.base == source]
    if named:
        return {
            each.name: ServerSettings.model_validate(each.computes.model_dump()) if each.computes else None
            for each in named
        }
    with tempfile.TemporaryDirectory(prefix="ft-base-") as scratch:
        return {EMBEDDED: embedded_settings(lambda: base.folder(Path(scratch)))}
