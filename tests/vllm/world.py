"""A store with an adapter that was trained on the demo's base, others of its line, and a vLLM that fetches them."""

from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from shutil import copytree, rmtree

from ft_assets import api, demo
from ft_assets.control.serving.decided import require_decided
from ft_assets.settings.base_sources import source_of
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.configured import ConfiguredServers
from ft_resources.serving.embedded import EmbeddedServers
from ft_resources.serving.fleet import ServedModel
from ft_resources.serving.servers import Base, ConfiguredServer
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.work import WorkRequest
from tests.control.serving.world import Lines
from tests.e2e.project import Project, make_project
from tests.made import leave
from tests.vllm.running import KEY
from tests.workers.serving.world import make_adapter

# Not the tiny base of other tests: vLLM's kernels for CPUs have no heads of 16.
DEMO_BASE = Path(demo.__file__).parent / "base"
LINE, DATASET = "acme.things.tiny", "acme.things.v1"
_TEMPLATE_FILE = "template.jinja"
# Another one than the base's, whose beginning fills a block of vLLM's prefix cache.
_TEMPLATE = (
    "{{- bos_token + 'Answer as a careful clerk does who reads a list aloud: name the thing, then its colour, and "
    "nothing beside it.' }}"
    "{%- for message in messages %}{{- '<|' + message['role'] + '|>' + message['content'] + eos_token }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


@dataclass
class VllmWorld:
    """The store below ``folder``."""

    folder: Path

    @cached_property
    def project(self) -> Project:
        project = make_project(self.folder / "project")
        rmtree(project.folder / "base")
        copytree(DEMO_BASE, project.folder / "base")
        (project.folder / _TEMPLATE_FILE).write_text(_TEMPLATE)
        return project

    @cached_property
    def trained(self) -> Artifact:
        """An adapter that the whole graph trained, evaluated and accepted, in staging."""
        recipe = self.project.recipe(
            steps=40,
            chat_template=_TEMPLATE_FILE,
            lora={"alpha": 16},
            training={"learning_rate": 0.002},
            packing={"max_length": 256},
            evaluation={"holdout": {"max_samples": 60, "max_new_tokens": 16}},
        )
        done = self.project.tune(self.project.dataset(600), recipe, "acme.things")
        assert done.outcome.adapter, done.outcome.reason
        api.promote(done.outcome.adapter, "staging", reason="it is asked", store=self.project.store)
        return self.artifacts.get(Address.parse(done.outcome.adapter))

    @cached_property
    def base(self) -> Artifact:
        return self.artifacts.get(Address.parse(self.trained.manifest.inputs["base"].address))

    @property
    def artifacts(self) -> Artifacts:
        return Artifacts(self.project.store)

    @property
    def lines(self) -> Lines:
        return Lines(self.project.store)

    @property
    def source(self) -> str:
        return source_of(self.base.manifest.identity["params"])

    def made(self, seed: int, *, beside_mb: int = 0, **config: object) -> Artifact:
        """An adapter of weights that nobody trained, asked as the trained one is, in staging. What it has ``beside``
        them no server reads, and it is copied all the same."""
        folder = self.weights(seed)
        if not folder.exists():
            copytree(self.trained.folder(self.folder / "trained"), folder)
            # Small weights: large ones amplify what float32 rounds.
            make_adapter(folder, DEMO_BASE, seed=seed, std=0.05, **config)
            with (folder / "beside.bin").open("wb") as file:
                file.truncate(beside_mb << 20)
        refs = {"base": self.base.ref}
        params = {"dataset": DATASET, "seed": seed}
        request = WorkRequest(
            asset="adapter", tenant="acme", code_version="1", inputs=refs, params=params, label="by hand"
        )
        adapter = leave(self.artifacts, request, folder, {"line": LINE})
        self.lines.promote(adapter, self.base, "staging")
        return adapter

    def weights(self, seed: int) -> Path:
        """Where the adapter of ``made`` was made."""
        return self.folder / f"adapter-{seed}"

    def model(self, adapter: Artifact) -> ServedModel:
        """The adapter as servers know it."""
        return ServedModel(line=LINE, address=str(adapter.address), digest=adapter.digest, base=self.base.digest)

    def fleet(self, url: str) -> StoreFleet:
        """A fleet of the one server at ``url``, which fetches adapters itself."""
        server = ConfiguredServer(name="vllm", url=url, base=self.source, key=KEY, fetches=True)
        fleet = StoreFleet(
            self.artifacts,
            AdapterFolders(self.folder / "unused", 1 << 20),
            ConfiguredServers([server]),
            EmbeddedServers(self.project.store, self.folder / "logs", most=0),
            decided=partial(require_decided, self.project.store),
        )
        fleet.provide([Base(address=str(self.base.address), digest=self.base.digest, source=self.source)])
        return fleet
