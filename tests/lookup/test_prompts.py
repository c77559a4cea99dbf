"""Every prompt asks for a record that it holds, and positions differ in nothing but the phase."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakspots.config import PADDINGS, Lookup
from weakspots.errors import UserError
from weakspots.lookup.prompts import PromptSet, prompts
from weakspots.task import records

KEYS, VALUES = list(records.animals()[:24]), list(records.names()[:20])


def lookup(**changes) -> Lookup:
    settings = {"corpus": "recall", "paddings": PADDINGS, "modulus": 4, "mappings": 16, "records": 6}
    return Lookup.model_validate({**settings, "demonstrations": 3, **changes})


def read_target(made: PromptSet, index: int) -> int:
    """Token index of the target's key, found in the written prompt by the word that the prompt ends with."""
    words = made.text(index).split()
    return 1 + words.index(words[-1])


@pytest.mark.parametrize("padding", PADDINGS)
@settings(max_examples=15, deadline=None)
@given(
    modulus=st.sampled_from([2, 3, 4, 6, 8]),
    times=st.integers(1, 2),
    size=st.integers(2, 9),
    demonstrations=st.integers(0, 8),
    seed=st.integers(0, 99),
)
def test_target_positions_have_equal_mean_and_variance_at_every_residue(
    padding, modulus, times, size, demonstrations, seed
):
    config = lookup(
        modulus=modulus,
        mappings=times * modulus**2,
        records=size,
        demonstrations=min(demonstrations, size - 1),
        seed=seed,
    )
    made = prompts(config, padding, KEYS, VALUES)
    filler = 3 * modulus - 1  # the target stands at its position modulo the modulus, in the first, second or third turn
    length = 1 + 2 * size + filler + 2 * config.demonstrations + 1  # end of text, records, ..., the key that is asked
    assert made.length == length and made.words.shape == (config.mappings * modulus, length - 1)
    positions: dict[int, list[int]] = {residue: [] for residue in range(modulus)}
    for index in range(len(made)):
        position = read_target(made, index)
        assert position == made.target_position[index]
        assert position % modulus == made.position[index]
        positions[position % modulus].append(position)
    assert {len(found) for found in positions.values()} == {config.mappings}
    means = [Fraction(sum(found), len(found)) for found in positions.values()]
    variances = [
        Fraction(sum(p * p for p in found), len(found)) - mean**2
        for found, mean in zip(positions.values(), means, strict=True)
    ]
    assert len(set(means)) == 1
    assert len(set(variances)) == 1


@pytest.mark.parametrize("padding", PADDINGS)
def test_prompts_at_the_papers_modulus_are_matched_exactly(padding):
    made = prompts(lookup(modulus=24, mappings=576), padding, KEYS, VALUES)
    moments = set()
    for residue in range(24):
        found = [read_target(made, index) for index in np.flatnonzero(made.position == residue)]
        moments.add((len(found), sum(found), sum(p * p for p in found)))
    assert len(moments) == 1


@pytest.mark.parametrize("padding", PADDINGS)
def test_the_answer_follows_the_targets_only_other_appearance(padding):
    made = prompts(lookup(), padding, KEYS, VALUES)
    for index in range(len(made)):
        words = made.text(index).split()
        assert words.count(words[-1]) == 2
        assert words[words.index(words[-1]) + 1] == made.vocabulary[made.answer[index]]
        assert made.text(index).startswith(" ")


@pytest.mark.parametrize("padding", PADDINGS)
def test_a_key_is_followed_by_a_value_only_in_records_and_their_demonstrations(padding):
    config = lookup()
    made = prompts(config, padding, KEYS, VALUES)
    for mapping in range(config.mappings):
        pairs_of_mapping = set()
        for index in np.flatnonzero(made.mapping == mapping):
            words = made.text(index).split()
            body = words[: -1 - 2 * config.demonstrations]
            shown = [tuple(words[i : i + 2]) for i in range(len(body), len(words) - 1, 2)]
            found = [pair for pair in itertools.pairwise(body) if pair[0] in KEYS and pair[1] in VALUES]
            assert len(found) == len(set(found)) == config.records
            assert len({key for key, _ in found}) == len({value for _, value in found}) == config.records
            assert len(set(shown)) == config.demonstrations and set(shown) < set(found)
            assert words[-1] not in {key for key, _ in shown}
            in_records = {word for pair in found for word in pair}
            assert sum(word in in_records for word in body) == 2 * config.records, "filler repeats a record's word"
            pairs_of_mapping.add((tuple(found), tuple(shown)))
        assert len(pairs_of_mapping) == 1, "one mapping is the same records, order and demonstrations at every position"


def test_both_paddings_ask_the_same_mappings():
    prefix, in_sequence = (prompts(lookup(), padding, KEYS, VALUES) for padding in PADDINGS)
    np.testing.assert_array_equal(prefix.answer, in_sequence.answer)
    np.testing.assert_array_equal(prefix.words[:, -7:], in_sequence.words[:, -7:])


def gaps_before_records(made: PromptSet, config: Lookup) -> np.ndarray:
    rows = []
    for index in range(len(made)):
        body = made.text(index).split()[: -1 - 2 * config.demonstrations]
        starts = [i for i in range(len(body) - 1) if body[i] in KEYS and body[i + 1] in VALUES]
        rows.append(np.diff([-2, *starts]) - 2)
    return np.array(rows)


def test_prefix_padding_moves_all_records_together():
    gaps = gaps_before_records(prompts(lookup(), "prefix", KEYS, VALUES), lookup())
    assert not gaps[:, 1:].any()


def test_in_sequence_padding_decouples_the_distractors_from_the_target():
    config = lookup(mappings=64)
    gaps = gaps_before_records(prompts(config, "in_sequence", KEYS, VALUES), config)
    phases = np.cumsum(gaps + 2, axis=1) % config.modulus
    target = config.records // 2
    for record in range(config.records):
        if record != target:
            shift = (phases[:, record] - phases[:, target]) % config.modulus
            assert len(set(shift)) == config.modulus


def test_every_prompt_is_a_function_of_the_seed():
    one, same, other = (prompts(lookup(seed=seed), "in_sequence", KEYS, VALUES) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.words, same.words)
    assert (one.words != other.words).any()


def test_too_few_words_for_filler_are_refused():
    with pytest.raises(UserError, match=r"lookup\.records 6 leaves no filler among 6 values"):
        prompts(lookup(), "prefix", KEYS, VALUES[:6])
