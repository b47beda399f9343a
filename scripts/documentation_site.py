"""Build the documentation site into build/site, strictly: a broken link or a page outside of the navigation fails.

    make site                   # build it
    make site ARGS=serve        # show it on http://127.0.0.1:8000 while you write

MkDocs and its theme are installed into build/site-environment, from PyPI, on the first run. MkDocs also loads this file
as a hook: links from docs/ to other files of the repository become links to its web page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "build" / "site-environment"
PACKAGES = ("mkdocs-material>=9.7,<10",)
UNSEARCHED = ("benchmarks.md", "decisions/")
"""Long pages about measuring and building: they would come before the guides in the results of most searches."""
_LINK = re.compile(r"\]\((\.\./[^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the text of a page with links that work on the site. Raises: FileNotFoundError.

    The search leaves out the pages in `UNSEARCHED`.
    """
    if page.file.src_uri.startswith(UNSEARCHED):
        page.meta["search"] = {"exclude": True}
    docs = Path(config["docs_dir"])
    folder = docs / Path(page.file.src_uri).parent

    def replace_link(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[1]))
        if target.is_relative_to(docs) and not target.is_dir():
            return link[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {link[1]}, which does not exist")
        kind = "tree" if target.is_dir() else "blob"
        return f"]({config['repo_url']}/{kind}/main/{target.relative_to(ROOT).as_posix()}{link[2] or ''})"

    return _LINK.sub(replace_link, markdown)


def main(words: list[str]) -> int:
    """Install MkDocs once and run it; return its exit code."""
    mkdocs = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin") / "mkdocs"
    if not mkdocs.exists():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([mkdocs.with_name("python"), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    arguments = ["serve", "--dev-addr", "127.0.0.1:8000"] if words[:1] == ["serve"] else ["build", "--strict"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([mkdocs, *arguments], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
