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
        description="Whether promotion to production requires a proof of parity for this line; null: the tenant's "
        "setting.",
    )
    rollouts: RolloutSettings = Field(
        default_factory=RolloutSettings,
        description="Rollouts of this line: how a candidate's share of the traffic grows.",
    )
    format: AnswerFormat | None = Field(
        default=None,
        description="Format of valid answers; each answer is graded as the outcome `format`. null: not graded.",
    )
    traffic: TrafficSettings = Field(
        default_factory=TrafficSettings, description="Retention of the line's conversations."
    )


def check_line_name(name: str) -> None:
    """Raise ValueError unless ``name`` is a line's without its tenant."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"lines: {name!r} should be DATASET.RECIPE, without tenant and versions")
