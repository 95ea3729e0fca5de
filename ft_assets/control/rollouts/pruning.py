"""Remove old outcomes, copied requests and conversations of a line."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_assets.records.conversations import FOLDER as CONVERSATIONS
from ft_assets.records.conversations import lines_with_conversations, prune_conversations
from ft_assets.records.outcomes import kept_since, lines_with_outcomes, prune_outcomes
from ft_assets.records.shadow_verdicts import prune_verdicts
from ft_assets.records.shadows import CONVERSATIONS as SHADOW_CONVERSATIONS
from ft_assets.records.shadows import lines_with_shadows, prune_shadows
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store


def remove_old(store: Store, tenants: TenantsFile, now: datetime, warnings: list[str]) -> Iterator[str]:
    """Remove conversations and outcomes that are older than they are kept; what was removed, in words.

    Outcomes since the beginning of an open rollout stay, and those that say which kept conversations were liked. So do
    those of a line whose rollouts cannot be read, with a warning: one of them may need them.
    """
    for tenant in store.tenants():
        for folder in (CONVERSATIONS, SHADOW_CONVERSATIONS):
            for line in lines_with_conversations(store, tenant, folder=folder):
                days = tenants.settings_of(line).traffic.keep_days
                if removed := prune_conversations(store, line, days, now, folder=folder):
                    yield f"{line}: {removed} objects of conversations that are {days} days old removed"
        for line in sorted({*lines_with_outcomes(store, tenant), *lines_with_shadows(store, tenant)}):
            try:
                going = read_rollouts(store, line).open
            except CorruptArtifact as error:
                warnings.append(f"{line}: its old outcomes stay: {error}")
                continue
            before = min([kept_since(now), *([going.started.at] if going else [])])
            if removed := prune_shadows(store, line, before) + prune_verdicts(store, line, before):
                yield f"{line}: {removed} objects of copied requests before {before[:10]} removed"
            kept = tenants.settings_of(line).traffic
            if kept.keep:
                # They say which of its conversations were liked.
                before = min(before, (now - timedelta(days=kept.keep_days)).isoformat())
            if removed := prune_outcomes(store, line, before):
                yield f"{line}: {removed} objects of outcomes before {before[:10]} removed"
