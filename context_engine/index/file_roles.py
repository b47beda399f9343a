"""PURE. The role of a file, judged by its path: source, test, docs, example and so on.

Ranking gives each role a prior; nothing is ever left out for its role.

>>> role_of("src/app.py", "code"), role_of("tests/test_app.py", "code"), role_of("README.md", "documentation")
('source', 'test', 'docs')
>>> role_of("contest/latest.py", "code"), role_of("types/index.d.ts", "code"), role_of("pkg/__init__.py", "code")
('source', 'declaration', 'init')
"""

from __future__ import annotations

import re
from typing import Literal, get_args

Role = Literal[
    "source", "test", "docs", "example", "bench", "compat", "vendor", "init", "declaration", "generated", "data"
]
ROLES: tuple[Role, ...] = get_args(Role)

_FOLDERS: dict[str, Role] = {
    **dict.fromkeys(
        ("test", "tests", "testing", "__tests__", "spec", "specs", "testdata", "fixtures", "__mocks__", "mocks", "e2e"),
        "test",
    ),
    **dict.fromkeys(("doc", "docs", "documentation", "man", "changelogs"), "docs"),
    **dict.fromkeys(("example", "examples", "sample", "samples", "demo", "demos", "tutorial", "tutorials"), "example"),
    **dict.fromkeys(("bench", "benches", "benchmark", "benchmarks"), "bench"),
    **dict.fromkeys(("compat", "_compat", "legacy", "deprecated"), "compat"),
    **dict.fromkeys(
        (
            "vendor",
            "vendored",
            "_vendor",
            "third_party",
            "thirdparty",
            "third-party",
            "node_modules",
            "deps",
            "external",
        ),
        "vendor",
    ),
    **dict.fromkeys(("generated", "gen", "__generated__"), "generated"),
}
_TEST_FILE = re.compile(
    r"^test_\w+\.py$|^conftest\.py$|[._-](test|tests|spec|specs)\.\w+$"
    r"|[a-z0-9](Test|Tests|Spec|Specs|TestCase|IT)\.(java|kt|kts|scala|cs|swift|php|groovy|hs)$"
)
_DOCS_FILES = frozenset(
    {"PKG-INFO", "METADATA", "AUTHORS", "CONTRIBUTORS", "CHANGES", "NEWS", "COPYING", "LICENSE", "NOTICE"}
)
_COMPAT_FILE = re.compile(r"^_?(compat|legacy|deprecated|backports?)\.\w+$")
_GENERATED_FILE = re.compile(
    r"([._](generated|gen|g|pb|designer)\.\w+|_pb2(_grpc)?\.pyi?|\.pb\.go|[-.]lock(\.\w+)?|^(package-lock|npm-shrinkwrap)\.json|-lock\.(json|ya?ml)|^go\.sum)$",
    re.IGNORECASE,
)


def role_of(path: str, content: str) -> Role:
    """Return the role of a workspace-relative path whose language has this `content` (code, documentation or data)."""
    *folders, name = path.split("/")
    if _TEST_FILE.search(name):
        return "test"
    if _GENERATED_FILE.search(name):
        return "generated"
    for folder in folders:
        role = _FOLDERS.get(folder.lower())
        if role:
            return role
        if folder.endswith((".Tests", "-tests", "_tests", "Test", "Tests")):
            return "test"
    if name == "__init__.py" or name == "__init__.pyi":
        return "init"
    if name.endswith((".d.ts", ".d.mts", ".d.cts")):
        return "declaration"
    if content == "documentation" or name in _DOCS_FILES:
        return "docs"
    if _COMPAT_FILE.match(name):
        return "compat"
    return "data" if content == "data" else "source"


def role_code(role: Role) -> int:
    """Return the small number that stores a role."""
    return ROLES.index(role)
