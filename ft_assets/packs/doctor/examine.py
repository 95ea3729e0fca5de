"""The doctor: looks at what the trainer's collator emits and says, with evidence, whether it can be trained on.

Everything is computed here, in the worker, and left in ``evidence/doctor.json``; the asset check only reads it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.packs.doctor.chunks import chunks
from ft_assets.packs.doctor.endings import turn_ends
from ft_assets.packs.doctor.rendering import Second, compare
from ft_assets.packs.doctor.samples import samples
from ft_assets.packs.doctor.tokens import TOKEN_CHECKS, Rules, Vocabulary
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_assets.packs.evidence import DOCTOR_CHECKS, PROVEN_AGAIN, Finding, architecture_of
from ft_assets.packs.format import Pack, Spool
from ft_assets.packs.isolation.proof import examine_isolation
from ft_assets.packs.templates.template import ChatTemplate
from ft_resources.artifacts import EXPLAINING_FOLDERS
from ft_resources.canonical import sha256_file

_IDS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A written pack and where it came from.

    Args:
        folder: the pack's files.
        spools: by split, the training split first, what was packed.
        train_rows: the dataset's training split, for a second rendering.
        reference: the template that the tokens must agree with; None for what has no template.
        config: the base's config.json.
        holdout_ids: uint8 [rows, 32], dataset ids that must not be packed.
        truncates: whether the recipe lets texts be shortened.
        last_only: whether only the last turn of the assistant is learned.
    """

    folder: Path
    spools: Mapping[str, Spool]
    train_rows: Path
    tokenizer: ChatTokenizer
    reference: ChatTemplate | None
    config: Path
    vocabulary: int
    max_length: int
    truncates: bool
    last_only: bool
    holdout_ids: NDArray[np.uint8]


def examine(patient: Patient) -> dict[str, Any]:
    """The evidence as JSON: verdicts, decoded samples, and which files were looked at."""
    packs = {split: Pack.open(patient.folder, split) for split in patient.spools}
    first = next(iter(packs))
    rules = Rules(
        tokenizer=patient.tokenizer,
        form=packs[first].form,
        ends=_ends(patient),
        vocabulary=patient.vocabulary,
        max_length=patient.max_length,
        truncates=patient.truncates,
    )
    tokens = {name: check(rules) for name, check in TOKEN_CHECKS.items()}
    for split, pack in packs.items():
        for chunk in chunks(pack):
            for check in tokens.values():
                check.look(chunk, patient.spools[split])
    problems = {name: check.problem for name, check in tokens.items()}
    second = Second(
        tokenizer=patient.tokenizer,
        reference=patient.reference,
        rows=patient.train_rows,
        last_only=patient.last_only,
    )
    problems |= compare(packs[first], second, patient.spools[first])
    isolation = examine_isolation(patient.config, packs[first])
    problems["packed_equals_alone"] = None if isolation["passed"] else isolation["detail"]
    problems["holdout_is_absent"] = _holdout(packs, patient.holdout_ids)
    details = dict(DOCTOR_CHECKS)
    architecture = architecture_of(patient.config.read_bytes())
    details["packed_equals_alone"] += f" {isolation['detail'].capitalize()} ({architecture}). {PROVEN_AGAIN}"
    vocabulary = tokens["vocabulary_fits_model"]
    assert isinstance(vocabulary, Vocabulary)
    names = sorted(str(path.relative_to(patient.folder)) for path in patient.folder.rglob("*") if path.is_file())
    return {
        "checks": [
            asdict(Finding(name=name, passed=problems[name] is None, detail=problems[name] or details[name]))
            for name in DOCTOR_CHECKS
        ],
        "samples": samples(packs[first], patient.tokenizer),
        "architecture": architecture,
        "isolation": isolation["figures"],
        "largest_token": vocabulary.largest,
        "files": {
            name: sha256_file(patient.folder / name) for name in names if not name.startswith(EXPLAINING_FOLDERS)
        },
    }


def _ends(patient: Patient) -> frozenset[int]:
    if patient.reference is not None:
        return turn_ends(patient.reference, patient.tokenizer)
    end = patient.tokenizer.token_id("eos_token")
    return frozenset() if end is None else frozenset([end])


def _holdout(packs: Mapping[str, Pack], holdout_ids: NDArray[np.uint8]) -> str | None:
    held = np.sort(_whole(holdout_ids))
    for split, pack in packs.items():
        ids = pack.example_ids
        for start in range(0, len(ids), _IDS):
            found = np.flatnonzero(np.isin(_whole(ids[start : start + _IDS]), held))
            if len(found):
                first = start + int(found[0])
                return (
                    f"examples of the holdout are in {split}, first row {pack.example_row(first)} "
                    f"(id {pack.example_id(first)[:12]})"
                )
    return None


def _whole(ids: NDArray[np.uint8]) -> NDArray[np.void]:
    """uint8 [n, 32] as n opaque values that can be compared."""
    return np.ascontiguousarray(ids).view("V32")[:, 0] if len(ids) else np.empty(0, "V32")
