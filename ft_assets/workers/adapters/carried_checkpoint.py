"""The carried checkpoint: the files of another checkpoint, with the name of the new base."""

import json
import os
import shutil
import uuid
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from ft_assets.workers.adapters.fit import PEFT_CONFIG
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.work import WorkRequest

SOURCE = "carried_from"
"""Name of the input and of the fact. A checkpoint that has it was not trained on its base."""


def make_carried(artifacts: Artifacts, request: WorkRequest, *, actor: str) -> Artifact:
    """Publish the carried checkpoint of ``request``, or find it. It copies a few megabytes, so it needs no worker.

    Weights, ledger and report are byte for byte those of the source. Each ``adapter_config.json`` names the new base
    instead.
    """
    found = artifacts.find(request.address)
    if found is not None:
        return found
    source, base = (artifacts.get(Address.parse(request.inputs[name].address)) for name in (SOURCE, "base"))
    with TemporaryDirectory(prefix="ft-carry-", dir=os.environ.get("FT_SCRATCH")) as scratch:
        folder = Path(scratch) / "carried"
        for name in source.manifest.files:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.path(name, Path(scratch) / "source"), target)
        for path in folder.rglob(PurePath(PEFT_CONFIG).name):
            config = json.loads(path.read_bytes())
            config |= {"base_model_name_or_path": base.facts["source"], "revision": base.facts["revision"]}
            path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        return artifacts.publish(
            request.address,
            folder,
            writer=f"carry-{uuid.uuid4().hex}",
            identity=request.identity,
            inputs=request.inputs,
            facts={**source.facts, SOURCE: str(source.address)},
            actor=actor,
        )
