"""llm-compressor, run as a script by the Python of its own environment: ``compressor.py MODEL ROWS TARGET SCHEME``.

It quantises the linear layers of the model in folder MODEL by GPTQ, but not the head, and writes it to folder TARGET.
ROWS is a JSON file with token ids. Nothing of the platform is imported: that environment does not have it.
"""

import json
import sys
from pathlib import Path


def main() -> None:
    model, rows, target, scheme = sys.argv[1:]
    import torch
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.gptq import GPTQModifier
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    ids = json.loads(Path(rows).read_bytes())
    shown = Dataset.from_dict({"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]})
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype="auto", local_files_only=True)
    oneshot(
        model=loaded,
        dataset=shown,
        recipe=GPTQModifier(targets="Linear", scheme=scheme, ignore=["lm_head"]),
        max_seq_length=max(map(len, ids)),
        num_calibration_samples=len(ids),
        shuffle_calibration_samples=False,
    )
    loaded.save_pretrained(target, save_compressed=True)


if __name__ == "__main__":
    main()
