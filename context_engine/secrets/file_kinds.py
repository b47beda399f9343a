"""PURE. The kind of file that a path names, as far as it matters for secrets.

kind_of("deploy/app.env") -> "settings"      kind_of("tests/test_login.py") -> "tests"      kind_of("") -> "unknown"
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["settings", "code", "docs", "tests", "locks", "unknown"]

LOCKS = re.compile(
    r"(?:^|/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|cargo\.lock|gemfile\.lock|poetry\.lock|uv\.lock|pdm\.lock"
    r"|pipfile\.lock|composer\.lock|go\.sum|go\.mod|mix\.lock|podfile\.lock|flake\.lock|packages\.lock\.json|gradle\.lockfile|package\.resolved"
    r"|\.terraform\.lock\.hcl|bun\.lock|deno\.lock)$"
)
"""Checksums and versions, written by tools."""
TESTS = re.compile(
    r"(?:^|/)(?:tests?|t|spec|specs|__tests__|__mocks__|mocks?|fixtures?|testdata|test_data|testing|e2e|integration|cassettes|examples?|samples?)/"
    r"|(?:^|/)(?:test_[^/]*|conftest)\.py$|[._-](?:test|tests|spec|mock|fixture)s?\.[a-z]{1,5}$|tests?\.(?:java|cs|kt|php|swift|scala)$"
    r"|/src/\w*test\w*/"
)
DOCS = re.compile(
    r"\.(?:md|mdx|rst|adoc|asciidoc|txt|html?|tex|ipynb|po)$|(?:^|/)(?:docs?|documentation|readme|changelog)(?:/|$)"
)
SETTINGS = re.compile(
    r"\.(?:env|ini|cfg|cnf|conf|config|properties|toml|ya?ml|json|jsonc|json5|xml|plist|tf|tfvars|tfstate|hcl|reg|desktop|service|pgpass|htpasswd"
    r"|netrc|pypirc|npmrc|yarnrc|s3cfg|boto|credentials|my\.cnf|secrets?|key|pem|ovpn|http|rest|prefs|inf|nomad)$"
    r"|(?:^|/)(?:\.env[^/]*|[^/]*\.env\.[^/]*|\.?netrc|_netrc|credentials|kubeconfig|dockerfile[^/]*|[^/]*\.dockerfile|shadow|passwd|sasl_passwd"
    r"|hosts|inventory|wp-config[^/]*|settings[^/]*\.py|local_settings[^/]*|config[^/]*\.(?:php|py|rb|js|ts)|configuration\.php|secrets?\.[a-z]{1,4}"
    r"|\.git-credentials|\.[a-z]{2,12}rc|database\.[a-z]{1,4}|[^/]*\.(?:sh|bash|zsh|fish|ps1|bat|cmd))$"
)
"""Files that hold settings, and scripts, which are settings for the programs they start."""


def kind_of(path: str) -> Kind:
    """Return the kind of a file by its path alone; what no pattern knows is code.

    >>> [kind_of(path) for path in ("a/.npmrc", "src/app.py", "docs/setup.md", "test/db.yml", "go.sum")]
    ['settings', 'code', 'docs', 'tests', 'locks']
    """
    path = path.lower().replace("\\", "/")
    if not path:
        return "unknown"
    if LOCKS.search(path):
        return "locks"
    if TESTS.search(path):
        return "tests"
    if DOCS.search(path):
        return "docs"
    if SETTINGS.search(path):
        return "settings"
    return "code"
