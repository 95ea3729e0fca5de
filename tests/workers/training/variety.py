"""Runs of every method and variant at tiny size: packs with something to learn of each form, and their reference."""

from pathlib import Path
from typing import Any

import numpy as np

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.catalogue.methods.preference_settings import PreferenceSettings
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.packs.format import Layout, PackWriter
from ft_assets.workers.packs.packing import one_by_one
from ft_assets.workers.training.earlier import WARM_START_INPUT
from ft_assets.workers.training.reference import reference_logps
from ft_assets.workers.training.variants import VARIANTS
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from ft_resources.worker_context import WorkContext
from tests.fake_base import VOCABULARY, make_fake_base
from tests.made import leave, spec_of
from tests.workers.packs.made import made_spool
from tests.workers.training.conftest import TENANT, Bench, publish

LONGEST = 16


def write_form(folder: Path, split: str, form: str, examples: int, seed: int) -> None:
    """Documents that count upwards; rejected answers count downwards from where the chosen one begins."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    documents, learned = [], []
    for _ in range(examples):
        start, length = random.integers(10, VOCABULARY - 2 * LONGEST), random.integers(8, LONGEST + 1)
        counted = start + np.arange(length)
        answer = np.arange(length) >= (1 if form == "text" else length // 2)
        for sign in (1, -1) if FORMS[form].own_windows else (1,):
            documents.append(np.where(answer, counted[length // 2] + sign * (np.arange(length) - length // 2), counted))
            learned.append(answer)
    lengths = np.array([len(document) for document in documents])
    each = FORMS[form].documents
    spool = made_spool(
        folder.parent / f"spool-{folder.name}-{split}",
        lengths,
        input_ids=np.concatenate(documents).astype(np.int32),
        learned=np.concatenate(learned),
        example=np.repeat(np.arange(examples), each),
        first_pieces=np.arange(examples, dtype=np.int32) % 2 * 2 if form == "unpaired_preference" else None,
    )
    if FORMS[form].own_windows:
        layout = one_by_one(lengths.reshape(-1, 2), max_length=LONGEST, seed=seed, bucket=4)
    else:
        offsets = np.append(np.arange(0, examples, 3), examples).astype(np.int64)
        layout = Layout(order=random.permutation(examples).astype(np.int64), window_offsets=offsets)
    PackWriter(folder, split, form, LONGEST if FORMS[form].own_windows else 3 * LONGEST).write(spool, layout)  # type: ignore[arg-type]


def make_variety(root: Path, method: str, variant: str, *, loss: str = "sigmoid", **training: Any) -> Bench:
    """A run of ``method`` and ``variant``, all of whose examples are in each step."""
    store = open_store(str(root / "store"), create=True)
    form = METHODS[method].form.name
    for number, (split, examples) in enumerate((("train", 12), ("validation", 4))):
        write_form(root / "pack", split, form, examples, seed=number)
    settings = {
        "learning_rate": 1e-2,
        "epochs": 1000,
        "max_steps": 6,
        "global_batch_size": 12,
        "micro_batch_size": 3,
        "schedule": "constant",
        "precision": "fp32",
        **training,
    }
    adapters = VARIANTS[variant].adapters
    params: dict[str, Any] = {
        "method": method,
        "variant": variant,
        "lora": LoraSettings(rank=8, alpha=16).model_dump(mode="json") if adapters else None,
        "training": TrainingSettings(**settings).model_dump(mode="json"),
        "chat_template": None,
    }
    kind = METHODS[method]
    if kind.settings is PreferenceSettings:
        params["preference"] = PreferenceSettings(beta=0.5, loss=loss).model_dump(mode="json")
    elif kind.settings is not None:
        params[kind.section] = kind.settings().model_dump(mode="json")
    bench = Bench(
        store=store,
        scratch=root / "scratch",
        inputs={
            "pack": publish(store, root / "pack", "token_pack", TENANT),
            "base": publish(
                store,
                make_fake_base(root / "base"),
                "base_model",
                "shared",
                {"source": "hub:acme/tiny", "revision": "abc123"},
            ),
        },
        params=params,
        runtime={
            "checkpoint_every_steps": 2,
            "checkpoint_every_minutes": 10.0,
            "micro_batch_divisor": 1,
            "device": "cpu",
        },
    )
    if METHODS[method].compares:
        bench.inputs["reference_logps"] = scored(bench)
    return bench


def scored(bench: Bench) -> Artifact:
    """The reference of the bench's run, as a worker leaves it."""
    precision = bench.params["training"]["precision"]
    base, start = bench.inputs["base"].ref, bench.inputs.get(WARM_START_INPUT)
    reference = {"reference": start.ref, "base": base} if start else {"reference": base}
    request = WorkRequest(
        asset="reference_logps",
        tenant=TENANT,
        code_version="1",
        inputs={"pack": bench.inputs["pack"].ref, **reference},
        params={
            "weights": VARIANTS[bench.params["variant"]].weights(
                precision, bench.params["training"].get("weights", "float32")
            ),
            "precision": precision,
            "device": "cpu",
        },
        label="acme.counting.v1|tiny.v1",
    )
    spec = spec_of(bench.store, request)
    result = reference_logps(WorkContext(spec, bench.store, bench.scratch / "reference"))
    return leave(Artifacts(bench.store), request, result.folder)
