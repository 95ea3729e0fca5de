"""The doctor: checks the output of the trainer's collator and reports, with evidence, whether training on it is safe.

Everything is computed here, in the worker, and written to ``evidence/doctor.json``; the asset check only reads it.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.workers.packs.doctor.patient import Patient
from ft_assets.workers.packs.doctor.samples import samples
from ft_assets.workers.packs.doctor.second_rendering import compare
from ft_assets.workers.packs.doctor.tokens import token_problems
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, PROVEN_AGAIN, Finding, architecture_of
from ft_assets.workers.packs.format import TRAIN, Pack
from ft_assets.workers.packs.isolation.proof import examine_isolation
from ft_resources.artifacts import EXPLAINING_FOLDERS
from ft_resources.canonical import sha256_file

_IDS = 1 << 20


def examine(patient: Patient) -> dict[str, Any]:
    """The evidence as JSON: verdicts, decoded samples, and the files that were checked."""
    train = patient.packs[TRAIN]
    problems, largest = token_problems(patient)
    problems |= compare(patient)
    isolation = examine_isolation(patient.config, train)
    problems["packed_equals_alone"] = None if isolation["passed"] else isolation["detail"]
    problems["holdout_is_absent"] = _holdout(patient.packs, patient.holdout_ids)
    details = dict(DOCTOR_CHECKS)
    architecture = architecture_of(patient.config.read_bytes())
    details["packed_equals_alone"] += f" {isolation['detail'].capitalize()} ({architecture}). {PROVEN_AGAIN}"
    names = sorted(str(path.relative_to(patient.folder)) for path in patient.folder.rglob("*") if path.is_file())
    return {
        "checks": [
            asdict(Finding(name=name, passed=problems[name] is None, detail=problems[name] or details[name]))
            for name in DOCTOR_CHECKS
        ],
        "samples": samples(train, patient.tokenizer),
        "architecture": architecture,
        "isolation": isolation["figures"],
        "largest_token": largest,
        "files": {
            name: sha256_file(patient.folder / name) for name in names if not name.startswith(EXPLAINING_FOLDERS)
        },
    }


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
    """uint8 [n, 32] as n comparable opaque values."""
    return np.ascontiguousarray(ids).view("V32")[:, 0] if len(ids) else np.empty(0, "V32")
