"""The ids that transformers gives to texts, from a separate process: ``python -m … < question > answer``.

Importing transformers also imports PyTorch if it is installed, which takes seconds. A child that hides PyTorch needs a
third of the time, and the memory of the calling process does not grow.
"""

import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

NAMED = ("bos_token", "eos_token")
"""The tokens that templates write, by name."""

Loader = Literal["AutoTokenizer", "PreTrainedTokenizerFast"]

_TIMEOUT_S = 600
# Settings of a base's tokenizer_config.json that make even transformers' general class deviate from tokenizer.json.
_AS_THE_FILE_SAYS = {"split_special_tokens": False, "fix_mistral_regex": False}


def load(folder: Path, loader: Loader) -> Any:
    """The tokenizer in ``folder``: as users load it, or by the class that takes tokenizer.json as it is."""
    import transformers

    more = _AS_THE_FILE_SAYS if loader == "PreTrainedTokenizerFast" else {}
    return getattr(transformers, loader).from_pretrained(folder, local_files_only=True, trust_remote_code=False, **more)


def answers(tokenizer: Any, texts: Sequence[str]) -> dict[str, Any]:
    """``plain`` and ``opened``: each text's ids without and with the opening tokens; and the tokens of ``NAMED``."""
    named = {name: None if (token := getattr(tokenizer, name)) is None else str(token) for name in NAMED}
    return {
        "plain": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts],
        "opened": [tokenizer(text)["input_ids"] for text in texts],
        **named,
    }


def ask(folders: Sequence[tuple[Path, Loader]], texts: Sequence[str]) -> list[Mapping[str, Any]]:
    """``answers`` for each folder's tokenizer, or ``error`` if loading fails. RuntimeError if the child dies."""
    if "transformers" in sys.modules:
        return [_answer(folder, loader, texts) for folder, loader in folders]
    question = {"folders": [[str(folder), loader] for folder, loader in folders], "texts": list(texts)}
    child = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(question).encode(),
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if child.returncode:
        raise RuntimeError(f"transformers could not be asked for ids:\n{child.stderr.decode(errors='replace')[-2000:]}")
    found: list[Mapping[str, Any]] = json.loads(child.stdout)
    return found


def _answer(folder: Path, loader: Loader, texts: Sequence[str]) -> dict[str, Any]:
    try:
        return answers(load(folder, loader), texts)
    except Exception as error:
        # Any exception that a folder's settings cause in transformers is the answer; the Rust library raises bare
        # Exceptions.
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def _main() -> None:
    question = json.load(sys.stdin)
    find = importlib.util.find_spec
    importlib.util.find_spec = lambda name, package=None: None if name == "torch" else find(name, package)
    # Only the answer goes to standard output.
    with contextlib.redirect_stdout(sys.stderr):
        found = [_answer(Path(folder), loader, question["texts"]) for folder, loader in question["folders"]]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main()
