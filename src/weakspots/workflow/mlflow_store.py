"""The MLflow store: a sqlite file, and the folder of artifacts beside it."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from weakspots.errors import UserError

if TYPE_CHECKING:
    from mlflow import MlflowClient

STORE = Path("results/mlflow.db")
ARTIFACTS = "mlflow-artifacts"

_KIND = "mlflow.experimentKind"  # else MLflow's page may take the experiment for one about chats, and show no runs

WAIT_SECONDS = 20
"""How long a job waits for a store that others hold before it goes on untracked."""


@dataclass(frozen=True)
class Settings:
    """Where runs go: a sqlite file, and in it the experiment, which is named after the scale."""

    experiment: str
    store: str = str(STORE)

    @property
    def artifacts(self) -> Path:
        """Folder of the artifacts of this experiment."""
        return Path(self.store).resolve().parent / ARTIFACTS / self.experiment


def connect(settings: Settings) -> tuple[MlflowClient, str]:
    """A client of the store, and the id of the experiment; both made where they are missing."""
    _quiet()
    from mlflow import MlflowClient

    store = Path(settings.store).resolve()
    store.parent.mkdir(parents=True, exist_ok=True)
    with lock(store):
        if store.exists() and _has_tables(store):
            repair(store)
        client = MlflowClient(tracking_uri=f"sqlite:///{store}")
        experiment = client.get_experiment_by_name(settings.experiment)
        if experiment is None:
            identity = client.create_experiment(settings.experiment, artifact_location=settings.artifacts.as_uri())
        else:
            identity = experiment.experiment_id
            if experiment.lifecycle_stage == "deleted":  # in MLflow's page; a run of the workflow brings it back
                client.restore_experiment(identity)
        if experiment is None or _KIND not in experiment.tags:
            client.set_experiment_tag(identity, _KIND, "custom_model_development")
    return client, identity


def serve(port: int = 5000) -> None:
    """Show the runs in MLflow's own pages, to this machine only; returns when it is stopped.

    Raises UserError when nothing has been tracked yet.
    """
    if not STORE.exists():
        raise UserError(f"{STORE} does not exist: nothing has been tracked yet; run `make reproduce` first")
    repair(STORE)
    _quiet()
    address = f"http://127.0.0.1:{port}"
    print(f"MLflow at {address} (Ctrl-C stops it); the runs of", file=sys.stderr)
    for identity, name in _experiments():
        print(f"  {name}: {address}/#/experiments/{identity}/runs", file=sys.stderr)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with suppress(KeyboardInterrupt):
        subprocess.run([*command, "--backend-store-uri", f"sqlite:///{STORE.resolve()}"], check=False)


def _experiments() -> list[tuple[int, str]]:
    """Id and name of every experiment of the store that is not deleted, but for MLflow's own empty one."""
    query = "select experiment_id, name from experiments where lifecycle_stage = 'active' and name != 'Default'"
    with closing(sqlite3.connect(STORE, timeout=WAIT_SECONDS)) as connection:
        return connection.execute(query).fetchall()


def repair(store: str | Path) -> None:
    """Point the artifact folders in `store` to the folder beside it: MLflow stores absolute paths, and folders move."""
    root = (Path(store).resolve().parent / ARTIFACTS).as_uri()
    with closing(sqlite3.connect(store, timeout=WAIT_SECONDS)) as connection, connection:
        for table, column, key in (
            ("experiments", "artifact_location", "experiment_id"),
            ("runs", "artifact_uri", "run_uuid"),
        ):
            for identity, location in connection.execute(f"select {key}, {column} from {table}").fetchall():
                _, marker, inside = (location or "").rpartition(f"/{ARTIFACTS}/")
                if marker and location != f"{root}/{inside}":
                    statement = f"update {table} set {column} = ? where {key} = ?"
                    connection.execute(statement, (f"{root}/{inside}", identity))


def lock(store: str | Path) -> FileLock:
    """Held by whoever may be the first to use a store, or the first job of an invocation."""
    return FileLock(f"{store}.lock", timeout=WAIT_SECONDS)


def _has_tables(store: Path) -> bool:
    with closing(sqlite3.connect(store, timeout=WAIT_SECONDS)) as connection:
        return bool(connection.execute("select 1 from sqlite_master where name = 'runs'").fetchone())


def _quiet() -> None:
    """Before MLflow is imported: no telemetry, no extra server processes, and none of its chatter between our lines."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)
