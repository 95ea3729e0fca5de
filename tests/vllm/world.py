"""A store with the demo's base and evaluated adapters to it, and a vLLM that fetches them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ft_assets import demo
from ft_assets.settings.base_sources import source_of
from ft_assets.workers.evals.holdout_rows import ChatRows
from ft_assets.workers.serving.parity.asked_prompts import Render
from ft_assets.workers.suites.suites import TASK_FILE
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.configured import ConfiguredServers
from ft_resources.serving.embedded import EmbeddedServers
from ft_resources.serving.fleet import ServedModel
from ft_resources.serving.servers import Base, ConfiguredServer
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.store import Store
from tests.control.serving.world import Lines
from tests.vllm.running import KEY
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.world import World, evaluation
from tests.workers.serving.world import make_adapter

# Not the tiny base of other tests: vLLM's kernels for CPUs have no heads of 16.
DEMO_BASE = Path(demo.__file__).parent / "base"
LINE, DATASET = "acme.things.tiny", "acme.things.v1"


@dataclass
class VllmWorld:
    """The store below ``folder``."""

    folder: Path

    @cached_property
    def lines(self) -> Lines:
        return Lines(Store(str(self.folder / "store")))

    @cached_property
    def base(self) -> Artifact:
        return self.lines.base(DEMO_BASE)

    @property
    def source(self) -> str:
        return source_of(self.base.manifest.identity["params"])

    @cached_property
    def _world(self) -> World:
        return World(store=self.lines.store, folder=self.folder)

    @cached_property
    def _evaluated(self) -> dict[str, Artifact]:
        suite = write_safety_suite(self.folder / "suite", counts=(20, 20))
        (suite / "care.yaml").rename(suite / TASK_FILE)
        return {
            "base": self.base,
            "dataset": self._world.dataset(holdout=30),
            "safety:care.v1": self._world.publish("safety_suite", suite, tenant="shared"),
        }

    def adapter(self, seed: int) -> Artifact:
        """An adapter of the line that was evaluated, and stands in staging."""
        settings = evaluation(holdout={"metrics": [], "max_samples": 30, "max_new_tokens": 12}, suites=["care.v1"])
        params = {"evaluation": settings, "chat_template": None, "variant": "lora", "seed": seed}
        report = self._world.publish("eval_report", {"report.json": b"{}"}, inputs=self._evaluated, params=params)
        adapter = self._world.publish(
            "adapter",
            # Smaller weights than elsewhere: large ones amplify what float32 rounds.
            make_adapter(self.folder / f"adapter-{seed}", DEMO_BASE, seed=seed, std=0.05),
            inputs={"base": self.base, "eval_report": report},
            params={"dataset": DATASET, "seed": seed},
            facts={"line": LINE},
        )
        self.lines.promote(adapter, self.base, "staging")
        return adapter

    def large_adapter(self) -> Artifact:
        """One of more than a mebibyte."""
        folder = make_adapter(self.folder / "large", DEMO_BASE, seed=99, std=0.05, r=16, target_modules="all-linear")
        adapter = self._world.publish(
            "adapter",
            folder,
            inputs={"base": self.base},
            params={"dataset": DATASET, "seed": 99},
            facts={"line": LINE},
        )
        self.lines.promote(adapter, self.base, "staging")
        return adapter

    def model(self, adapter: Artifact) -> ServedModel:
        """The adapter as servers know it."""
        return ServedModel(line=LINE, address=str(adapter.address), digest=adapter.digest, base=self.base.digest)

    def fleet(self, url: str) -> StoreFleet:
        """A fleet of the one server at ``url``, which fetches adapters itself."""
        server = ConfiguredServer(name="vllm", url=url, base=self.source, key=KEY, fetches=True)
        fleet = StoreFleet(
            self.lines.artifacts,
            AdapterFolders(self.folder / "unused", 1 << 20),
            ConfiguredServers([server]),
            EmbeddedServers(self.lines.store, self.folder / "logs", most=0),
        )
        fleet.provide([Base(address=str(self.base.address), digest=self.base.digest, source=self.source)])
        return fleet

    @property
    def render(self) -> Render:
        """As the router renders."""
        rows = ChatRows(DEMO_BASE, ChatTokenizer.load(DEMO_BASE), None)
        return lambda messages: rows.prompt(messages, "request")
