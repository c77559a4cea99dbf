"""Needle prompts hold what they say, where they say it. Everything is read from the token ids that would be sent."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import readers as made
import yaml

from weakspots import config
from weakspots.config.deepseek import Needle
from weakspots.deepseek.needle import Prompts
from weakspots.errors import UserError

ROOT = Path(__file__).parents[2]
PAPER = config.load(ROOT / "config.yaml", ROOT / "workflow/scales/paper.yaml").deepseek.needle
SMALL = Needle(
    length=96, record=["{key}", "{value}"], records=12, target=5, demonstrations=4, prompts_per_residue=64, seed=3
)


@pytest.fixture(scope="module")
def paper() -> Prompts:
    return Prompts(PAPER, made.deepseek())


@pytest.fixture(scope="module")
def small() -> Prompts:
    return Prompts(SMALL, made.whole_words())


def moments(positions: list[int]) -> tuple[Fraction, Fraction]:
    mean = Fraction(sum(positions), len(positions))
    return mean, Fraction(sum(position**2 for position in positions), len(positions)) - mean**2


def test_all_prompts_of_the_paper_have_128k_tokens_16000_records_and_equal_moments(paper: Prompts) -> None:
    """All 2,048 of them. The target is found as the key that the prompt asks for: its last token but the colon."""
    colon, newline, start = 28, 201, 0  # DeepSeek's ids of ":", a line break and the beginning of text
    found: dict[int, list[int]] = defaultdict(list)
    for index, ids in enumerate(paper):
        assert ids.dtype == np.uint32 and len(ids) == 131_072
        assert ids[0] == start and ids[-1] == colon
        target, asked = np.flatnonzero(ids == ids[-2])
        assert asked == 131_070
        records = ids[target - 4 * 248 :][: 4 * 16_000].reshape(-1, 4)
        assert (records[:, 1] == colon).all() and (records[:, 3] == newline).all()
        assert records[248, 0] == ids[-2] and records[248, 2] == paper.answer(index)
        if index % 8 == 0:  # the prompts of a mapping have the same records
            first = records.copy()
            assert len(np.unique(records[:, 0])) == 16_000
        assert np.array_equal(records, first)
        assert np.count_nonzero(ids == colon) == 16_000 + PAPER.demonstrations + 1, "in records and nowhere else"
        found[int(target) % 8].append(int(target))
        assert paper.position[index] == target % 8 and paper.target_position[index] == target
    assert sorted(found) == list(range(8))
    assert {len(positions) for positions in found.values()} == {256}
    assert len({moments(positions) for positions in found.values()}) == 1
    mean, _ = moments(found[0])
    assert abs(mean - 65_536) < 16


@pytest.mark.parametrize("index", [0, 1_029])
def test_the_text_of_a_prompt_is_read_as_the_very_tokens_that_are_sent(paper: Prompts, index: int) -> None:
    text = paper.text(index)
    assert made.deepseek().backend_tokenizer.encode(text, add_special_tokens=False).ids == paper[index][1:].tolist()
    key, value = text.rsplit("\n", 1)[1], paper.answer_text(index)
    assert f"\n{key}{value}\n" in text and text.count(f"{key}{value}\n") == 1, "shown as a record, not demonstrated"


def test_the_tokens_of_a_prompt_do_not_depend_on_which_were_made_before(paper: Prompts) -> None:
    again = Prompts(PAPER, made.deepseek())
    assert np.array_equal(again[777], paper[777])
    assert np.array_equal(paper[3], again[3])


def test_small_prompts_have_the_same_design(small: Prompts) -> None:
    """The recall corpus's words: a key directly followed by its value, and the last token asks."""
    found, animals = defaultdict(list), set(range(1, 25))
    for index, ids in enumerate(small):
        assert len(ids) == 96 and ids[0] == 0
        target, asked = np.flatnonzero(ids == ids[-1])
        assert asked == 95 and ids[target + 1] == small.answer(index)
        assert all(ids[target + 2 * step] in animals for step in range(-4, 8)), "twelve records, the fifth is asked for"
        found[int(target) % 8].append(int(target))
    assert len({moments(positions) for positions in found.values()}) == 1
    assert {len(positions) for positions in found.values()} == {64}


def test_the_prompts_of_a_mapping_differ_only_in_where_the_filler_stands(small: Prompts) -> None:
    for mapping in range(3):
        prompts = [small[index] for index in np.flatnonzero(small.mapping == mapping)]
        start = [int(target) - 8 for target in small.target_position[small.mapping == mapping]]
        records = {ids[at : at + 24].tobytes() for ids, at in zip(prompts, start, strict=True)}
        ends = {ids[-9:].tobytes() for ids in prompts}
        assert len(records) == len(ends) == 1
        shared = min(start) - 1
        assert len({ids[at - shared : at].tobytes() for ids, at in zip(prompts, start, strict=True)}) == 1


def test_filler_never_pairs_a_key_with_a_value_and_uses_no_word_of_a_record(small: Prompts) -> None:
    for index in range(64):
        ids, at = small[index], int(small.target_position[index]) - 8
        filler = [ids[1:at], ids[at + 24 : -9]]
        assert not set(np.concatenate(filler)) & set(ids[at : at + 24])
        for part in filler:
            assert not ((part[:-1] <= 24) & (part[1:] > 24)).any()


def test_another_seed_has_other_prompts_and_another_count_the_same_words(small: Prompts) -> None:
    other = Prompts(SMALL, made.whole_words(), 64, seed=4)
    assert not {ids.tobytes() for ids in small} & {ids.tobytes() for ids in other}
    more = Prompts(SMALL, made.whole_words(), 128)
    assert [more.answer(8 * mapping) for mapping in range(64)] == [small.answer(8 * mapping) for mapping in range(64)]


def test_prompts_that_are_asked_have_names_of_their_own_and_no_tokens_in_memory(small: Prompts) -> None:
    asked = small.asked()
    assert len({name for name, _ in asked}) == len(small) == 512
    _, ids = asked[17]
    assert len(ids) == 96
    assert list(ids) == np.asarray(ids).tolist() == small[17].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 56}, "raise it to at least 57"),
        ({"records": 24, "length": 200}, "more than 24 keys are needed"),
    ],
)
def test_what_does_not_fit_is_refused_and_named(change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Prompts(SMALL.model_copy(update=change), made.whole_words())


def test_a_piece_of_a_record_that_is_no_token_is_refused() -> None:
    needle = PAPER.model_copy(update={"record": ["{key}", " means by far", "{value}", "\n"]})
    with pytest.raises(UserError, match="' means by far' is 3 tokens for this tokenizer and must be one"):
        Prompts(needle, made.deepseek())


def test_a_tokenizer_that_joins_neighbours_is_refused() -> None:
    """`:` and a line break are one token each, and one together."""
    needle = PAPER.model_copy(update={"record": ["{key}", "{value}", ":", "\n"]})
    with pytest.raises(UserError, match="joins neighbouring pieces"):
        Prompts(needle, made.deepseek())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts_per_residue": 100}, "no multiple of modulus² = 64.*use 128"),
        ({"record": ["{key}", ":"]}, "must hold {key} once and {value} once"),
        ({"record": ["{value}", "{key}"]}, "value before its key"),
        ({"target": 13}, "target 13 is not among 12 records"),
        ({"modulus": 6, "prompts_per_residue": 36}, "needle.modulus 6 is no multiple of models"),
        ({"models": ["flash"]}, "'flash', which is not among models"),
    ],
)
def test_mistakes_in_the_configuration_are_refused(change: dict, message: str) -> None:
    below = yaml.safe_load((ROOT / "config.yaml").read_text())
    with pytest.raises(UserError, match=message):
        config.parse(config.merge(below, {"deepseek": {"needle": change}}))
