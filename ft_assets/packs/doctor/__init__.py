"""The doctor: looks at what the trainer's collator emits, and leaves evidence of what it saw."""

from ft_assets.packs.doctor.examine import Patient, examine

__all__ = ["Patient", "examine"]
