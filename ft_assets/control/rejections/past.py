"""The same tenant's runs that passed, and in which settings they differ. Pure, but for ``past_runs``, which reads."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.recipes.models import Recipe
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import StoreUnavailable, UserError

# Settings that decide how a training comes out, and that a person would change.
COMPARED: dict[str, tuple[str, ...]] = {
    "training": (
        "learning_rate",
        "epochs",
        "max_steps",
        "global_batch_size",
        "schedule",
        "warmup_ratio",
        "weight_decay",
        "max_grad_norm",
        "optimizer",
    ),
    "lora": ("rank", "alpha", "dropout", "target_modules"),
}
_READ = 50
"""Past runs whose settings are read, the newest first: a rejection may not take longer the older a tenant is."""


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """One accepted adapter: what it was made of, and how it was trained, by recipe path."""

    adapter: str
    checkpoint: str
    line: str
    dataset: str
    recipe: str
    method: str
    variant: str
    settings: Mapping[str, Any]

    def differences(self, recipe: Recipe) -> dict[str, Any]:
        """Its settings, by recipe path, where ``recipe`` has others."""
        return {path: value for path, value in self.settings.items() if plain(setting(recipe, path)) != value}


def setting(recipe: Recipe, path: str) -> Any:
    """The value at a dotted path of a recipe."""
    section, name = path.split(".")
    return getattr(getattr(recipe, section), name)


def plain(value: Any) -> Any:
    """The value as JSON has it: tuples are lists."""
    return list(value) if isinstance(value, tuple) else value


def nearest(past: Iterable[PastRun], recipe: Recipe, line: str) -> PastRun | None:
    """The run that this candidate is most like: of its line if there is one, then with the fewest other settings, then
    the first in ``past``. Another method or variant is no model for this one."""
    alike = [run for run in past if (run.method, run.variant) == (recipe.method, recipe.variant)]
    return min(alike, key=lambda run: (run.line != line, len(run.differences(recipe))), default=None)


def past_runs(artifacts: Artifacts, tenant: str) -> list[PastRun]:
    """The accepted adapters below ``tenant``'s own prefix, and of nobody else, newest first.

    What cannot be read is left out: advice may be short of an example, and never stands in the way of a verdict.
    """
    found: list[Artifact] = []
    for fingerprint in artifacts.store.folders(f"{tenant}/adapter"):
        try:
            adapter = artifacts.find(Address(tenant=tenant, asset="adapter", fingerprint=fingerprint))
        except StoreUnavailable:
            raise
        except UserError:
            continue
        if adapter is not None:
            found.append(adapter)
    newest = sorted(found, key=lambda adapter: adapter.manifest.created_at, reverse=True)
    return [run for run in (_past_run(artifacts, adapter, tenant) for adapter in newest[:_READ]) if run is not None]


def _past_run(artifacts: Artifacts, adapter: Artifact, tenant: str) -> PastRun | None:
    try:
        address = Address.parse(adapter.manifest.inputs["checkpoint"].address)
        if address.tenant != tenant:
            return None
        told = json.loads(artifacts.get(address).read("recipe.json"))
        params = adapter.manifest.identity["params"]
        return PastRun(
            adapter=str(adapter.address),
            checkpoint=str(address),
            line=str(params["line"]),
            dataset=str(params["dataset"]),
            recipe=str(params["recipe"]),
            method=str(told["method"]),
            variant=str(told["variant"]),
            settings=_settings(told),
        )
    except StoreUnavailable:
        raise
    except (UserError, KeyError, TypeError, ValueError):
        return None


def _settings(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{section}.{name}": told[section][name]
        for section, names in COMPARED.items()
        for name in names
        if told.get(section) and name in told[section]
    }
