"""Proofs in the browser: the export of recordings and of whole sites, and their JavaScript runtime.

`export_site` writes a static site that proves one circuit; `graph_files` exports any recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.web.graph import GraphFiles as GraphFiles
    from quod.web.graph import Stage as Stage
    from quod.web.graph import graph_files as graph_files
    from quod.web.runtime_text import graph_runtime_files as graph_runtime_files
    from quod.web.runtime_text import runtime_files as runtime_files
    from quod.web.site import export_site as export_site
else:
    __getattr__, __dir__ = lazy_names(__name__)
