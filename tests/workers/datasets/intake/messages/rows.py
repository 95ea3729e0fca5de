"""Words for one bad row of JSON lines."""

ROWS: dict[str, str] = {
    # Rows
    "row that is cut off": (
        "data.jsonl, row 121: the row is not valid JSON at character 12 (Unterminated string starting at); the "
        "file ends here without a line end, so it may have been cut off\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row of 40 MiB": (
        "data.jsonl, row 1201: the row is longer than 16 MiB\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a nul byte": (
        "data.jsonl, row 120: the row is not valid JSON at character 14 (Invalid control character at)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a byte order mark": (
        "data.jsonl, row 120: the row is not valid JSON at character 1 (Expecting value)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row in latin-1": (
        "data.jsonl, row 120: byte 16 of the row (0xe9) is not UTF-8\n"
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
    ),
    "row with an overlong character": (
        "data.jsonl, row 120: byte 13 of the row (0xc0) is not UTF-8\n"
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
    ),
    "row with an encoded surrogate": (
        "data.jsonl, row 120: byte 13 of the row (0xed) is not UTF-8\n"
        "  What to do: Save the file as UTF-8 (in Excel: CSV UTF-8); it may be in an older encoding, in part or as a "
        "whole."
    ),
    "row with half a surrogate pair": (
        "data.jsonl, row 120, prompt: this text holds half of a surrogate pair (\\ud800 to \\udfff)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a key twice": (
        "data.jsonl, row 120: an object of the row has the same key twice\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a key twice further in": (
        "data.jsonl, row 120: an object of the row has the same key twice\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with NaN": (
        "data.jsonl, row 120: the row has NaN, which is not JSON\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with Infinity": (
        "data.jsonl, row 120: the row has -Infinity, which is not JSON\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with an endless number": (
        "data.jsonl, row 120: the row has a number with too many digits\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row nested deeply": (
        "data.jsonl, row 120: the row's JSON is nested too deeply\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row that is a list": (
        "data.jsonl, row 120: the row is JSON but not an object ({…})\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row that is text": (
        "data.jsonl, row 120: the row is not valid JSON at character 1 (Expecting value)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row in Python's words": (
        "data.jsonl, row 120: the row is not valid JSON at character 2 (Expecting property name enclosed in "
        "double quotes)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a comma too many": (
        "data.jsonl, row 120: the row is not valid JSON at character 52 (Expecting property name enclosed in "
        "double quotes)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "two rows on a line": (
        "data.jsonl, row 120: the row is not valid JSON at character 52 (Extra data)\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a misspelt field": (
        "data.jsonl, row 120: the row has 'promt'; did you mean 'prompt'?\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with an empty answer": (
        "data.jsonl, row 120, completion: this text is empty\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with a number for text": (
        "data.jsonl, row 120, prompt: this should be text, not a number\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row with roles in a wrong order": (
        "data.jsonl, row 120, messages[1].role: 'user' stands where 'assistant' belongs (after 'user')\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row without an assistant's turn": (
        "data.jsonl, row 120, messages[0].role: the last turn is 'user'; it should be the assistant's, which "
        "is what is learned\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
    "row without turns": (
        "data.jsonl, row 120, messages: this should be a list of turns, with at least one in it\n"
        "  What to do: Correct the row, or have bad rows left out with `on_bad_row: drop` in dataset.yaml."
    ),
}
