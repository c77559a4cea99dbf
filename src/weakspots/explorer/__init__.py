"""The explorer: one HTML file in which a reader questions the results of one scale, as the paper's page does its own.

`data` and the modules beside it turn results into plain numbers, `build` puts them into the page in `page/`. What has
not been run is absent from the data, and the page says so.
"""

from weakspots.explorer.build import build

__all__ = ["build"]
