"""Stand-ins: the architecture's own layers, no phase before training, trained by the project's loop like any model."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from toys import HEAVY, LATENT, MIXED, SLIDING, SPARSE, STAND_IN, noisy, stand_in, texts
from transformers import AutoModelForCausalLM, AutoTokenizer, DeepseekV4ForCausalLM

from weakspots.config import Corpus
from weakspots.data.prepare import prepare
from weakspots.data.shards import Sequences
from weakspots.deepseek import standin
from weakspots.serving.prefill import prefill
from weakspots.training import loop
from weakspots.training.batches import IGNORED, Batches
from weakspots.training.gradient import gradient
from weakspots.training.record import Record

CORPUS = Corpus.model_validate(
    {
        "source": {"kind": "recall", "keys": 20, "values": 20},
        "tokenizer": {"kind": "words"},
        "stages": [
            {"length": 16, "records": 2, "sequences": 120, "max_steps": 7},
            {"length": 29, "records": 4, "sequences": 60},
        ],
        "training": {
            "steps": 19,
            "batch_tokens": 1024,
            "learning_rate": 1e-3,
            "warmup_steps": 3,
            "decay_fraction": 0.5,
            "weight_decay": 0.1,
            "loss_on": "answers",
            "log_every": 1,
            "resume_every": 4,
            "validation_sequences": 9,
        },
    }
)
WORDS = 1 + 20 + 20
MEASURED = ["tokens_per_second", "flop_utilisation", "peak_memory_gib"]
IDENTITIES = ("q_a_proj", "q_b_proj", "kv_proj", "o_a_proj", "o_b_proj", "compressor.kv_proj")
SHAPES = pytest.mark.parametrize("shape", [MIXED, LATENT], ids=["v4", "v3"])


class Texts:
    """Stands in for shards: `tokens` and `answers` `[n, T]`."""

    def __init__(self, tokens: np.ndarray, answers: np.ndarray) -> None:
        self.tokens, self.answers, self.length = tokens, answers, tokens.shape[1]

    def __len__(self) -> int:
        return len(self.tokens)

    def read(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.tokens[indices], self.answers[indices]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "recall"
    prepare(CORPUS, "recall", folder, workers=1)
    return folder


def train(shape, data, folder, **training):
    corpus = CORPUS.model_copy(update={"training": CORPUS.training.model_copy(update=training)})
    return standin.train(STAND_IN, shape, corpus, data, folder)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Folder and tables of both architectures."""
    folders = {shape.architecture: (shape, tmp_path_factory.mktemp("trained")) for shape in (MIXED, LATENT)}
    return {name: (folder, train(shape, data, folder)) for name, (shape, folder) in folders.items()}


def untrained(shape):
    """The model that training begins with."""
    torch.manual_seed(shape.seed)
    return standin.build(STAND_IN, shape, WORDS, 0)


class Stopped(BaseException):
    """Stands in for a kill: nothing of the program handles it."""


@pytest.mark.parametrize("length", [2, 3, 4, 5, 14, 15, 31])
def test_compressed_layers_emit_an_entry_whenever_a_window_closes(length):
    layers = prefill(stand_in().eval(), texts(2, length), 64).layers
    strides = {SPARSE: 3, HEAVY: 5}
    emitted = {number: layers[number].entry_count["compressor"] for number in (1, 2, 3)}
    assert emitted == {number: length // strides[MIXED.layers[number]] for number in (1, 2, 3)}
    assert MIXED.layers[0] == SLIDING and not hasattr(layers[0], "entry_count")


def shuffled_within(windows, hidden):
    """`hidden` `[1, T, D]` with the tokens of every window of that many in reverse order."""
    return hidden.view(1, -1, windows, hidden.shape[-1]).flip(2).reshape(hidden.shape)


@pytest.mark.parametrize(("layer", "stride"), [(1, 3), (2, 5)])
def test_before_training_an_entry_is_the_same_for_any_order_of_its_window(layer, stride):
    """So no offset of a window is preferred to another, and no phase is planted."""
    model = stand_in()
    hidden = torch.randn(1, 30, STAND_IN.width)

    def entries(tokens):
        module = model.model.layers[layer].self_attn.compressor
        return module(tokens, tokens, torch.arange(30)[None], None, layer)[0]

    torch.testing.assert_close(entries(shuffled_within(stride, hidden)), entries(hidden), rtol=1e-5, atol=1e-5)
    noisy(model)  # the biases too: now offsets differ
    assert (entries(shuffled_within(stride, hidden)) - entries(hidden)).abs().max() > 1e-2


def test_the_initialisation_adds_identities_to_six_projections_and_touches_nothing_else():
    ours = stand_in()
    torch.manual_seed(MIXED.seed)
    plain = dict(DeepseekV4ForCausalLM(ours.config).named_parameters())
    changed = set()
    for name, parameter in ours.named_parameters():
        difference = (parameter - plain[name]).detach()
        if difference.any():
            changed.add(name.split("self_attn.")[1].removesuffix(".weight"))
            longer, shorter = max(difference.shape), min(difference.shape)
            tall = difference if difference.shape[0] == longer else difference.T
            expected = torch.eye(shorter).repeat(-(-longer // shorter), 1)[:longer]
            torch.testing.assert_close(tall, expected, rtol=0, atol=1e-6)
    assert changed == set(IDENTITIES)


@SHAPES
def test_a_stopped_stand_in_resumes_to_the_same_curve_and_weights(data, trained, tmp_path, monkeypatch, shape):
    folder, undisturbed = trained[shape.architecture]
    count = loop.Record.count

    def stopping(self, loss, tokens):
        if self.step == 10:
            raise Stopped
        count(self, loss, tokens)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Record, "count", stopping)
        with pytest.raises(Stopped):
            train(shape, data, tmp_path)
    assert (tmp_path / "checkpoint-00000008").is_dir()
    resumed = train(shape, data, tmp_path)
    for table in ("training", "validation"):
        left, right = (result[table].drop(columns=MEASURED, errors="ignore") for result in (undisturbed, resumed))
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    one, two = (load_file(path / "model.safetensors") for path in (folder, tmp_path))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@SHAPES
def test_training_in_small_parts_changes_a_run_by_rounding_only(data, trained, tmp_path, shape):
    whole = trained[shape.architecture][1]["training"]["loss"].to_numpy()
    parts = train(shape, data, tmp_path, micro_batch_tokens=90)["training"]["loss"].to_numpy()
    assert parts == pytest.approx(whole, rel=1e-4)


@SHAPES
def test_the_loss_is_the_mean_over_the_answers_of_the_batch(data, trained, shape):
    loss = trained[shape.architecture][1]["training"]["loss"]
    sequences = Sequences(data / "train-0", CORPUS.stages[0].length)
    batches = Batches(sequences, 0, STAND_IN.training.batch_tokens, shape.seed, answers_only=True)
    (part,) = batches.parts(0)
    with torch.no_grad():
        logprobs = untrained(shape)(part.tokens).logits.log_softmax(-1)[:, :-1]
    asked = part.labels[:, 1:] != IGNORED
    surprise = -logprobs.gather(2, part.tokens[:, 1:, None])[..., 0][asked]
    assert loss[0] == pytest.approx(surprise.mean().item(), rel=1e-5)


def test_a_part_without_answers_adds_nothing_to_the_gradient():
    """transformers' mean over no labelled token would be not a number, and so would every weight."""
    tokens = texts(2, 12).numpy()
    answers = np.zeros((2, 12), bool)
    answers[0, 5:9] = True
    batches = Batches(Texts(tokens, answers), 0, tokens.size, seed=0, answers_only=True)
    gradients = {}
    for most in (None, 12):
        model = stand_in()
        accelerator = loop.accelerator_for("cpu", "float32")
        loss = gradient(accelerator, model, batches, Record(), most)
        gradients[most] = [loss, *(p.grad for p in model.parameters() if p.requires_grad)]
    for whole, parts in zip(*gradients.values(), strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)
    assert gradients[12][0] > 1


def test_all_that_has_a_gradient_is_trained_and_the_indexer_stays_as_it_was(trained):
    after = AutoModelForCausalLM.from_pretrained(trained["deepseek_v4"][0])
    before = dict(untrained(MIXED).named_parameters())
    same = {name for name, parameter in after.named_parameters() if torch.equal(parameter, before[name])}
    assert same == {name for name in before if ".indexer." in name}
    assert len(same) == 2 * 6


@SHAPES
def test_a_saved_stand_in_is_a_folder_that_transformers_loads(trained, shape):
    folder, _ = trained[shape.architecture]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.config.model_type == shape.architecture
    assert len(tokenizer) == model.config.vocab_size == WORDS
    text = torch.randint(1, WORDS, (1, 23))
    assert model.generate(text, max_new_tokens=3, do_sample=False, eos_token_id=None).shape == (1, 26)


def test_another_seed_gives_another_stand_in(data, trained, tmp_path):
    other = train(LATENT.model_copy(update={"seed": 6}), data, tmp_path)["training"]["loss"]
    assert not other.equals(trained["deepseek_v3"][1]["training"]["loss"])
