"""Outcomes and rollouts for tests."""

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from logging import getLogger
from typing import Any

from ft_assets import api
from ft_assets.control.lines.promotion import promote
from ft_assets.control.rollouts.asked import Wish, start
from ft_assets.control.rollouts.conduct import Conducted, conduct
from ft_assets.control.rollouts.look import model_name
from ft_assets.control.rollouts.rollouts import RecordKind, RolloutPlan, RolloutRecord, read_rollouts
from ft_assets.control.rollouts.weights import weights_of
from ft_assets.records.conversations import Conversation, ConversationLog, OtherAnswer
from ft_assets.records.outcomes import Outcome, OutcomeLog
from ft_assets.records.shadow_verdicts import ShadowVerdict, read_verdicts
from ft_assets.records.shadows import CONVERSATIONS
from ft_assets.settings.rollout_settings import Kind
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifact, InputRef
from ft_resources.canonical import digest, sha256_bytes
from ft_resources.store import Store
from tests.control.lines.promotable import LINE, SERVED, Promotable, decided

BEGIN = datetime(2026, 5, 1, 12, tzinfo=UTC)
_LATER = timedelta(days=1000)
HOUR = timedelta(hours=1)


def outcome(adapter: InputRef, value: float, at: datetime, *, kind: Kind = "thumbs", request: str = "") -> Outcome:
    when = at.isoformat(timespec="milliseconds")
    return Outcome(
        model=model_name(LINE, adapter), request=request or f"{kind}-{at.timestamp()}", kind=kind, value=value, at=when
    )


def leave_outcomes(store: Store, outcomes: Iterable[Outcome], server: str = "one") -> None:
    """Write them, and of feedback also that there was an answer, as a server does that ends then."""
    log = OutcomeLog(store, server)
    for each in outcomes:
        if each.kind in ("thumbs", "judge"):
            log.add(each.model_copy(update={"kind": "latency", "value": 0.5}))
        log.add(each)
    log.flush(BEGIN + _LATER)


def traffic(
    candidate: InputRef,
    incumbent: InputRef,
    *,
    good: tuple[float, float],
    n: int,
    begin: datetime,
    kind: Kind = "thumbs",
) -> list[Outcome]:
    """``n`` outcomes of each in turn, half a second apart, of which these shares are good, evenly spread."""
    found = []
    for number in range(n):
        for place, (adapter, share) in enumerate(zip((candidate, incumbent), good, strict=True)):
            value = float(int((number + 1) * share) > int(number * share))
            at = begin + timedelta(seconds=number + place / 2)
            found.append(outcome(adapter, value, at, kind=kind))
    return found


def made_rollout(
    kind: RecordKind, weight: int, *, after: RolloutRecord | None = None, reason: str = "try it"
) -> RolloutRecord:
    """A record that nobody checked: of a new rollout, or of that of the one before."""
    drawn = uuid.uuid4().hex
    candidate, incumbent = (InputRef(address=f"acme/adapter/{name}", digest=digest(name)) for name in ("c", "i"))
    return RolloutRecord(
        id=drawn,
        line=LINE,
        seq=after.seq + 1 if after else 1,
        kind=kind,
        rollout=after.rollout if after else drawn,
        candidate=candidate,
        incumbent=incumbent,
        plan=RolloutPlan(
            steps=[5, 25, 100],
            minimum=1,
            margins={"thumbs": 0.05},
            latency_limit_s=None,
            waive_incumbent=False,
            made_by="",
        ),
        weight=weight,
        evidence=[],
        findings=[],
        actor="ann",
        reason=reason,
        at=BEGIN.isoformat(timespec="milliseconds"),
        previous=sha256_bytes(after.data()) if after else "",
    )


class Rolled:
    """A line whose first adapter is in production, and a second that is the candidate."""

    def __init__(self, line: Promotable, before: Artifact | None = None) -> None:
        """``before`` stood in production before the first."""
        self.line, self.artifacts, self.store = line, line.world.artifacts, line.world.store
        self.incumbent, self.candidate = line.adapter(1), line.adapter(2)
        for adapter in filter(None, (before, self.incumbent)):
            self.promote(adapter)

    def promote(self, adapter: Artifact, stage: str = "production", reason: str = "it is good") -> None:
        promote(self.artifacts, str(adapter.address), stage, decided(reason=reason))

    def start(self, adapter: Artifact | None = None, tenants: TenantsFile = SERVED, **changes: object) -> RolloutRecord:
        values = {"steps": (5, 25, 100), "minimum": 50, "outcomes": ("thumbs",), "margins": {"thumbs": 0.2}, **changes}
        wish = Wish(candidate=str((adapter or self.candidate).address), **values)  # type: ignore[arg-type]
        return start(self.artifacts, LINE, wish, decided(reason="try it", tenants=tenants), now=BEGIN)

    def serve(self, n: int, good: tuple[float, float], begin: datetime, server: str) -> None:
        seen = traffic(self.candidate.ref, self.incumbent.ref, good=good, n=n, begin=begin)
        leave_outcomes(self.store, seen, server)

    def conduct(self, now: datetime, tenants: TenantsFile = SERVED) -> Conducted:
        return conduct(self.artifacts, LINE, tenants=tenants, log=getLogger(), tracking="", now=now)

    @property
    def weights(self) -> dict[str, int]:
        names = {str(self.candidate.address): "candidate", str(self.incumbent.address): "incumbent"}
        return {names[address]: weight for address, weight in weights_of(self.store, LINE)}

    @property
    def kinds(self) -> list[str]:
        return [record.kind for record in read_rollouts(self.store, LINE).rollouts[-1].records]


GOOD, BAD = "Restart the router.", "No idea."
ASKED = [{"role": "user", "content": "my line is down"}]
KEY = "FT_JUDGE_KEY_TEST"


def tenants(
    url: str,
    *,
    keep: bool = True,
    hosts: list[dict[str, Any]] | None = None,
    model: dict[str, Any] | None = None,
    line: dict[str, Any] | None = None,
    **judge: Any,
) -> TenantsFile:
    asked = {"endpoint": url, "model": "judge-1", "allow_same_family": True, "key": KEY, **(model or {})}
    of_line = {
        "rollouts": {"judge": {"model": asked, "share": 100, **judge}},
        "traffic": {"keep": keep},
        **(line or {}),
    }
    allowed = [{"host": "127.0.0.1", "keys": [KEY], "private": True}]
    return SERVED.model_validate(
        {
            **SERVED.model_dump(mode="json"),
            "judge_hosts": allowed if hosts is None else hosts,
            "tenants": {"acme": {"lines": {LINE.partition(".")[2]: of_line}}},
        }
    )


class Asked(Rolled):
    """A line whose rollouts copy requests; ``judging`` is what its judge does."""

    def begin(self, file: TenantsFile, **changes: object) -> RolloutRecord:
        return self.start(tenants=file, **{"shadow": 20, "minimum": 30, **changes})

    def copy(
        self, number: int, ours: str, theirs: str | None, *, at: datetime | None = None, incumbent: str = ""
    ) -> None:
        """So many copied requests whose texts may be kept, as a server writes them."""
        when = at or datetime.now(UTC)
        log, first = ConversationLog(self.store, f"s{when.timestamp()}-{ours[:2]}", folder=CONVERSATIONS), self.names
        for place in range(number):
            production = OtherAnswer(model=incumbent or first[1], answer=theirs) if theirs is not None else None
            log.add(
                Conversation(
                    model=first[0],
                    request=f"r{when.timestamp()}-{ours[:2]}-{place}",
                    messages=ASKED,
                    answer=ours,
                    production=production,
                    at=when.isoformat(timespec="milliseconds"),
                )
            )
        log.flush(when + HOUR)

    @property
    def names(self) -> tuple[str, str]:
        return f"{LINE}@{self.candidate.digest[:16]}", f"{LINE}@{self.incumbent.digest[:16]}"

    def ask(self, file: TenantsFile) -> api.Step:
        return api.judge_copies(store=self.store, tenants=file)

    def verdicts(self) -> list[ShadowVerdict]:
        return list(read_verdicts(self.store, LINE, "2000", "3000"))


def soon() -> datetime:
    return datetime.now(UTC) + HOUR
