"""A rollout whose copied requests a judge compares, and the settings of that."""

from datetime import UTC, datetime
from typing import Any

from ft_assets import api
from ft_assets.control.rollouts.rollouts import RolloutRecord
from ft_assets.records.conversations import Conversation, ConversationLog, OtherAnswer
from ft_assets.records.shadow_verdicts import ShadowVerdict, read_verdicts
from ft_assets.records.shadows import CONVERSATIONS
from ft_assets.settings.tenants import TenantsFile
from tests.control.lines.promotable import LINE, SERVED
from tests.control.rollouts.test_rollouts import HOUR, Rolled

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
