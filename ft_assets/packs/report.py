"""What people look at: decoded samples with the learned tokens in colour, and the lengths of examples as a picture."""

import base64
import io
from html import escape
from typing import Any

SAMPLES_PAGE = "report/samples.html"

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Samples of a token pack</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid #ccc; border-radius: 6px; padding: 1rem }}
mark {{ background: #b7ebc0; color: inherit }}
</style>
<h1>What the model learns</h1>
<p>Decoded from the packed tokens. Only what is <mark>marked</mark> carries loss; the rest is context.</p>
{samples}
</html>
"""


def samples_page(samples: list[dict[str, Any]]) -> str:
    """The doctor's samples as an HTML page that loads nothing from elsewhere."""
    return _PAGE.format(samples="\n".join(_sample(sample) for sample in samples))


def length_picture(histogram: dict[str, list[int]], max_length: int) -> str:
    """The histogram ``{edges, counts}`` of tokens an example as Markdown with an inline PNG."""
    # Imported here because the code location loads this module, and matplotlib is slow to load.
    from matplotlib.figure import Figure

    # Fixed margins: finding them costs more than all the rest, and cached assets draw this again.
    figure = Figure(figsize=(6, 2.5))
    axes = figure.add_axes((0.12, 0.22, 0.85, 0.72))
    axes.stairs(histogram["counts"], histogram["edges"], fill=True)
    axes.axvline(max_length, color="tab:red", linewidth=1, label=f"window: {max_length}")
    axes.set(xlabel="tokens", ylabel="training examples")
    axes.legend()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return f"![lengths](data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()})"


def _sample(sample: dict[str, Any]) -> str:
    text, pieces, position = sample["text"], [], 0
    for start, end in sample["learned"]:
        pieces += [escape(text[position:start]), "<mark>", escape(text[start:end]), "</mark>"]
        position = end
    pieces.append(escape(text[position:]))
    return f"<h2>Example {escape(sample['id'][:12])}</h2>\n<pre>{''.join(pieces)}</pre>"
