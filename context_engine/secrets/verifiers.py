"""PURE. Verify the findings of rules: their surroundings are those of a secret, and their values look like one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from context_engine.secrets.assignments import Assignment, is_setting
from context_engine.secrets.encoded_text import decode_value
from context_engine.secrets.heuristics import (
    DIGEST,
    FAMILIAR_MAX,
    FAMILIAR_PAIRS_MIN,
    LABEL,
    TURNS_WITHOUT_DIGITS_MIN,
    UUID,
    entropy,
    familiar_pairs,
    is_chosen,
    is_drawn,
    is_password_of,
    is_password_of_letters,
    is_placeholder,
    turns,
)

# -- file kinds --------------------------------------------------------------------------------------------------------

# The kind of file that a path names, as far as it matters for secrets.
#
# kind_of("deploy/app.env") -> "settings"      kind_of("tests/test_login.py") -> "tests"      kind_of("") -> "unknown"

Kind = Literal["settings", "code", "docs", "tests", "locks", "unknown"]

LOCKS = frozenset(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml cargo.lock gemfile.lock poetry.lock uv.lock "
    "pdm.lock pipfile.lock composer.lock go.sum go.mod mix.lock podfile.lock flake.lock packages.lock.json "
    "gradle.lockfile package.resolved .terraform.lock.hcl bun.lock deno.lock".split()
)
"""Checksums and versions, written by tools."""
TESTS = re.compile(
    r"(?:^|/)(?:tests?|t|spec|specs|__tests__|__mocks__|mocks?|fixtures?|testdata|test_data|testing|e2e|integration|cassettes|examples?|samples?)/"
    r"|(?:^|/)(?:test_[^/]*|conftest)\.py$|[._-](?:test|tests|spec|mock|fixture)s?\.[a-z]{1,5}$|tests?\.(?:java|cs|kt|php|swift|scala)$"
    r"|/src/\w*test\w*/"
)
DOCS = tuple(".md .mdx .rst .adoc .asciidoc .txt .htm .html .tex .ipynb .po".split())
DOC_NAMES = frozenset("doc docs documentation readme changelog".split())
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
    names = path.split("/")
    if names[-1] in LOCKS:
        return "locks"
    if TESTS.search(path):
        return "tests"
    if path.endswith(DOCS) or not DOC_NAMES.isdisjoint(names):
        return "docs"
    if SETTINGS.search(path):
        return "settings"
    return "code"


# -- verifiers ---------------------------------------------------------------------------------------------------------


class SecretCandidate(NamedTuple):
    """A finding of a rule: the position of its word and of the value, and the assignment if there is one."""

    data: bytes
    word_start: int
    word_stop: int
    start: int
    stop: int
    match: re.Match[bytes]
    assignment: Assignment | None = None
    kind: Kind = "unknown"

    @property
    def value(self) -> str:
        """The text that would be redacted."""
        return self.data[self.start : self.stop].decode("utf-8", "replace")

    @property
    def after_word(self) -> str:
        """The part behind the word that it begins with."""
        return self.data[self.word_stop : self.stop].decode("utf-8", "replace")


# -- what its own shape shows -----------------------------------------------------------------------------------------


def is_mixed(candidate: SecretCandidate) -> bool:
    """Return whether letters are mixed with digits, or with each other as words never mix them.

    One in thirty random values of 16 to 20 letters and digits has no digit.
    """
    value = candidate.value
    if is_placeholder(value) or not any(map(str.isalpha, value)):
        return False
    if any(map(str.isdigit, value)) or turns(value) >= TURNS_WITHOUT_DIGITS_MIN:
        return True
    pairs, familiar = familiar_pairs(value)
    return value.isupper() and pairs >= FAMILIAR_PAIRS_MIN and familiar <= FAMILIAR_MAX * pairs


def is_bearer_token(candidate: SecretCandidate) -> bool:
    """Return whether the value is a token in an Authorization header, and not a word."""
    before = candidate.data[max(0, candidate.start - 40) : candidate.start].lower()
    return b"authorization" in before and is_mixed(candidate)


def is_address_password(candidate: SecretCandidate) -> bool:
    """Return whether the value is a password in `scheme://user:password@host`, whatever the host."""
    return is_password_of(candidate.match[1].decode("utf-8", "replace"), candidate.value)


def is_basic_login(candidate: SecretCandidate) -> bool:
    """Return whether the value is `user:password` in base64, as in headers and in settings files of Docker and npm."""
    inner = decode_value(candidate.value)
    user, colon, password = inner.decode("utf-8", "replace").partition(":")
    return bool(colon and user) and inner.isascii() and inner.decode().isprintable() and is_password_of(user, password)


# -- what its name shows ----------------------------------------------------------------------------------------------

STRICT_OPERATORS = (b":=", b"=>", b"=", b":")
STRICT_CHARS_MIN, STRICT_BITS_MIN = 16, 3.5
"""Random letters and digits have 3.9 bits per character and more at length 16, words joined by `_` about 3."""


def is_assigned_secret(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a random value in quotes is assigned to a name such as `password`; almost never wrong."""
    if not assignment.is_quoted or assignment.operator not in STRICT_OPERATORS:
        return False
    value = candidate.value
    is_sure = len(value) >= STRICT_CHARS_MIN and entropy(value) >= STRICT_BITS_MIN and not UUID.fullmatch(value)
    return is_sure and not _is_bare_key(candidate, assignment) and is_named_secret(candidate, assignment)


def _is_bare_key(candidate: SecretCandidate, assignment: Assignment) -> bool:
    word = candidate.data[candidate.word_start : candidate.word_stop].lower()
    return word == b"key" and not is_key_of_secrets(assignment.head)


def is_key_of_secrets(head: bytes) -> bool:
    """Return whether the word before `key` in a name means a secret: `api_key`, not `sort_key`."""
    return head.lower().rstrip(b"_-. ").endswith(SECRET_KEYS)


TAIL = re.compile(
    rb"(?:[_.\-]?(?:s|keys?|secret|token|password|val|value|str|string|base|prod|production|dev|development|test|testing|stag|stage|staging"
    rb"|live|main|default|old|new|primary|secondary|master|root|admin|user|app|api|bot|plain|raw|hex|b64|base64|enc|encoded|v?\d{1,3}))*",
    re.IGNORECASE,
)
"""Words that may follow in the name of a secret: `password_prod`, not `password_url`."""
NAME_AFTER = re.compile(TAIL.pattern + rb"(?![a-z])", re.IGNORECASE)
BY_NAME = frozenset(("assigned", "secret", "password"))
"""Verifiers that require a name of which every part means a secret."""


def names_more(data: bytes, stop: int) -> bool:
    """Return whether the small letters after a word still name a secret: `passwords`, `tokenvalue`, not `tokenize`."""
    return NAME_AFTER.match(data, stop) is not None


NO_SECRET = tuple(
    b"expected public pub publickey foreign primary sort cache partition csrf next page continuation pagination".split()
)
"""Words in the names of public values."""


SECRET_KEYS = tuple(
    (
        b"api access private secret auth signing encryption app application client master account service shared"
        b" session hmac jwt aes crypto crypt storage admin deploy webhook license licence integration ingest write"
        b" project server ssh rest user bot web subscription function host consumer security cipher salt"
    ).split()
)
"""The words before `key` in the name of a secret; most other keys belong to mappings."""
BARE_KEY_CHARS_MIN = 20


def is_named_secret(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a random-looking value is assigned to a name of a secret; for a mere `key` it must be certain."""
    value = candidate.value
    if not names_a_secret(assignment) or not is_literal(candidate, assignment) or assignment.operator in COMPARED:
        return False
    if "&" in value and "=" in value:  # the query of an address
        return False
    if _is_bare_key(candidate, assignment):
        is_id = UUID.fullmatch(value) or DIGEST.search(value)
        return len(value) >= BARE_KEY_CHARS_MIN and is_drawn(value) and not is_id
    return is_drawn_or_id(value)


COMPARED = (b"!=", b"!==", b"<", b"<=", b"+=")
UNLIKELY = (*COMPARED, b",", b">", b"is", b"-", b"==", b"===", b"")
"""Operators between the word password and its value in code and in prose."""


PARAMETERS = (b"?", b"&", b";")
"""The characters before the name of a parameter in an address."""
PAIR = re.compile(rb"=[^\s=]{1,60} \Z")
"""Another setting on the same line, as in `host=db user=app password=...`."""
PAIR_CHARS = 64
ESCAPED = re.compile(r"""\\(["'\\/])""")
"""Signs of a password as JSON writes them."""


def is_named_password(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a possible password is assigned to a password, in quotes or in a setting."""
    if assignment.is_loose or not names_a_secret(assignment):
        return False
    has_place = _is_element(candidate, assignment) or _is_definition(candidate, assignment)
    if assignment.operator in UNLIKELY and not has_place:
        return False
    if not assignment.is_quoted and not _is_setting(candidate, assignment):
        return is_literal(candidate, assignment) and is_drawn(candidate.value)
    value = ESCAPED.sub(r"\1", candidate.value)
    return is_chosen(value) or (candidate.kind == "settings" and is_password_of_letters(value))


def _is_setting(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether an unquoted value is a setting: on a line of its own, in an address, command or element."""
    data, start = candidate.data, candidate.word_start - len(assignment.head)
    if is_setting(data, start) or data[start - 1 : start] in PARAMETERS or _is_element(candidate, assignment):
        return True
    is_close = data[assignment.start - 1 : assignment.start] == b"="
    if is_close and PAIR.search(data[max(0, start - PAIR_CHARS) : start]):
        return True
    return is_close and (assignment.head.startswith(b"--") or candidate.kind == "settings")


def _is_element(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a value is all that is in an element of XML: `<password>value</password>`."""
    return assignment.operator == b">" and candidate.data.startswith(b"</", assignment.stop)


DEFINITION = re.compile(
    rb"(?i:define|set|put|setproperty|setenv|putenv|config|add_option|option|setting)\(\s{0,8}[\"']\Z"
)


def _is_definition(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether name and value are the arguments of a definition: `define('DB_PASSWORD', 'value')`."""
    start = candidate.word_start - len(assignment.head)
    return (
        assignment.operator == b","
        and assignment.is_quoted
        and bool(DEFINITION.search(candidate.data, max(0, start - 24), start))
    )


def is_password_hash(candidate: SecretCandidate) -> bool:
    """Return whether the value is a password hash behind a user name: `admin:$2y$10$...`."""
    before = candidate.data[max(0, candidate.start - 2) : candidate.start]
    return len(before) == 2 and before[1:] == b":" and before[:1].isalnum() and not is_placeholder(candidate.value)


def names_a_secret(assignment: Assignment) -> bool:
    """Return whether the whole name means a secret: not its location or size, and not a public value."""
    is_public = assignment.head.lower().rstrip(b"_-. ").endswith(NO_SECRET)
    return TAIL.fullmatch(assignment.tail) is not None and not is_public


def is_drawn_or_id(value: str) -> bool:
    """Return whether a value looks random, or is a UUID, which some providers use as keys."""
    return not LABEL.search(value) and (is_drawn(value) or bool(UUID.fullmatch(value) and not is_placeholder(value)))


EXPRESSION = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z0-9_]*)*")
EXPRESSION_DIGITS_MIN = 4
CODE = frozenset(("code", "tests"))


def is_literal(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether the value is a literal, and not a name of the program such as `key := base64BufferSize`."""
    value = candidate.value
    if assignment.is_quoted or not EXPRESSION.fullmatch(assignment.value):
        return True
    if candidate.kind in CODE and not is_setting(candidate.data, candidate.word_start - len(assignment.head)):
        return sum(map(str.isdigit, value)) >= EXPRESSION_DIGITS_MIN
    return "." not in value or any(map(is_drawn, value.split(".")))


def _if_assigned(verify: Callable[[SecretCandidate, Assignment], bool]) -> Callable[[SecretCandidate], bool]:
    """Return a verifier that confirms no value without an assignment."""
    return lambda candidate: candidate.assignment is not None and verify(candidate, candidate.assignment)


VERIFIERS: Mapping[str, Callable[[SecretCandidate], bool]] = {
    "": lambda candidate: not is_placeholder(candidate.value),
    "mixed": is_mixed,
    "bearer": is_bearer_token,
    "address": is_address_password,
    "basic": is_basic_login,
    "assigned": _if_assigned(is_assigned_secret),
    "secret": _if_assigned(is_named_secret),
    "password": _if_assigned(is_named_password),
    "drawn": lambda candidate: is_drawn_or_id(candidate.value),
    "issued": lambda candidate: is_drawn_or_id(candidate.after_word),
    "chosen": lambda candidate: is_chosen(candidate.value),
    "stated": lambda candidate: is_chosen(candidate.value) or is_password_of_letters(candidate.value),
    "hashed": is_password_hash,
    "anything": lambda candidate: bool(candidate.value),
}
"""The verifiers by their names in the rules; for some the surroundings that a pattern requires say the rest."""
