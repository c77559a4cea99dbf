"""Tokenizers start every document with end of text, lose nothing, and map answers to tokens."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from weakspots.data.corpora import documents
from weakspots.data.document import Document
from weakspots.data.tokenization import END_OF_TEXT, Encoder, build_tokenizer
from weakspots.errors import UserError
from weakspots.task.records import animals, names


@pytest.fixture(scope="module")
def prose_tokenizer(text_corpus):
    """A byte-level BPE trained on one real address."""
    return build_tokenizer(text_corpus(tokenizer={"kind": "bytes", "vocabulary": 500, "training_documents": 1}))


def encode(tokenizer, *documents: Document):
    encoder = Encoder(tokenizer)
    return [encoder.tokens(*pair) for pair in zip(documents, encoder.encode(list(documents)), strict=True)]


def test_words_have_one_token_each_in_the_order_end_of_text_animals_names(recall_corpus):
    tokenizer = build_tokenizer(recall_corpus)
    (tokens,) = encode(tokenizer, Document(f" {animals()[0]} {names()[0]} {animals()[19]} {names()[29]}"))
    assert tokens.ids.tolist() == [0, 1, 21, 20, 50]
    assert len(tokenizer) == 1 + 20 + 30
    assert tokenizer.eos_token == END_OF_TEXT


def test_more_words_than_there_are_is_explained(recall_corpus):
    source = recall_corpus.source.model_copy(update={"keys": 2000})
    with pytest.raises(UserError, match="source.keys 2000 is more than the 108 words"):
        build_tokenizer(recall_corpus.model_copy(update={"source": source}))


@given(text=st.text(max_size=60))
def test_bytes_give_any_text_back(prose_tokenizer, text):
    (tokens,) = encode(prose_tokenizer, Document(text))
    assert tokens.ids[0] == prose_tokenizer.eos_token_id
    assert prose_tokenizer.decode(tokens.ids[1:]) == text


def test_a_text_that_quotes_the_end_of_text_token_does_not_end_there(prose_tokenizer):
    (tokens,) = encode(prose_tokenizer, Document(f"before {END_OF_TEXT} after"))
    assert tokens.ids.tolist().count(prose_tokenizer.eos_token_id) == 1


def test_the_vocabulary_has_the_size_asked_for_and_shortens_the_prose(prose_tokenizer, prose):
    text = (prose / "1932_herbert_hoover_r.txt").read_text()
    (tokens,) = encode(prose_tokenizer, Document(text))
    assert len(prose_tokenizer) == 500
    assert len(tokens.ids) < len(text) / 2


@given(data=st.data())
def test_a_token_is_an_answer_exactly_when_it_shares_a_character_with_one(prose_tokenizer, data):
    text = data.draw(st.text("abc é漢\n", min_size=1, max_size=40))
    bounds = data.draw(st.lists(st.integers(0, len(text)), unique=True, max_size=8).map(sorted))
    spans = tuple(zip(bounds[::2], bounds[1::2], strict=False))
    (tokens,) = encode(prose_tokenizer, Document(text, spans))
    inside = np.zeros(len(text), bool)
    for first, last in spans:
        inside[first:last] = True
    offsets = prose_tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)["offset_mapping"]
    assert tokens.answers.tolist() == [False, *(bool(inside[first:last].any()) for first, last in offsets)]


def test_answers_of_recall_documents_are_the_tokens_of_their_words(recall_corpus):
    tokenizer = build_tokenizer(recall_corpus)
    batch = list(islice(documents(recall_corpus, 1, "train"), 20))
    for document, tokens in zip(batch, encode(tokenizer, *batch), strict=True):
        expected = [document.text[first:last] for first, last in document.answers]
        assert tokenizer.convert_ids_to_tokens(tokens.ids[tokens.answers]) == expected
        assert len(expected) >= recall_corpus.stages[1].records


def save_pretrained(tokenizer, folder, **config):
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return {"kind": "pretrained", "path": str(folder)}


def test_a_pretrained_folder_gives_the_same_tokens(tmp_path, text_corpus, prose_tokenizer):
    section = save_pretrained(prose_tokenizer, tmp_path)
    document = Document("The state of the Union.")
    (expected,) = encode(prose_tokenizer, document)
    (found,) = encode(build_tokenizer(text_corpus(tokenizer=section)), document)
    assert found.ids.tolist() == expected.ids.tolist()


def test_end_of_text_is_preferred_to_the_end_of_a_chat_turn(tmp_path, text_corpus, prose_tokenizer):
    section = save_pretrained(prose_tokenizer, tmp_path, eos_token="Ġthe")
    tokenizer = build_tokenizer(text_corpus(tokenizer=section))
    assert tokenizer.eos_token == END_OF_TEXT
    tokenizer.save_pretrained(tmp_path / "again")
    assert AutoTokenizer.from_pretrained(tmp_path / "again").eos_token == END_OF_TEXT


def test_a_tokenizer_folder_that_is_missing_or_empty_is_explained(tmp_path, text_corpus):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(UserError, match="neither a folder with a tokenizer nor a hub id") as error:
            build_tokenizer(text_corpus(tokenizer={"kind": "pretrained", "path": str(path)}))
        assert len(str(error.value).splitlines()) == 1


def test_a_tokenizer_without_end_of_text_is_explained(tmp_path, text_corpus, prose_tokenizer):
    section = save_pretrained(prose_tokenizer, tmp_path, eos_token=None)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace(END_OF_TEXT, "<other>"))
    with pytest.raises(UserError, match="no end-of-text token"):
        build_tokenizer(text_corpus(tokenizer=section))


@pytest.mark.parametrize(("extra", "dtype"), [(65_036, "uint16"), (65_037, "uint32")])
def test_ids_take_two_bytes_as_long_as_they_fit(tmp_path, prose_tokenizer, extra, dtype):
    prose_tokenizer.save_pretrained(tmp_path)
    larger = AutoTokenizer.from_pretrained(tmp_path)
    larger.add_tokens([f"<extra {number}>" for number in range(extra)])
    assert Encoder(larger).dtype == dtype
