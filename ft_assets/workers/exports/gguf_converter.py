"""llama.cpp's converter, run as a script of its own: ``gguf_converter.py TOOLS PRE_TOKENIZER MODEL OPTION…``.

The converter recognises a tokenizer by a hash of its output for one text, and refuses others, such as one that a tenant
trained. For these it gets the name of a pre-tokenizer that splits texts in the same way (``pre_tokenizers.py``), if
there is one.
"""

import runpy
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    tools, name, *arguments = sys.argv[1:]
    sys.path[:0] = [tools, str(Path(tools) / "gguf-py")]
    from conversion.base import TextModel

    known = TextModel.get_vocab_base_pre

    def told(model: Any, tokenizer: Any) -> Any:
        try:
            return known(model, tokenizer)
        except NotImplementedError:
            if not name:
                raise
            return name

    TextModel.get_vocab_base_pre = told
    converter = Path(tools) / "convert_hf_to_gguf.py"
    sys.argv = [str(converter), *arguments]
    runpy.run_path(str(converter), run_name="__main__")


if __name__ == "__main__":
    main()
