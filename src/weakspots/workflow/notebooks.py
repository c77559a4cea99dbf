"""Running a notebook so that it is kept, whether it succeeds or not."""

from __future__ import annotations

import shutil
from pathlib import Path

from weakspots.errors import UserError
from weakspots.files.atomic import writing
from weakspots.workflow.layout import Layout

FOLDER = Path("notebooks")


def execute(name: str, layout: Layout) -> list[Path]:
    """Run `notebooks/<name>.ipynb` on the results in `layout`; what it draws goes to the layout's figures or tables.

    The executed notebook is a log first, complete up to the cell that failed, and a copy goes beside the figures when
    all cells have run. Returns the files that are there then. Raises UserError with the failing cell's own message.
    """
    import papermill  # slow to import, and only this stage needs it
    from papermill.exceptions import PapermillExecutionError

    log, output = Path(layout.log(name, suffix="ipynb")), Path(layout.figure(name, "ipynb"))
    drawn = Path(layout.tables_folder if name == "tables" else layout.figures_folder)
    for folder in (log.parent, output.parent, drawn):
        folder.mkdir(parents=True, exist_ok=True)
    parameters = {"results_folder": layout.root, "output_folder": str(drawn)}
    try:
        papermill.execute_notebook(
            FOLDER / f"{name}.ipynb",
            log,
            parameters,
            kernel_name="python3",
            progress_bar=False,
            extra_arguments=["--log-level=ERROR"],  # of the kernel, which warns about its local connection otherwise
        )
    except PapermillExecutionError as error:
        message = f"{error.ename}: {error.evalue}".removeprefix("UserError: ")
        raise UserError(f"notebook {name}, cell {error.cell_index}: {message}\nAll cells up to it: {log}") from error
    with writing(output) as path:
        shutil.copyfile(log, path)
    return sorted({output, *drawn.glob("*" if name == "tables" else f"{name}*")})
