"""Which functions of the API can be asked for over HTTP, by whom and of what: read by server and client alike.

A call takes the function's own arguments by their names, and answers with what the function returns, as JSON.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from ft_assets import api
from ft_assets.api import Role

PREFIX = "/v1/ft/calls"


class Of(StrEnum):
    """What an argument names. The server lets through what is of the caller's tenant."""

    DATASET = "a dataset version"
    NAME = "a dataset without a version"
    RECIPE = "a recipe that the tenant may use"
    OWN_RECIPE = "a recipe of the tenant"
    LINE = "a line"
    ADAPTER = "the address of an adapter, or a line"
    TARGET = "an address, a pair, a key or a line"
    ADDRESS = "an address"
    SEEN = "an address, also of what all tenants share"
    SUBMISSION = "a submission's id"
    RECORD = "a submission, by its id"
    LOGGED = "a submission's id, or an address"
    DELETED = "a dataset version or an address"
    TENANT = "a tenant"
    KEY = "the prefix of an API key"
    ROLE = "the role of a new key"


_KEY = Field(max_length=300)
SHORT = Annotated[str, _KEY]
DATASET = Annotated[str, _KEY, Of.DATASET]
NAME = Annotated[str, _KEY, Of.NAME]
RECIPE = Annotated[str, _KEY, Of.RECIPE]
OWN_RECIPE = Annotated[str, _KEY, Of.OWN_RECIPE]
LINE = Annotated[str, _KEY, Of.LINE]
ADAPTER = Annotated[str, _KEY, Of.ADAPTER]
TARGET = Annotated[str, _KEY, Of.TARGET]
ADDRESS = Annotated[str, _KEY, Of.ADDRESS]
ADDRESSES = Annotated[list[SHORT], Field(max_length=5000), Of.SEEN]
SUBMISSION = Annotated[str, _KEY, Of.SUBMISSION]
RECORD = Annotated[str, _KEY, Of.RECORD]
LOGGED = Annotated[str, _KEY, Of.LOGGED]
DELETED = Annotated[str, _KEY, Of.DELETED]
ALL_DELETED = Annotated[list[DELETED], Field(max_length=1000), Of.DELETED]
TENANT = Annotated[str, _KEY, Of.TENANT]
KEY = Annotated[str, _KEY, Of.KEY]
ROLE = Annotated[Role, Of.ROLE]
REASON = Annotated[str, Field(max_length=2000)]
TEXT = Annotated[str, Field(max_length=500_000)]
GATES = Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=20)]
NUMBER = Annotated[int, Field(ge=0, le=10**6)]


@dataclass(frozen=True)
class Call:
    """A function that can be asked for.

    Args:
        name: its name in the API.
        role: who may ask, at least.
        takes: the type of each argument; its default is the function's own.
        changes: whether it is noted in the audit log.
        slow: whether it may take longer than a proxy waits, so that the server answers in between.
    """

    name: str
    role: Role
    takes: dict[str, Any] = field(default_factory=dict)
    changes: bool = False
    slow: bool = False

    @property
    def posted(self) -> bool:
        """Whether it is asked for by POST: no address has room for a long text, and no cache keeps the answer."""
        return self.changes or self.slow

    @property
    def function(self) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(api, self.name)
        return found


def read(name: str, role: Role = "viewer", /, **takes: Any) -> Call:
    return Call(name, role, takes)


def change(name: str, role: Role, /, **takes: Any) -> Call:
    return Call(name, role, takes, changes=True)


def slow_read(name: str, role: Role = "viewer", /, **takes: Any) -> Call:
    return Call(name, role, takes, slow=True)


def slow_change(name: str, role: Role, /, **takes: Any) -> Call:
    return Call(name, role, takes, changes=True, slow=True)


_TABLE = (
    read("list_datasets", name=NAME, tenant=TENANT),
    read("dataset_report", key=DATASET),
    slow_change("curate_dataset", "member", key=DATASET),
    slow_read("diff_datasets", older=DATASET, newer=DATASET),
    slow_read("near_rows", key=DATASET, text=TEXT, threshold=float, top=NUMBER),
    change("approve_dataset", "promoter", key=DATASET, note=REASON),
    read("watched_datasets", tenant=TENANT),
    change("unwatch_dataset", "member", name=NAME),
    slow_change("pull_dataset", "member", name=NAME),
    read("list_classifiers"),
    read("list_encoders"),
    read("list_name_models"),
    read("list_suites"),
    read("list_recipes", tenant=TENANT, trials=bool, retired=bool),
    read("get_recipe", key=RECIPE),
    read("resolved_recipe", key=RECIPE),
    read("next_version", key=RECIPE),
    change("retire_recipe", "promoter", key=OWN_RECIPE, note=REASON),
    change("restore_recipe", "promoter", key=OWN_RECIPE, note=REASON),
    read("list_adapters", tenant=TENANT),
    read("find_adapter", source=ADAPTER),
    read("adapter_signature", source=ADAPTER),
    change("sign_adapter", "promoter", source=ADAPTER),
    read("find_base", source=ADAPTER),
    read("show_gates", dataset=DATASET, recipe=RECIPE, gates=GATES),
    read("evaluation", dataset=DATASET, recipe=RECIPE),
    slow_read("find_result", target=SHORT, tenant=TENANT),
    slow_read("answers_side_by_side", dataset=DATASET, recipe=RECIPE, most=Annotated[int, Field(ge=1, le=30)]),
    change("waive_gate", "promoter", dataset=DATASET, recipe=RECIPE, gate=SHORT, note=REASON, gates=GATES),
    slow_read("estimate", dataset=DATASET, recipe=RECIPE),
    read("status", submission=SUBMISSION),
    read("outcome", submission=SUBMISSION),
    read("list_submissions", tenant=TENANT),
    read("sweep_progress", submission=SUBMISSION),
    read("exports_of", submission=SUBMISSION),
    read("works", submission=RECORD),
    read("require_not_paused", submission=RECORD),
    read("log_state", target=LOGGED, tenant=TENANT),
    read("log_chunks", target=LOGGED, attempt=SHORT, after=NUMBER, tenant=TENANT),
    change("cancel", "member", submission=SUBMISSION),
    change("pause", "member", submission=SUBMISSION, reason=REASON),
    change("resume", "member", submission=SUBMISSION),
    read("lineage", target=TARGET),
    slow_read("names_of", addresses=ADDRESSES, tenant=TENANT),
    slow_read("verify", "member", target=TARGET),
    slow_read("prove_ledger", dataset=DATASET, recipe=RECIPE),
    read("list_lines", tenant=TENANT),
    read("show_line", line=LINE),
    read("list_proposals", line=LINE),
    change("promote", "promoter", target=TARGET, to=SHORT, reason=REASON, waive_incumbent=bool),
    change("approve_promotion", "promoter", line=LINE, note=REASON, proposal=SHORT),
    change("decline_promotion", "promoter", line=LINE, reason=REASON, proposal=SHORT),
    change("roll_back", "promoter", line=LINE, reason=REASON, stage=SHORT, to=ADDRESS),
    read("serving_status", tenant=TENANT),
    slow_read("show_rollout", line=LINE),
    change(
        "start_rollout",
        "promoter",
        line=LINE,
        reason=REASON,
        candidate=ADDRESS,
        steps=Annotated[list[NUMBER], Field(max_length=20)],
        minimum=NUMBER,
        outcomes=Annotated[list[SHORT], Field(max_length=10)],
        margins=Annotated[dict[SHORT, float], Field(max_length=10)],
        latency_limit_s=float | None,
        shadow=NUMBER,
        waive_incumbent=bool,
    ),
    change("cancel_rollout", "promoter", line=LINE, reason=REASON),
    read("base_bump", recipe=OWN_RECIPE),
    change("release_base", "promoter", recipe=OWN_RECIPE, reason=REASON),
    read("list_notices", tenant=TENANT, limit=NUMBER),
    read("usage", tenant=TENANT, month=SHORT),
    change("delete", "admin", targets=ALL_DELETED, reason=REASON),
    change("restore", "admin", target=DELETED, reason=REASON),
    read("held_beyond_grace", "admin", tenant=TENANT),
    read("list_keys", "admin", tenant=TENANT),
    change("create_key", "admin", tenant=TENANT, role=ROLE, name=Annotated[str, Field(max_length=100)], expires=SHORT),
    change("revoke_key", "admin", prefix=KEY),
)
CALLS = {each.name: each for each in _TABLE}
PLATFORM_TOO = frozenset({"list_keys", "create_key", "revoke_key"})
"""What a key of the platform, which belongs to no tenant, may ask for."""


@cache
def arguments_of(name: str) -> type[BaseModel]:
    """The model of a call's arguments: an unknown one is an error."""
    call = CALLS[name]
    defaults = inspect.signature(call.function).parameters
    fields: dict[str, Any] = {
        argument: (kind, ... if defaults[argument].default is inspect.Parameter.empty else defaults[argument].default)
        for argument, kind in call.takes.items()
    }
    return create_model(_title(name), __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


@cache
def answer_of(function: Callable[..., Any]) -> TypeAdapter[Any]:
    """What a function returns."""
    return TypeAdapter(_returned(function))


@cache
def body_of(function: Callable[..., Any]) -> type[BaseModel]:
    """The body of an answer, for its description: ``{"answer": …}`` of what a function returns."""
    return create_model(f"{_title(function.__name__)}Answer", answer=(_returned(function), ...))


def _returned(function: Callable[..., Any]) -> Any:
    return typing.get_type_hints(function, include_extras=True)["return"]


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
