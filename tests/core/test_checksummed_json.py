import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.core.checksummed_json import seal, unseal

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
DOC = {"name": "a “seal” 0", "attributes": {"x": 1}, "values": [1.5, True, None], "seal2": "0" * 64}


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text().filter(lambda key: key != "seal"), JSON))
def test_what_was_sealed_is_read_back(doc):
    assert unseal(seal(doc)) == doc


@pytest.mark.parametrize("within", ["", "attributes"])
@pytest.mark.parametrize("indent", [None, 1])
def test_every_changed_byte_is_found(within, indent):
    data = seal(DOC, within=within, indent=indent)
    assert unseal(data, within=within) == DOC
    for place in range(len(data)):
        for flip in (1, 32, 255):
            damaged = data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]
            with pytest.raises(ValueError, match="seal"):
                unseal(damaged, within=within)


@pytest.mark.parametrize("cut", [0, 1, 20, 100])
def test_a_cut_or_lengthened_document_is_found(cut):
    data = seal(DOC)
    with pytest.raises(ValueError, match="seal" if cut else "empty"):
        unseal(data[:cut])
    with pytest.raises(ValueError, match="seal"):
        unseal(data + b" ")


def test_numbers_that_json_has_no_word_for_become_strings_that_float_reads():
    doc = {"low": [float("-inf"), 1.0], "high": (float("inf"),), "x": {"y": float("nan")}}
    assert unseal(seal(doc)) == {"low": ["-inf", 1.0], "high": ["inf"], "x": {"y": "nan"}}


def test_a_document_is_one_line_unless_asked_otherwise():
    assert b"\n" not in seal({"text": "two\nlines"})
