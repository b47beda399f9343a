"""A page on this machine for the developer next to the agent: activity, search, plans, reviews, memories, edits.

    page = LocalPage(folders, may_write=False, is_person=True)
    page.bind(port=0)
    print(page.address)
    page.run()

`local_page` says which request is answered by which tool or view, `page_views` builds what no tool replies. The page
itself is in `assets`: HTML, CSS and plain JavaScript modules that are served as they are.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.ui.local_page import LocalPage

__getattr__ = lazy_exports(__name__)
