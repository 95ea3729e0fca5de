"""The resources that assets, jobs and sensors ask for."""

from functools import cached_property

import dagster as dg
from pydantic import Field

from ft_resources.artifacts import Artifacts
from ft_resources.execution import POLL_S, REMOTE_POLL_S, Execution
from ft_resources.hub import Hub, HuggingFaceHub
from ft_resources.launchers.base import Launcher
from ft_resources.launchers.choice import make_launcher
from ft_resources.store import Store
from ft_resources.store_marker import open_store


def settled(resource: dg.ConfigurableResource) -> dg.ResourceDefinition:
    """``resource``, which launchers of runs cannot configure, as another store would have other rights. Each run and
    tick has a copy, with its own store and launcher."""
    return dg.ResourceDefinition(lambda _: resource.model_copy(), config_schema={})


class StoreResource(dg.ConfigurableResource):
    """The store that holds everything the platform knows."""

    url: str = Field(description="A folder, or the URL of a bucket and prefix, such as s3://bucket/prefix.")

    @cached_property
    def store(self) -> Store:
        return open_store(self.url)

    @cached_property
    def artifacts(self) -> Artifacts:
        return Artifacts(self.store)


class LauncherResource(dg.ConfigurableResource):
    """Where heavy work runs."""

    kind: str = Field(
        default="",
        description="Launcher of workers: `local` or `kubernetes`; empty: FT_LAUNCHER.",
    )
    settings: str = Field(default="", description="Settings file of the cluster; empty: FT_KUBERNETES.")

    @cached_property
    def launcher(self) -> Launcher:
        return make_launcher(self.kind, self.settings)

    def execution(self, store: Store) -> Execution:
        """Runs work against ``store``; a bucket is polled less often than a disk, since each poll costs requests."""
        poll_s = POLL_S if store.root is not None else REMOTE_POLL_S
        return Execution(store=store, launcher=self.launcher, poll_s=poll_s)


class HubResource(dg.ConfigurableResource):
    """Where Hub models come from."""

    endpoint: str = Field(default="", description="URL of a mirror with the Hub's API; empty: the Hub.")

    @cached_property
    def hub(self) -> Hub:
        return HuggingFaceHub(self.endpoint or None)
