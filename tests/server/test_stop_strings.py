"""Stop strings cut the text at the same place however it comes in pieces."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ft_assets.server.stop_strings import Cutter, Part
from ft_resources.serving.server import Piece, Token

TEXTS = st.text("abc", max_size=40)
STOPS = st.lists(st.text("abc", min_size=1, max_size=5), max_size=4)
CUTS = st.lists(st.integers(0, 40), max_size=10)


def in_pieces(text: str, cuts: Sequence[int], reason: str = "length") -> list[Piece]:
    """``text`` cut at ``cuts``; each piece has one token, whose id is where the piece begins."""
    places = sorted({0, *(cut for cut in cuts if cut < len(text))})
    texts = [text[start:end] for start, end in zip(places, [*places[1:], len(text)], strict=True)]
    return [
        Piece(tokens=(Token(id=start),), text=each, finish_reason=reason if start == places[-1] else None)
        for start, each in zip(places, texts, strict=True)
    ]


def told(stops: Sequence[str], pieces: Sequence[Piece]) -> list[Part]:
    cutter, parts = Cutter(stops), []
    for piece in pieces:
        parts.append(cutter.take(piece))
        if parts[-1].finish_reason:
            break
    return parts


def cut(text: str, stops: Sequence[str]) -> str | None:
    """The text before the stop string that is complete first, read character by character; None without one."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))]
    return None


@given(TEXTS, STOPS, CUTS)
def test_the_cut_does_not_depend_on_the_pieces(text: str, stops: list[str], cuts: list[int]) -> None:
    parts = told(stops, in_pieces(text, cuts))
    expected = cut(text, stops)
    assert "".join(part.text for part in parts) == (text if expected is None else expected)
    assert parts[-1].finish_reason == ("length" if expected is None else "stop")
    assert all(part.finish_reason is None for part in parts[:-1])


@given(TEXTS, STOPS, CUTS)
def test_nothing_is_told_that_could_still_be_cut_and_nothing_is_kept_that_could_not(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    cutter, read, shown = Cutter(stops), "", ""
    for piece in in_pieces(text, cuts):
        part = cutter.take(piece)
        read, shown = read + piece.text, shown + part.text
        if part.finish_reason:
            return
        kept = read[len(shown) :]
        assert not kept or any(stop.startswith(kept) and stop != kept for stop in stops)
        longer = [read[-length:] for length in range(len(kept) + 1, len(read) + 1)]
        assert not any(stop.startswith(each) for each in longer for stop in stops)


@given(TEXTS, STOPS, CUTS)
def test_each_token_is_told_once_if_it_begins_in_what_is_told(text: str, stops: list[str], cuts: list[int]) -> None:
    pieces = in_pieces(text, cuts)
    parts = told(stops, pieces)
    shown = "".join(part.text for part in parts)
    whole = parts[-1].finish_reason == "length"
    places = [piece.tokens[0].id for piece in pieces]
    assert [token.id for part in parts for token in part.tokens] == [
        each for each in places if whole or each < len(shown)
    ]


def test_the_token_that_ends_an_answer_is_no_part_of_it() -> None:
    parts = told(["x"], in_pieces("abab", [2], reason="stop"))
    assert [token.id for part in parts for token in part.tokens] == [0]
    assert (parts[-1].text, parts[-1].finish_reason) == ("ab", "stop")
