"""The recall corpus: every answer can be known from its document, and only from its records."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakspots.config import CurriculumStage, RecallSource
from weakspots.data.recall import BLOCK, recall_block, recall_documents

KEYS, VALUES = 30, 40


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), records=st.integers(1, 12), spare=st.integers(0, 60))
def test_a_document_is_records_filler_and_repeats(seed, records, spare):
    length = 4 * records + spare
    words, answers = recall_block(np.random.default_rng(seed), length, records, KEYS, VALUES)
    assert words.shape == (BLOCK, length)
    assert words.min() >= 0 and words.max() < KEYS + VALUES
    first_repeat = int(np.flatnonzero(answers)[0]) - 1
    for row in words:
        body, tail = row[:first_repeat], row[first_repeat:]
        # a key directly followed by a value, in the body, is a record: filler makes none
        pairs = {int(a): int(b) for a, b in itertools.pairwise(body) if a < KEYS <= b}
        assert len(pairs) == records and len(set(pairs.values())) == records
        asked, answered = tail[0::2], tail[1::2]
        assert [pairs[int(key)] for key in asked] == answered.tolist()
        assert set(asked.tolist()) == set(pairs)  # every record is asked for at least once
        # the words of a record stand in the body once, so an answer cannot be counted
        for key, value in pairs.items():
            assert (body == key).sum() == (body == value).sum() == 1


def test_answers_are_all_names_of_repeats():
    stage = CurriculumStage(length=48, records=6, sequences=1)
    source = RecallSource(kind="recall", keys=KEYS, values=VALUES)
    for document, _ in zip(recall_documents(source, stage, (3, 1), 0), range(100), strict=False):
        words = document.text.split()
        assert len(words) == stage.length - 1
        marked = [document.text[a:b] for a, b in document.answers]
        assert marked == words[-2 * len(marked) + 1 :: 2]


@pytest.mark.parametrize("start", [1, 63, 64, 130])
def test_a_document_depends_on_the_seed_and_its_number_alone(start):
    stage = CurriculumStage(length=48, records=6, sequences=1)
    source = RecallSource(kind="recall", keys=KEYS, values=VALUES)

    def take(first, count, seed=(3, 1)):
        stream = recall_documents(source, stage, seed, first)
        return [next(stream) for _ in range(count)]

    assert take(0, start + 3)[start:] == take(start, 3)
    assert take(start, 3) != take(start, 3, seed=(4, 1))
