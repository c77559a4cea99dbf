"""MLflow: one parent run for an invocation of the workflow, one child run for each of its jobs.

The result files are the truth; nothing reads MLflow back. So no failure of it (a locked, deleted or full store) may
cost a result: each is a warning in the log, and the job goes on without tracking.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakspots.errors import first_line
from weakspots.files.atomic import writing
from weakspots.files.hashes import sha256, sha256_of, sha256_of_files
from weakspots.workflow.mlflow_store import Settings, connect, lock

if TYPE_CHECKING:
    import pandas
    from mlflow import MlflowClient

INVOCATION = "WEAKSPOTS_INVOCATION"
"""Environment variable that names the invocation; the Snakefile sets it, and its jobs inherit it wherever they run."""

MANY = 100
"""Texts of a corpus, beyond which they are noted together."""

LONGEST_NAME = 240
"""Characters of a tag's name: MLflow has 250, and a few serve to tell names apart that it would refuse."""

_REFUSED = ("INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS")
_PAUSE = 30  # seconds between two writes of a curve

_log = logging.getLogger(__name__)


class Job:
    """One child run. Every method warns instead of raising."""

    def __init__(self, client: MlflowClient | None = None, run_id: str | None = None) -> None:
        self.run_id = run_id
        self._client = client
        self._failed = False

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Parameters; nested mappings are written with dots in their names."""

        def action(client: MlflowClient, run_id: str) -> None:
            from mlflow.entities import Param

            flat = [Param(key, str(value)[:6000]) for key, value in _flatten(params)]
            for start in range(0, len(flat), 100):  # MLflow's limit for one request
                client.log_batch(run_id, params=flat[start : start + 100])

        self._try("log the parameters", action)

    def log_metrics(
        self, metrics: Mapping[str, float] | list[Mapping[str, float]] | pandas.DataFrame, over: str = "step"
    ) -> None:
        """Numbers of the whole job by name; or rows or a table: their numbers over the one called `over`.

        Runs with batches of different sizes are comparable over tokens.
        """

        def action(client: MlflowClient, run_id: str) -> None:
            rows = [metrics] if isinstance(metrics, Mapping) else metrics
            if not isinstance(rows, list):
                rows = rows.select_dtypes("number").to_dict("records")
            points = list(_points(rows, over))
            for start in range(0, len(points), 1000):
                client.log_batch(run_id, metrics=points[start : start + 1000])

        self._try("log the metrics", action)

    @contextmanager
    def curve(self, over: str) -> Iterator[Callable[[Mapping[str, float]], None]]:
        """Metrics of rows that come one by one: the block calls what it gets with each, to be logged over `over`.

        Written at most twice a minute, since a write costs some milliseconds, and at the end, however the block ends.
        """
        waiting: list[Mapping[str, float]] = []
        written = time.monotonic()

        def write() -> None:
            nonlocal written
            self.log_metrics(waiting, over)
            waiting.clear()
            written = time.monotonic()

        def add(row: Mapping[str, float]) -> None:
            waiting.append(row)
            if time.monotonic() - written > _PAUSE:
                write()

        try:
            yield add
        finally:
            if waiting:
                write()

    def log_dataset(self, name: str, digest: str, source: str | Path) -> None:
        """The data the job read: `digest` is the hash in its manifest, `source` its folder."""

        def action(client: MlflowClient, run_id: str) -> None:
            from mlflow.entities import Dataset, DatasetInput

            where = json.dumps({"uri": str(source)})
            dataset = Dataset(name=name, digest=digest[:36], source_type="local", source=where)
            client.log_inputs(run_id, datasets=[DatasetInput(dataset, tags=[])])
            client.set_tag(run_id, f"dataset.{name}", digest)

        self._try("log the data set", action)

    def log_inputs(self, *paths: str | Path) -> None:
        """What the job read, files or folders: a tag `input/<path>` with the hash of each, to walk lineage by."""
        self._try("note what was read", lambda client, run_id: _tag(client, run_id, "input", paths))

    def log_corpus(self, paths: Iterable[str], digests: Mapping[str, str]) -> None:
        """The texts that a corpus is made of: a tag `input/<path>` for each file, or, where they are many, one for each
        entry of `paths` with the hash of all of them.
        """
        whole = sha256_of_files(digests.items())
        noted = digests if len(digests) <= MANY else dict.fromkeys(paths, whole)
        tags = {f"input/{_below(Path(path))}": digest for path, digest in noted.items()}
        self._try("note what was read", lambda client, run_id: _set_tags(client, run_id, tags))

    def log_outputs(self, *paths: str | Path) -> None:
        """What the job wrote, without storing it: a tag `output/<path>` with the hash of each."""
        self._try("note what was written", lambda client, run_id: _tag(client, run_id, "output", paths))

    def log_artifacts(self, *paths: str | Path) -> None:
        """Result files; a folder is logged with all that is in it, under its name, hidden files left out.

        Each path has a tag `output/<path>` with its hash. A job that reads it has the same under `input/<path>`.
        """

        def action(client: MlflowClient, run_id: str) -> None:
            _tag(client, run_id, "output", paths)
            for path in map(Path, paths):
                for file in [path] if path.is_file() else sorted(part for part in path.rglob("*") if part.is_file()):
                    inside = file.relative_to(path.parent)
                    if not any(part.startswith(".") for part in inside.parts):
                        folder = inside.parent.as_posix()
                        client.log_artifact(run_id, str(file), None if folder == "." else folder)

        self._try("store the result files", action)

    def end(self, status: str) -> None:
        """Close the run as FINISHED, FAILED or KILLED; tried even where something failed before."""
        self._failed = False
        self._try("close the run", lambda client, run_id: client.set_terminated(run_id, status))

    def _try(self, what: str, action: Callable[[MlflowClient, str], None]) -> None:
        if self._client is None or self.run_id is None or self._failed:
            return
        try:
            action(self._client, self.run_id)
        except Exception as error:  # whatever it is, the result matters more
            # a store that does not answer is not waited for again; one that refuses something takes the rest
            self._failed = getattr(error, "error_code", None) not in _REFUSED
            _warn(what, error)


@contextmanager
def start_job(
    settings: str | Path,
    name: str,
    params: Mapping[str, Any],
    tags: Mapping[str, str] | None = None,
    reads: Iterable[str | Path] = (),
) -> Iterator[Job]:
    """A child run of this invocation's parent run, open for the length of the block.

    `settings` is the `tracking.json` of the scale, `name` what the run is called (`train recall/w8s8-1kv`), `tags`
    usually what `provenance.provenance` returns, `reads` the files and folders that the job reads. Ends as FINISHED,
    FAILED after an exception, or KILLED after Ctrl-C.
    """
    job = Job()
    try:
        job = _open_job(Path(settings), name, dict(tags or {}))
    except Exception as error:
        _warn("start a run", error)
    job.log_params(params)
    job.log_inputs(*reads)
    try:
        yield job
    except BaseException as error:
        job.end("FAILED" if isinstance(error, Exception | SystemExit) else "KILLED")
        raise
    job.end("FINISHED")


def initialise(output: str | Path, experiment: str) -> None:
    """Create the store and the experiment, and write the settings that jobs read to `output` (`tracking.json`).

    The only place where a fresh sqlite store is first used: two first uses at once break each other.
    """
    settings = Settings(experiment)
    try:
        connect(settings)
    except Exception as error:
        _warn("create its store", error)
    with writing(output) as path:
        path.write_text(json.dumps(asdict(settings), indent=2) + "\n")


def finish(settings: str | Path, status: str, *artifacts: Path) -> None:
    """Close this invocation's parent run with `artifacts`, and as KILLED those of its jobs that could not do it."""
    settings = Path(settings)
    if INVOCATION not in os.environ or not settings.exists():
        return  # no job has run
    try:
        client, experiment = connect(Settings(**json.loads(settings.read_text())))
        parent = _find_parent(client, experiment)
        if parent is not None:
            children = f"tags.`mlflow.parentRunId` = '{parent}' and attributes.status = 'RUNNING'"
            for run in client.search_runs([experiment], children):
                client.set_terminated(run.info.run_id, "KILLED")
            Job(client, parent).log_artifacts(*artifacts)
            client.set_terminated(parent, status)
    except Exception as error:
        _warn("close the parent run", error)


def _open_job(settings: Path, name: str, tags: dict[str, str]) -> Job:
    client, experiment = connect(Settings(**json.loads(settings.read_text())))
    with lock(client.tracking_uri.removeprefix("sqlite:///")):
        parent = _find_parent(client, experiment)
        if parent is None:
            parent = client.create_run(
                experiment,
                run_name=f"{settings.parent.name} {time.strftime('%Y-%m-%d %H:%M')}",
                tags={"invocation": _invocation(), **_commit(tags)},
            ).info.run_id
            Job(client, parent).log_artifacts(*settings.parent.glob("config.yaml"))
    tags = {"mlflow.parentRunId": parent, "invocation": _invocation(), **_commit(tags), **tags}
    return Job(client, client.create_run(experiment, run_name=name, tags=tags).info.run_id)


def _find_parent(client: MlflowClient, experiment: str) -> str | None:
    """The parent run of this invocation: the one run with its tag that has no parent itself."""
    runs = client.search_runs([experiment], f"tags.invocation = '{_invocation()}'", order_by=["start_time"])
    return next((run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags), None)


def _invocation() -> str:
    """A job started by hand, outside the workflow, is an invocation of its own."""
    return os.environ.setdefault(INVOCATION, new_invocation())


def new_invocation() -> str:
    """A name for one run of the workflow: when, and by which process."""
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"


def _commit(tags: Mapping[str, str]) -> dict[str, str]:
    """The tag from which MLflow's pages show the version."""
    return {"mlflow.source.git.commit": tags["git_commit"]} if "git_commit" in tags else {}


def content_hash(path: str | Path) -> str:
    """SHA-256 of a file; of a folder, over the names and hashes of the files in it, hidden ones left out.

    A prepared corpus stands for itself by its manifest, which holds the hashes of its shards.
    """
    return _content_hashes(Path(path))[Path(path)]


def _content_hashes(path: Path) -> dict[Path, str]:
    """`content_hash` of `path`, and of the files in a folder that is hashed by them; every file is read once."""
    if path.is_file():
        return {path: sha256(path)}
    if (path / "manifest.json").is_file():
        return {path: sha256(path / "manifest.json")}
    files = {}
    for file in sorted(part for part in path.rglob("*") if part.is_file()):
        if not any(part.startswith(".") for part in file.relative_to(path).parts):
            files[file] = sha256(file)
    whole = sha256_of_files((file.relative_to(path).as_posix(), digest) for file, digest in files.items())
    return {path: whole, **files}


def _below(path: Path) -> str:
    """The path as seen from the project's folder, whichever way it was given."""
    path, here = path.resolve(), Path.cwd().resolve()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix().lstrip("/")


def _tag(client: MlflowClient, run_id: str, role: str, paths: Iterable[str | Path]) -> None:
    hashes: dict[Path, str] = {}
    for path in map(Path, paths):
        found = _content_hashes(path)
        # of what was written, a reader may take a whole folder or one file of it
        hashes |= found if role == "output" else {path: found[path]}
    _set_tags(client, run_id, {f"{role}/{_below(path)}": noted for path, noted in hashes.items()})


def _set_tags(client: MlflowClient, run_id: str, tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    listed = [RunTag(tag_name(name), value) for name, value in tags.items()]
    for start in range(0, len(listed), 100):  # MLflow's limit for one request
        client.log_batch(run_id, tags=listed[start : start + 100])


def tag_name(name: str) -> str:
    """A name that MLflow takes. What it refuses is replaced, and a few digits of the hash keep such names apart."""
    allowed = re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)[:LONGEST_NAME]
    parts = [part if part.strip(".") else part.replace(".", "_") for part in allowed.split("/") if part]
    allowed = "/".join(parts)
    return allowed if allowed == name else f"{allowed} {sha256_of(name.encode())[:8]}"


def _flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _points(rows: Iterable[Mapping[str, float]], over: str = "step") -> Iterator[Any]:
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    for row in rows:
        step = int(row.get(over, 0))
        for key, value in row.items():
            if key != over and value is not None and value == value:  # a missing value is not a measurement
                yield Metric(key, float(value), now, step)


def _warn(what: str, error: Exception) -> None:
    _log.warning("MLflow could not %s; going on without it: %s", what, first_line(error))
