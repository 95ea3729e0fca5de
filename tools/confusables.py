"""Derive ``similarity/confusables.txt`` from Unicode's ``confusables.txt`` (UTS #39).

``python -m tools.confusables confusables.txt`` prints the file: for every ASCII letter and digit the characters beyond
ASCII that have its skeleton. The source is https://www.unicode.org/Public/security/latest/confusables.txt.
"""

import string
import sys
import unicodedata
from pathlib import Path

from ft_assets.workers.datasets.similarity.folding import CONFUSABLES

# Punctuation and bars that only separate: nobody reads "3 × 4" or "a ∣ b" as words with an x and an l in them.
_SEPARATE = frozenset("×∣⏽￨╳׀᙮˛")


def main() -> None:
    text = Path(sys.argv[1]).read_text(encoding="utf-8-sig")
    skeletons = dict(_pairs(text))
    of_letter: dict[str, list[str]] = {}
    classes = {skeletons.get(letter, letter): letter for letter in string.digits + string.ascii_letters}
    for character, skeleton in sorted(skeletons.items()):
        if not character.isascii() and skeleton in classes and character not in _SEPARATE:
            of_letter.setdefault(classes[skeleton].lower(), []).append(f"{ord(character):X}")
    # The notice above the first letter is Unicode's licence and stays.
    notice = CONFUSABLES.read_text(encoding="utf-8").partition("\n\n")[0]
    print(f"{notice}\n")
    for letter in sorted(of_letter):
        print(letter, *of_letter[letter])
    print(f"made with Unicode {unicodedata.unidata_version}", file=sys.stderr)


def _pairs(text: str) -> list[tuple[str, str]]:
    lines = [line.partition("#")[0].split(";") for line in text.splitlines()]
    return [(chr(int(line[0], 16)), _characters(line[1])) for line in lines if len(line) == 3]


def _characters(codes: str) -> str:
    return "".join(chr(int(code, 16)) for code in codes.split())


if __name__ == "__main__":
    main()
