"""Settings of one line of a tenant, in ``tenants.yaml``."""

import re

from pydantic import Field

from ft_assets.settings.answer_format import AnswerFormat
from ft_assets.settings.rollout_settings import RolloutSettings
from ft_assets.settings.traffic_settings import TrafficSettings
from ft_resources.settings import Settings

_NAME = re.compile(r"[^.|/@\s]+\.[^.|/@\s]+")


class LineSettings(Settings):
    """Settings of one line, which override its tenant's."""

    production_parity: bool | None = Field(
        default=None,
        description="Whether production takes only an adapter of this line whose servers are proved to give what was "
        "evaluated; null: as for the tenant.",
    )
    rollouts: RolloutSettings = Field(
        default_factory=RolloutSettings, description="How a candidate gets a growing share of the line's traffic."
    )
    format: AnswerFormat | None = Field(
        default=None,
        description="The format of valid answers; each answer then leaves the outcome `format`. null: none is graded.",
    )
    traffic: TrafficSettings = Field(
        default_factory=TrafficSettings, description="What is kept of the line's conversations."
    )


def check_line_name(name: str) -> None:
    """Raise ValueError unless ``name`` is a line's without its tenant."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"lines: {name!r} should be DATASET.RECIPE, without tenant and versions")
