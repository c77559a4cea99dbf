"""Designs, words and prompts: what differs between the prompts of a mapping, and what tokenizers are good for it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_readers import word_tokenizer
from scipy import stats
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from weakspots.audit import difficulty
from weakspots.audit.design import AUTO, design, moments, phase, phases
from weakspots.audit.difficulty import Candidate
from weakspots.audit.prompts import Setting, fixed_tokens, make
from weakspots.audit.words import vocabulary
from weakspots.errors import UserError
from weakspots.task.records import animals, names

WORDS = vocabulary(word_tokenizer())


def sentencepiece(words: list[str], bos: bool = True) -> PreTrainedTokenizerFast:
    """Words with ▁ for the space before them, some prose, an unknown token, and perhaps a BOS that is put first."""
    pieces = ["<unk>", "<s>", ";", *(f"▁{word}" for word in words)]
    tokenizer = Tokenizer(models.WordLevel({piece: number for number, piece in enumerate(pieces)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>")


def merging(spaces: bool) -> PreTrainedTokenizerFast:
    """A byte pair tokenizer of records and prose that merges across spaces, or does not."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not spaces)
    tokenizer.pre_tokenizer = split
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, show_progress=False)
    pairs = list(zip(animals()[:40], names()[:40], strict=True))
    text = [f" {animal}" for animal, _ in pairs] * 5 + [f" {name}" for _, name in pairs] * 5
    text += [f" {animal} {name}" for animal, name in pairs] * 3 if spaces else []
    tokenizer.train_from_iterator(text, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@given(st.sampled_from([2, 3, 4, 5, 6, 8, 12]), st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_moments_are_exact_after_every_modulus_squared_mappings_and_near_before(stride: int, seed: int) -> None:
    asked = design((stride,))
    whole = asked.modulus**2
    parts = [asked.draw(seed, first, count)[0] for first, count in ((0, whole // 3), (whole // 3, whole - whole // 3))]
    before = np.concatenate(parts)
    found = moments(before.ravel(), asked.modulus)
    assert len(found) == asked.modulus and np.ptp(found["mean"]) < 1e-9 and np.ptp(found["deviation"]) < 1e-9
    assert (np.sort(before % asked.modulus, axis=1) == np.arange(asked.modulus)).all()
    early = moments(parts[0].ravel(), asked.modulus)
    assert np.ptp(early["mean"]) <= 2 * asked.modulus / max(whole // 3, 1) + 1e-9


@pytest.mark.parametrize("period", [2, 3, 7, 13, 16, 32, 128])
def test_the_spread_design_has_nearly_the_same_moments_at_every_phase_of_every_period(period: int) -> None:
    asked = design("auto")
    before, cut = asked.draw(0, 0, 4000)
    # within the phases of a long period, which hold several tokens, positions differ by construction
    means = [before[before % period == residue].mean() for residue in range(0, period, max(1, period // 8))]
    counts = np.bincount(phase(before.ravel(), period), minlength=phases(period))
    assert np.ptp(means) < 6 * before.std() / np.sqrt(before.size / period) and before.max() < asked.reach
    assert (
        counts.max() / counts.min() < 1.15
        and np.ptp(cut, axis=1).max() < asked.modulus
        and cut.max() < 2 * asked.modulus
    )


@given(st.sampled_from([(2,), (4,), (8,), (3, 5), (32,), "auto"]), st.integers(0, 99), st.integers(0, 60))
@settings(max_examples=25, deadline=None)
def test_every_prompt_has_its_target_and_its_length_where_it_says(strides, seed: int, more: int) -> None:
    asked = design(strides)
    setting = Setting(6, 3, fixed_tokens(WORDS, 6, 3) + asked.span + more)
    batch = make(WORDS, setting, asked, seed=seed, first=3, count=2)
    for (_, ids), needle, length, answer in zip(batch.prompts, batch.needle, batch.length, batch.answer, strict=True):
        assert len(ids) == length <= setting.length and ids[0] == WORDS.start[0]
        assert ids.index(ids[-1]) == needle and ids[needle + 1] == answer  # its only record, and nothing like it
        assert ids.count(ids[-1]) == 2 and ids.count(answer) == 1
    assert len({key for key, _ in batch.prompts}) == len(batch.prompts)
    again = make(WORDS, setting, asked, seed=seed, first=3, count=2)
    assert again.prompts == batch.prompts


def test_needle_and_tail_phase_are_independent() -> None:
    asked = design((4,))
    batch = make(WORDS, Setting(4, 2, 80), asked, seed=0, first=0, count=200)
    table = np.histogram2d(batch.needle % 8, batch.length % 8, bins=8)[0]
    assert (
        stats.chi2_contingency(table).pvalue > 0.001
        and np.allclose(table.sum(axis=0), 200)
        and np.allclose(table.sum(axis=1), 200)
    )


def test_filler_never_looks_like_a_record() -> None:
    asked = design((8,))
    batch = make(WORDS, Setting(5, 2, 120), asked, seed=1, first=0, count=4)
    keys, values = set(WORDS.keys.tolist()), set(WORDS.values.tolist())
    for _, ids in batch.prompts:
        pairs = [pair for pair in itertools.pairwise(ids) if pair[0] in keys and pair[1] in values]
        assert len(pairs) == 5 + 2


def test_a_bos_that_the_tokenizer_adds_begins_every_prompt() -> None:
    known = sentencepiece([*animals()[:20], *names()[:20]])
    assert vocabulary(known).start == (1,)
    assert vocabulary(sentencepiece([*animals()[:20], *names()[:20]], bos=False)).start == ()
    assert WORDS.start == (0,)


def test_a_tokenizer_that_does_not_know_prose_gets_words_and_one_that_does_gets_separators() -> None:
    assert vocabulary(sentencepiece([*animals()[:20], *names()[:20]])).separator is None
    prose = vocabulary(merging(spaces=False))
    assert prose.separator is not None and len(prose.prose) > 10_000 and WORDS.separator is None
    asked = design((4,))
    batch = make(prose, Setting(6, 3, 120), asked, seed=0, first=0, count=2)
    ids = batch.prompts[0][1]
    at = int(batch.needle[0])
    assert ids[at + 1] == batch.answer[0] and ids[at + 2] == ids[at - 1] == prose.separator
    assert ids.count(int(batch.answer[0])) == 1


def test_tokenizers_that_split_words_or_merge_across_spaces_are_refused_in_words() -> None:
    with pytest.raises(UserError, match="2 animals and 20 first names.*splits words too finely"):
        vocabulary(sentencepiece([*animals()[:2], *names()[:20]]))
    with pytest.raises(UserError, match="joins or splits neighbouring words"):
        vocabulary(merging(spaces=True))


def test_strides_choose_the_periods() -> None:
    assert design((4,)).periods == (2, 4, 8) and design((4,)).exact
    assert design((8,)).periods == (2, 4, 8, 16) and design((12,)).modulus == 12
    assert design("auto").periods == AUTO and design("auto", 80).periods[-1] == 16 and design("auto", 80).span <= 80
    assert not design((5, 7)).exact and {5, 7} <= set(design((5, 7)).periods)
    with pytest.raises(UserError, match="from 2 on"):
        design((1,))
    with pytest.raises(UserError, match="stride 64 needs 317 tokens of filler"):
        design((64,), 100)


@given(st.integers(0, 11), st.floats(0.02, 0.98))
def test_the_search_ends_between_the_bounds_whenever_some_setting_is(hard: int, ability: float) -> None:
    """Accuracy falls along the settings, from 1 to 0, more or less steeply."""
    options, first = difficulty.candidates(WORDS, (4,))
    accuracy = {id(option): max(0.0, min(1.0, ability + (hard - number) / 8)) for number, option in enumerate(options)}
    found = difficulty.search(options, first, lambda option: accuracy[id(option)])
    fits = [option for option in options if 0.3 <= accuracy[id(option)] <= 0.9]
    assert found.suitable == bool(fits) and len(found.tried) <= 5
    assert not fits or 0.3 <= accuracy[id(found.chosen)] <= 0.9


def test_what_the_user_gives_is_kept_by_the_search() -> None:
    options, first = difficulty.candidates(WORDS, (4,), length=120, records=8)
    assert len(options) > 1 and {(option.setting.records, option.setting.length) for option in options} == {(8, 120)}
    only, _ = difficulty.candidates(WORDS, (4,), records=8, demonstrations=2)
    assert len(only) == 1 and difficulty.search(only, 0, lambda option: pytest.fail("asked")).suitable
    small = difficulty.candidates(WORDS, "auto", context=128)[0]
    assert small and all(option.setting.length <= 128 for option in small)
    with pytest.raises(UserError, match="context holds 128"):
        difficulty.candidates(WORDS, (4,), length=200, context=128)
    shorter = [option.design.periods[-1] for option in difficulty.candidates(WORDS, "auto")[0]]
    assert shorter[0] == 16 and shorter[-1] == 128 and all(isinstance(option, Candidate) for option in options)
