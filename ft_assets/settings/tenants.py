"""Tenant configuration: one strict YAML file in version control, ``tenants.yaml`` or what ``FT_TENANTS`` names."""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.connections import Connection
from ft_assets.settings.environment import project_folder
from ft_assets.settings.gpus import Hardware, find_hardware, unknown_hardware
from ft_assets.settings.judge_hosts import JudgeHost, JudgeHosts
from ft_assets.settings.keys import SHARED, RecipeKey, check_part, check_tenant
from ft_assets.settings.line_settings import LineSettings, check_line_name
from ft_assets.settings.notices import Notify
from ft_assets.settings.retention import Leftovers, Retention
from ft_assets.settings.sign_in import SignIn
from ft_resources.errors import BadRecipe, UserError
from ft_resources.kubernetes.shares import Share
from ft_resources.settings import Names, Settings, unique
from ft_resources.strict import nearest, parse_strict, parse_yaml, read_text
from ft_resources.work import Priority

DEFAULT_TIER = "default"
# Room for over ten thousand subscriptions; the platform's own file is trusted.
_MOST_BYTES, _MOST_NODES = 4 * 1024 * 1024, 500_000
_UNREADABLE = "Correct FT_TENANTS, or unset it: then `tenants.yaml` of the project applies, or no limits without one."
_BASE = re.compile(r"hub:[\w./-]+(@[\w./-]+)?|folder:sha256:[0-9a-f]{64}|artifact:\S+|sha256:[0-9a-f]{64}")


def _check_base(text: str) -> str:
    if not _BASE.fullmatch(text):
        raise ValueError("should be hub:ORG/NAME@COMMIT, folder:sha256:DIGEST, artifact:ADDRESS or sha256:DIGEST")
    return text


# A base as the tenants file names it; without @COMMIT: any revision of a Hub model.
ServedBases = Annotated[tuple[Annotated[str, AfterValidator(_check_base)], ...], Strict(False), AfterValidator(unique)]


class Subscription(Settings):
    """A line that is retrained automatically: for each new version of its dataset, and when its recipe's base moves."""

    dataset: str = Field(description="Name of the dataset, without tenant and version.")
    recipe: str = Field(description="Recipe key; after a base bump, its successor is used.")


VARIANTS = ("full", "lora", "qlora")


def _check_method(text: str) -> str:
    parts = text.split("/")
    both = len(parts) == 2 and parts[0] in METHODS and parts[1] in VARIANTS
    if not both and text not in (*METHODS, *VARIANTS):
        raise ValueError(f"should be one of {', '.join((*METHODS, *VARIANTS))}, or METHOD/VARIANT such as dpo/full")
    return text


# Methods as a platform names them: `dpo`, `full`, or `dpo/full` for the combination.
NamedMethods = Annotated[
    tuple[Annotated[str, AfterValidator(_check_method)], ...], Strict(False), AfterValidator(unique)
]


class Quota(Settings):
    """GPU-hours that a tenant may use in a month (UTC), and trainings at once."""

    soft_gpu_hours: float | None = Field(
        default=None, ge=0.0, description="GPU-hours per month at the normal price; further hours are overage."
    )
    hard_gpu_hours: float | None = Field(
        default=None, ge=0.0, description="GPU-hours per month after which trainings are refused; null: no limit."
    )
    overage_factor: float = Field(
        default=1.0, ge=1.0, description="Price of an hour of overage, as a multiple of the normal price."
    )
    concurrent: int | None = Field(
        default=None, ge=1, description="Maximum number of concurrent trainings; others are queued. null: no limit."
    )

    @model_validator(mode="after")
    def _soft_comes_first(self) -> "Quota":
        soft, hard = self.soft_gpu_hours, self.hard_gpu_hours
        if soft is not None and hard is not None and soft > hard:
            raise ValueError(f"soft_gpu_hours ({soft:g}) is above hard_gpu_hours ({hard:g})")
        return self


class Tier(Settings):
    """What tenants of a tier may request."""

    priority: Priority = Field(
        default="batch", description="Priority class of trainings in a cluster's queue; production comes first."
    )
    quota: Quota = Field(default=Quota(), description="GPU-hours per month and concurrent trainings.")
    cluster: Share = Field(default=Share(), description="Concurrent resources of a tenant in a cluster with Kueue.")
    price_factor: float = Field(default=1.0, ge=0.0, description="Multiplier of the platform's prices.")
    max_wait_minutes: float | None = Field(
        default=None,
        gt=0.0,
        description="Maximum time in the queue, in minutes; a longer wait raises an alert. null: no limit.",
    )
    allowed_bases: ServedBases | None = Field(default=None, description="Allowed base models; null: all.")
    allowed_methods: NamedMethods | None = Field(
        default=None, description="Allowed methods, such as `sft`, `lora` or `dpo/full`; null: all."
    )

    max_examples: int | None = Field(
        default=1_000_000, ge=1, description="Maximum number of rows in a dataset version; null: no limit."
    )
    max_gpu_hours: float | None = Field(
        default=None, gt=0.0, description="Maximum estimated GPU-hours of one training; null: no limit."
    )
    requests_per_minute: int | None = Field(
        default=3000, ge=1, description="HTTP requests per minute and tenant; null: no limit."
    )
    requests_per_minute_of_one: int | None = Field(
        default=600, ge=1, description="HTTP requests per minute and API key or signed-in person; null: no limit."
    )


class Tenant(Settings):
    """One tenant's settings."""

    tier: str = Field(default=DEFAULT_TIER, description="Name of a tier in this file; `default` need not be listed.")
    subscriptions: tuple[Subscription, ...] = Field(default=(), description="Lines to retrain automatically.")
    quota: Quota | None = Field(default=None, description="Replaces the tier's quota as a whole; null: the tier's.")
    served_bases: ServedBases | None = Field(
        default=None, description="Bases on this tenant's servers; null: the platform's."
    )
    connections: dict[str, Connection] = Field(
        default_factory=dict, description="Connections that this tenant's sources may use, by name."
    )
    assets: Names = Field(
        default=(),
        description="Dagster assets, such as warehouse/tickets, whose materializations may trigger this tenant's "
        "sources. They appear upstream of raw_dataset once the code location is reloaded.",
    )
    notify: Notify | None = Field(default=None, description="Recipients of notices about this tenant's work.")
    judge_hosts: JudgeHosts | None = Field(
        default=None, description="Judge hosts that may receive this tenant's rows; null: the platform's."
    )
    retention: Retention | None = Field(
        default=None, description="Retention of this tenant's dataset versions; null: the platform's rule."
    )
    production_second_person: bool | None = Field(
        default=None,
        description="Whether this tenant's promotions to production require approval by a second person; null: the "
        "platform's setting.",
    )
    production_parity: bool | None = Field(
        default=None,
        description="Whether this tenant's promotions to production require a proof of parity; null: the platform's "
        "setting.",
    )
    lines: dict[str, LineSettings] = Field(
        default_factory=dict, description="Settings of individual lines, by dataset and recipe: `tickets.support`."
    )

    @model_validator(mode="after")
    def _lines_are_named(self) -> "Tenant":
        for name in self.lines:
            check_line_name(name)
        return self


class TenantsFile(Settings):
    """The whole file."""

    tenants: dict[str, Tenant] = Field(default_factory=dict, description="Settings by tenant name.")
    tenants_closed: bool = Field(
        default=False,
        description="Whether only the tenants in this file exist: requests in the name of others are refused, and "
        "their "
        "keys are invalid.",
    )
    sign_in: SignIn | None = Field(default=None, description="Identity provider for the console; null: API keys only.")
    retrainings_per_day: int = Field(
        default=20, ge=0, description="Trainings that the sensors may submit per day (UTC), over all tenants."
    )
    tiers: dict[str, Tier] = Field(default_factory=dict, description="Limits by tier name.")
    gpu_prices: dict[str, Annotated[float, Field(ge=0.0)]] = Field(
        default_factory=dict,
        description="Price per GPU-hour, by type, such as `H100: 3.5`. Parts of a GPU, such as H100-1g.10gb, cost "
        "their "
        "share of it unless they have a price of their own.",
    )
    served_bases: ServedBases = Field(
        default=(),
        description="Bases on the servers, such as `hub:org/model@COMMIT`; adapters of other bases cannot go to "
        "production.",
    )
    notify: Notify | None = Field(
        default=None, description="Recipients of notices about the platform and all tenants' work."
    )
    judge_hosts: JudgeHosts = Field(
        default=(),
        description="Judge hosts that evaluations may send rows to; empty: local judges only.",
    )
    deprecated_bases: ServedBases = Field(
        default=(), description="Bases refused for new trainings; running work continues."
    )
    deprecated_methods: NamedMethods = Field(
        default=(), description="Methods refused for new trainings; running work continues."
    )
    retention: Retention | None = Field(
        default=None,
        description="Retention of dataset versions, for tenants without their own rule; null: all are kept.",
    )
    production_safety: SafetyGate = Field(
        default=SafetyGate(),
        description="Minimum safety gate for production, whatever the recipe sets.",
    )
    production_regression: BenchmarkRegressionGate = Field(
        default=BenchmarkRegressionGate(),
        description="Maximum regression against the adapter in production, whatever the recipe sets.",
    )
    production_second_person: bool = Field(
        default=False,
        description="Whether promotions to production require approval by a second person; rollbacks do not.",
    )
    production_parity: bool = Field(
        default=False,
        description="Whether promotions to production require a proof of parity with the servers' current settings "
        "(`ft "
        "serve parity`).",
    )
    currency: str = Field(default="USD", min_length=1, max_length=10, description="Currency of the prices.")

    def require_tenant(self, tenant: str) -> None:
        """Raise UserError for a tenant that is not in this file, if only its tenants exist (``tenants_closed``)."""
        if self.tenants_closed and tenant not in (SHARED, *self.tenants):
            raise UserError(
                f"there is no tenant {tenant!r}; {nearest(tenant, list(self.tenants))}",
                where="tenant",
                remedy="Name one of the tenants file, or add it there under `tenants`.",
            )

    def tier_name_of(self, tenant: str) -> str:
        """The name of a tenant's tier; `default` if the file does not name the tenant."""
        return self.tenants[tenant].tier if tenant in self.tenants else DEFAULT_TIER

    def tier_of(self, tenant: str) -> Tier:
        """A tenant's tier; the default tier if the file does not name the tenant."""
        return self.tiers.get(self.tier_name_of(tenant), Tier())

    def quota_of(self, tenant: str) -> Quota:
        """The tenant's own quota if it has one, else its tier's."""
        own = self.tenants[tenant].quota if tenant in self.tenants else None
        return self.tier_of(tenant).quota if own is None else own

    def served_bases_of(self, tenant: str) -> tuple[str, ...]:
        """The bases on a tenant's servers: its own list if it has one, else the platform's."""
        own = self.tenants[tenant].served_bases if tenant in self.tenants else None
        return self.served_bases if own is None else own

    def judge_hosts_of(self, tenant: str) -> tuple[JudgeHost, ...]:
        """The hosts that may see a tenant's rows: its own list if it has one, else the platform's."""
        own = self.tenants[tenant].judge_hosts if tenant in self.tenants else None
        return self.judge_hosts if own is None else own

    def second_person_of(self, tenant: str) -> bool:
        """Whether a second person approves a tenant's moves to production: its own setting if it has one, else the
        platform's."""
        own = self.tenants[tenant].production_second_person if tenant in self.tenants else None
        return self.production_second_person if own is None else own

    def parity_of(self, line: str) -> bool:
        """Whether production of ``line`` requires a parity proof: the line's own setting, else its tenant's, else the
        platform's."""
        own = self.tenants.get(line.partition(".")[0], Tenant())
        of_line = self.settings_of(line).production_parity
        said = own.production_parity if of_line is None else of_line
        return self.production_parity if said is None else said

    def settings_of(self, line: str) -> LineSettings:
        """The settings of ``line`` (``tenant.dataset.recipe``)."""
        tenant, _, name = line.partition(".")
        return self.tenants.get(tenant, Tenant()).lines.get(name, LineSettings())

    def lines_with_automatic_rollouts(self) -> list[str]:
        """The lines whose rollouts begin by themselves."""
        return [
            f"{tenant}.{name}"
            for tenant, own in self.tenants.items()
            for name, line in own.lines.items()
            if line.rollouts.automatic
        ]

    def leftovers_of(self, tenant: str) -> Leftovers:
        """How long a tenant's leftovers are kept: its own ``retention`` if it has one, else the platform's."""
        own = self.tenants[tenant].retention if tenant in self.tenants else None
        rule = self.retention if own is None else own
        return rule.leftovers if rule else Leftovers()

    def price_of(self, hardware: Hardware) -> float | None:
        """The price of an hour of one such GPU; None if none is set. A part costs its share, unless it has one."""
        own = next((price for name, price in self.gpu_prices.items() if find_hardware(name) == hardware), None)
        whole = find_hardware(hardware.part_of) if own is None and hardware.part_of else None
        price = self.price_of(whole) if whole else None
        return own if price is None else price * hardware.share


NO_TENANTS = TenantsFile()
"""As if there were no file: default limits, no judge hosts, and no base that is served."""


def load_tenants(path: Path | None = None) -> TenantsFile:
    """The file at ``path``, else the one that ``FT_TENANTS`` names, else ``tenants.yaml`` of the project.

    Only the last may be absent: then there are no subscriptions, and default limits apply. Raises UserError for a file
    that is invalid or cannot be read.
    """
    named = path or os.environ.get("FT_TENANTS")
    path = Path(named) if named else (project_folder() or Path.cwd()) / "tenants.yaml"
    if not named and not path.exists():
        return NO_TENANTS
    text = read_text(path, str(path), most_bytes=_MOST_BYTES, what="the tenants file", remedy=_UNREADABLE)
    return _parse(path, text)


@lru_cache(maxsize=4)
def _parse(path: Path, text: str) -> TenantsFile:
    """The parsed ``text``, cached: sensors call this often, and ten thousand subscriptions take seconds to parse."""
    value = parse_yaml(text, str(path), most_bytes=_MOST_BYTES, most_nodes=_MOST_NODES)
    loaded = parse_strict(TenantsFile, value, str(path))
    for name, tenant in loaded.tenants.items():
        check_tenant(name, "tenant name")
        if tenant.tier != DEFAULT_TIER and tenant.tier not in loaded.tiers:
            raise BadRecipe(
                f"there is no tier {tenant.tier!r}: {nearest(tenant.tier, [DEFAULT_TIER, *loaded.tiers])}",
                where=f"{path}: tenants.{name}.tier",
                remedy="Name a tier of this file, or add it under `tiers`.",
            )
        for subscription in tenant.subscriptions:
            check_part(subscription.dataset, "dataset name")
            RecipeKey.parse(subscription.recipe)
    _check_prices(loaded.gpu_prices, path)
    return loaded


def _check_prices(prices: dict[str, float], path: Path) -> None:
    """Raise BadRecipe for an unknown GPU type, and for one that has two prices under different spellings."""
    seen: dict[str, str] = {}
    for name in prices:
        where = f"{path}: gpu_prices.{name}"
        hardware = find_hardware(name)
        if hardware is None:
            remedy = "Name a GPU type that ft_assets/settings/gpus.py lists."
            raise BadRecipe(f"there is no GPU type {name!r}; {unknown_hardware(name)}", where=where, remedy=remedy)
        if hardware.name in seen:
            remedy = "Keep one of the two."
            raise BadRecipe(f"{name!r} and {seen[hardware.name]!r} are the same GPU type", where=where, remedy=remedy)
        seen[hardware.name] = name
