"""PURE. Verify the findings of rules: their surroundings are those of a secret, and their values look like one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from context_engine.secrets.assignments import Assignment, is_setting
from context_engine.secrets.encoded_text import decode_value
from context_engine.secrets.heuristics import (
    DIGITS_MIN,
    FAMILIAR_MAX,
    FAMILIAR_PAIRS_MIN,
    LABEL,
    STAND_IN,
    TURNS_WITHOUT_DIGITS_MIN,
    UUID,
    entropy,
    familiar_pairs,
    is_chosen,
    is_drawn,
    is_password_of_letters,
    is_placeholder,
    is_random,
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


NOWHERE = re.compile(rb"(?:[\w-]{1,63}\.){0,4}(?:example\.(?:com|org|net|edu)|[\w-]{1,63}\.(?:example|invalid))\b")
"""Hosts that are reserved for examples (RFC 2606)."""


def is_address_password(candidate: SecretCandidate) -> bool:
    """Return whether the value is a password in `scheme://user:password@host` that is not an example."""
    if NOWHERE.match(candidate.data, candidate.stop + 1):
        return False
    user, password = candidate.match[1].decode("utf-8", "replace"), candidate.value
    letters = re.sub(r"%[0-9A-Fa-f]{2}|[^a-z]", "", password.lower())
    return not (password == user or STAND_IN.fullmatch(letters) or len(set(password)) < 3 or "example" in letters)


def is_basic_login(candidate: SecretCandidate) -> bool:
    """Return whether the value is `user:password` in base64, as in headers and in settings files of Docker and npm."""
    inner = decode_value(candidate.value)
    user, colon, password = inner.partition(b":")
    return bool(colon and user and len(password) >= 3) and inner.isascii() and inner.decode().isprintable()


# -- what its name shows ----------------------------------------------------------------------------------------------

KEYS = (b"api", b"access", b"private", b"secret", b"auth", b"signing", b"encryption")
"""The words before `key` in the name of a secret; most other keys belong to mappings."""
STRICT_TAILS = (b"", b"base", b"_base")
STRICT_OPERATORS = (b":=", b"=>", b"=", b":")
BRACKETS = frozenset(b"[({")
OPENED_BYTES = 3
"""The bracket of a list is right before the quote of its first value."""
STRICT_CHARS = range(16, 8193)
STRICT_VALUE = re.compile(r"""[^\s"'`\\${}<>()\[\]]+""")


def is_assigned_secret(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a random value in quotes is assigned to a name such as `password`; almost never wrong."""
    value = candidate.value
    if not assignment.is_quoted or assignment.operator not in STRICT_OPERATORS or len(value) not in STRICT_CHARS:
        return False
    if assignment.tail.lower() not in STRICT_TAILS or not _is_secret_key(candidate, assignment, KEYS):
        return False
    opened = candidate.data[assignment.start - OPENED_BYTES : assignment.start]
    if not BRACKETS.isdisjoint(opened) or not is_literal(assignment):
        return False
    return STRICT_VALUE.fullmatch(value) is not None and is_random(value)


def _is_secret_key(candidate: SecretCandidate, assignment: Assignment, keys: tuple[bytes, ...]) -> bool:
    word = candidate.data[candidate.word_start : candidate.word_stop].lower()
    return word != b"key" or is_key_of_secrets(assignment.head, keys)


def is_key_of_secrets(head: bytes, keys: tuple[bytes, ...]) -> bool:
    """Return whether the word before `key` in a name means a secret: `api_key`, not `sort_key`."""
    return bool(head) and head.lower().rstrip(b"_-. ").endswith(keys)


TAIL = re.compile(
    rb"(?:[_.\-]?(?:s|keys?|secret|token|password|val|value|str|string|base|prod|production|dev|development|test|testing|stag|stage|staging"
    rb"|live|main|default|old|new|primary|secondary|master|root|admin|user|app|api|bot|plain|raw|hex|b64|base64|enc|encoded|v?\d{1,3}))*",
    re.IGNORECASE,
)
"""Words that may follow in the name of a secret: `password_prod`, not `password_url`."""
NAME_AFTER = re.compile(TAIL.pattern + rb"(?![a-z])", re.IGNORECASE)
BY_NAME = frozenset(("assigned", "secret", "password", "drawn or wrapped"))
"""Verifiers that require a name of which every part means a secret."""


def names_more(data: bytes, stop: int) -> bool:
    """Return whether the small letters after a word still name a secret: `passwords`, `tokenvalue`, not `tokenize`."""
    return NAME_AFTER.match(data, stop) is not None


NO_SECRET = tuple(
    b"expected public foreign primary sort cache partition csrf next page continuation pagination websocket".split()
)
"""Words in the names of public values."""


SECRET_KEYS = (
    *KEYS,
    *(
        b"app application client master account service shared session hmac jwt aes crypto crypt storage admin "
        b"deploy webhook license licence integration ingest write project server ssh rest user bot web "
        b"subscription function host consumer security cipher salt"
    ).split(),
)
"""The same, for broad rules."""
BARE_KEY_CHARS_MIN = 20


def is_named_secret(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a random-looking value is assigned to a name of a secret; for a mere `key` it must be certain."""
    value = candidate.value
    if not names_a_secret(assignment) or not is_literal(assignment) or assignment.operator in COMPARED:
        return False
    if "&" in value and "=" in value:  # the query of an address
        return False
    if not _is_secret_key(candidate, assignment, SECRET_KEYS):
        return len(value) >= BARE_KEY_CHARS_MIN and is_random(value) and is_drawn(value)
    return is_certain(assignment, value)


COMPARED = (b"!=", b"!==", b"<", b"<=", b"+=")
UNLIKELY = (*COMPARED, b",", b">", b"is", b"-", b"==", b"===", b"")
"""Operators between the word password and its value in code and in prose."""


PARAMETERS = (b"?", b"&", b";")
"""The characters before the name of a parameter in an address."""
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
        return is_literal(assignment) and is_drawn(candidate.value)
    value = ESCAPED.sub(r"\1", candidate.value)
    return is_chosen(value) or (candidate.kind == "settings" and is_password_of_letters(value))


def _is_setting(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether an unquoted value is a setting: on a line of its own, in an address, command or element."""
    data, start = candidate.data, candidate.word_start - len(assignment.head)
    if is_setting(data, start) or data[start - 1 : start] in PARAMETERS or _is_element(candidate, assignment):
        return True
    is_close = data[assignment.start - 1 : assignment.start] == b"="
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


CONNECTION = re.compile(
    rb"(?:server|data source|addr(?:ess)?|host|user id|uid|user(?:name)?|endpoint|database|catalog) ?=", re.IGNORECASE
)
CONNECTION_CHARS = 200


def is_connection_password(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether the value is the password of a connection string: `Server=db;User Id=app;Password=...`."""
    start = candidate.word_start
    if assignment.operator != b"=" or candidate.data[start - 1 : start] not in (b";", b" ", b",", b'"'):
        return False
    before = candidate.data[max(0, start - CONNECTION_CHARS) : start]
    return is_chosen(candidate.value) and CONNECTION.search(before) is not None


SECRET_WORDS = tuple(b"key token secret auth api pass pwd pat cred sid client license".split())
HASH_CHARS = (40, 64)
"""The lengths of the checksums of packages in lock files."""


def _has_secret_word(assignment: Assignment) -> bool:
    name = assignment.name.lower()
    return any(word in name for word in SECRET_WORDS)


def is_provider_key(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a value with the shape of a provider's keys is assigned to a name with the provider."""
    value = candidate.value
    if is_placeholder(value) or not any(map(str.isdigit, value)) or not is_literal(assignment):
        return False
    if assignment.is_loose and not is_certain(assignment, value):
        return False
    return len(value) not in HASH_CHARS or _has_secret_word(assignment)


def is_service_key(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether a random-looking value is assigned to a name with a provider and a word for a secret."""
    if not _has_secret_word(assignment) or b"signature" in assignment.name.lower() or not is_literal(assignment):
        return False
    return is_certain(assignment, candidate.value)


def is_registry_login(candidate: SecretCandidate, assignment: Assignment) -> bool:
    """Return whether the value is a login of a package registry."""
    return names_a_secret(assignment) and (is_drawn_or_id(candidate.value) or is_basic_login(candidate))


def is_password_hash(candidate: SecretCandidate) -> bool:
    """Return whether the value is a password hash behind a user name: `admin:$2y$10$...`."""
    before = candidate.data[max(0, candidate.start - 2) : candidate.start]
    return len(before) == 2 and before[1:] == b":" and before[:1].isalnum() and not is_placeholder(candidate.value)


def names_a_secret(assignment: Assignment) -> bool:
    """Return whether the whole name means a secret: not its location or size, and not a public value."""
    is_public = assignment.head.lower().rstrip(b"_-. ").endswith(NO_SECRET)
    return TAIL.fullmatch(assignment.tail) is not None and not is_public


LOOSE_CHARS_MIN = 16
LOOSE_BITS_MIN = 3.2
"""Nearly all values of sixteen random hex digits have as much; words with as many digits hardly ever do."""


def is_certain(assignment: Assignment, value: str) -> bool:
    """Return whether a value looks random enough; a loose one must look more so."""
    if not assignment.is_loose:
        return is_drawn_or_id(value)
    if len(value) < LOOSE_CHARS_MIN or sum(map(str.isdigit, value)) < DIGITS_MIN:
        return False
    return entropy(value) >= LOOSE_BITS_MIN and is_drawn_or_id(value)


def is_drawn_or_id(value: str) -> bool:
    """Return whether a value looks random, or is a UUID, which some providers use as keys."""
    return not LABEL.search(value) and (is_drawn(value) or bool(UUID.fullmatch(value) and not is_placeholder(value)))


DOTTED = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::|\?\.)[A-Za-z_][A-Za-z0-9_]*)+")
PATH = re.compile(
    rb"(?:[A-Za-z]:)?[.~]{0,2}/|[A-Za-z0-9+.-]{2,20}://|[A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*\.[a-z]{1,5}\Z|sha(?:1|256|384|512)-"
)


def is_literal(assignment: Assignment) -> bool:
    """Return whether the value is a literal: not a path, and without quotes not an expression."""
    if PATH.match(assignment.value):
        return False
    if assignment.is_quoted or not DOTTED.fullmatch(assignment.value):
        return True
    return any(is_drawn(part) for part in assignment.value.decode().split("."))


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
    "connection": _if_assigned(is_connection_password),
    "provided": _if_assigned(is_provider_key),
    "named service": _if_assigned(is_service_key),
    "drawn": lambda candidate: is_drawn_or_id(candidate.value),
    "drawn or wrapped": _if_assigned(is_registry_login),
    "chosen": lambda candidate: is_chosen(candidate.value),
    "stated": lambda candidate: is_chosen(candidate.value) or is_password_of_letters(candidate.value),
    "hashed": is_password_hash,
    "anything": lambda candidate: bool(candidate.value),
}
"""The verifiers by their names in the rules; for some the surroundings that a pattern requires say the rest."""
