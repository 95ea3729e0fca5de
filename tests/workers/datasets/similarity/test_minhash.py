"""Signatures are datasketch's, whatever the text and however it is cut into arrays."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.datasets.similarity.minhash import band_hashes, banding, signatures

xxhash = pytest.importorskip("xxhash")

TEXTS = st.text(st.one_of(st.characters(max_codepoint=127), st.characters(exclude_categories=["Cs"])), max_size=90)


def of_datasketch(text: str) -> np.ndarray:
    from datasketch import MinHash

    shingles = [text[at : at + 5] for at in range(len(text) - 4)] or ([text] if text else [])
    minhash = MinHash(num_perm=128, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)
    if shingles:
        minhash.update_batch([shingle.encode() for shingle in shingles])
    return minhash.hashvalues


@given(st.lists(TEXTS, max_size=4))
def test_signatures_are_those_of_datasketch_fed_the_same_shingles(texts: list[str]) -> None:
    found = signatures(pa.array(texts, pa.string()))
    assert found.shape == (len(texts), 128)
    for text, values in zip(texts, found, strict=True):
        assert np.array_equal(values, of_datasketch(text))


def test_every_length_around_a_vector_s_is_right() -> None:
    for length in (*range(41), 515, 516, 517):
        text = "".join(chr(97 + (at * at) % 26) for at in range(length))
        assert np.array_equal(signatures(pa.array([text]))[0], of_datasketch(text)), length


def test_an_empty_text_has_the_signature_of_nothing() -> None:
    assert (signatures(pa.array(["", None])) == 2**32 - 1).all()


@given(st.lists(TEXTS, min_size=1, max_size=8), st.data())
def test_slices_chunks_and_offset_widths_change_nothing(texts: list[str], data: st.DataObject) -> None:
    whole = signatures(pa.array(texts))
    start = data.draw(st.integers(0, len(texts)))
    array = pa.array(["before", *texts, "after"])
    assert np.array_equal(signatures(array.slice(1, len(texts)).slice(start)), whole[start:])
    chunked = pa.chunked_array([pa.array(texts[:start], pa.string()), pa.array(texts[start:], pa.string())])
    assert np.array_equal(signatures(chunked), whole)
    assert np.array_equal(signatures(pa.array(texts, pa.large_string())), whole)


@pytest.mark.parametrize("threshold", [0.7, 0.8, 0.9])
def test_bands_agree_exactly_where_their_rows_of_the_signatures_do(threshold: float) -> None:
    text = "The quick brown fox jumps over the lazy dog while seven wizards watch. " * 3
    texts = pa.array([text, text.replace("seven", "eight"), text.replace("dog", "hog"), "something else altogether"])
    signed, bands = signatures(texts), band_hashes(texts, threshold)
    shape = banding(threshold)
    assert bands.shape == (4, shape.bands)
    rows = signed[:, : shape.bands * shape.rows].reshape(4, shape.bands, shape.rows)
    for one in range(4):
        for other in range(4):
            assert np.array_equal(bands[one] == bands[other], (rows[one] == rows[other]).all(axis=1))
    assert len(np.unique(bands[0])) == shape.bands


@pytest.mark.parametrize("threshold", [0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0])
def test_at_every_threshold_almost_all_pairs_are_compared(threshold: float) -> None:
    shape = banding(threshold)
    assert 1 - (1 - threshold**shape.rows) ** shape.bands >= (0.9998 if threshold == 0.9 else 0.989)


def test_thresholds_that_no_bands_are_made_for_are_refused() -> None:
    with pytest.raises(ValueError, match=r"from 0\.7 to 1"):
        banding(0.5)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="strings"):
        signatures(pa.array([1, 2]))


def test_a_single_text_has_the_bands_that_it_has_among_others() -> None:
    together = band_hashes(pa.array(["a text by itself", "another"]))
    assert np.array_equal(band_hashes(pa.array(["a text by itself"])), together[:1])
