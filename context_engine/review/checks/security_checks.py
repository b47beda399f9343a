"""Security: text run as code, shells, unverified certificates, unsafe formats, SQL built from text, plain HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import GO, PYTHON, SCRIPT, CheckExample, CheckRule, at_capture, go, js, py

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion


# `eval` and `exec` of something that is not a literal.
eval_python = CheckRule(
    "eval",
    "Text run as code",
    "Attackers who control a part of the text run code here. Use ast.literal_eval, json.loads or a table of functions.",
    priority=1,
    confidence=0.75,
    category="security",
    languages=PYTHON,
    in_tests=False,
    mentions=("eval(", "exec("),
    examples=(
        py("value = eval(text) «"),
        py("exec(source, scope) «"),
        py("value = eval('1 + 1')"),
        py("model.eval()\ncursor.exec(query)"),
    ),
).query(
    '(call function: (identifier) @_name arguments: (argument_list . (_) @text) (#any-of? @_name "eval" "exec")) @it',
    lambda found: found["text"].kind != "string" or "{" in found["text"].text,
)


# `eval(x)` and `new Function(..., x)`.
eval_script = CheckRule(
    "eval-js",
    "Text run as code",
    "Attackers who control a part of the text run code here. Use JSON.parse or a table of functions.",
    priority=1,
    confidence=0.75,
    category="security",
    languages=SCRIPT,
    in_tests=False,
    mentions=("eval(", "Function("),
    examples=(
        js("const value = eval(text); «"),
        js("const f = new Function('a', body); «"),
        js("const value = JSON.parse(text);"),
        js("page.eval(text);"),
    ),
).query(
    """
    (call_expression function: (identifier) @_name arguments: (arguments . (_) @text) (#eq? @_name "eval")) @it
    (new_expression constructor: (identifier) @_name arguments: (arguments (_) @text .) (#eq? @_name "Function")) @it
    """,
    lambda found: found["text"].kind != "string",
)


@CheckRule(
    "shell-true",
    "Command read by a shell",
    "A name with a blank, a quote or `;` in it becomes another command. Give the arguments as a list, without a shell.",
    priority=1,
    confidence=0.75,
    category="security",
    languages=PYTHON,
    in_tests=False,
    mentions=("shell=", "os.system", "os.popen"),
    examples=(
        py("subprocess.run(f'rm {name}', shell=True) «"),
        py("os.system('rm ' + name) «"),
        py("subprocess.run(command, shell=True) «"),
        py("subprocess.run('make all', shell=True)"),
        py("subprocess.run(['rm', name])"),
    ),
).text
def shell_true(source: FileVersion) -> Iterator[Finding]:
    """Report `shell=True` and `os.system` with a command that is built from parts."""
    for found in source.matches(_SHELL):
        if not _is_plain(found["command"].kind, found["command"].text):
            yield at_capture(found["it"])
    for found in source.matches(
        "(call function: (attribute) @_name arguments: (argument_list . (_) @command)"
        ' (#any-of? @_name "os.system" "os.popen")) @it'
    ):
        if not _is_plain(found["command"].kind, found["command"].text):
            yield at_capture(found["it"])


_SHELL = """
(call arguments: (argument_list . (_) @command
  (keyword_argument name: (identifier) @_name value: (true)))
  (#eq? @_name "shell")) @it
"""


def _is_plain(kind: str, text: str) -> bool:
    """Whether a text is a literal without placeholders."""
    return kind in ("string", "concatenated_string") and not re.match(r"[rRbB]*[fF]", text)


# `exec` of child_process with a command that is put together.
shell_script = CheckRule(
    "shell-js",
    "Command read by a shell",
    "A name with a blank, a quote or `;` in it becomes another command. execFile and spawn take a list of arguments.",
    priority=1,
    confidence=0.75,
    category="security",
    languages=SCRIPT,
    in_tests=False,
    mentions=("exec",),
    examples=(
        js("exec(`rm ${name}`); «"),
        js("child_process.execSync('rm ' + name); «"),
        js("execSync('make all');"),
        js("pattern.exec(`a${b}`);"),
    ),
).query(
    "(call_expression function: [(identifier) (member_expression)] @name"
    " arguments: (arguments . [(template_string (template_substitution)) (binary_expression)])) @it",
    lambda found: re.fullmatch(r"(?:(?:child_process|cp|childProcess)\.)?exec(?:Sync)?", found["name"].text),
)


@CheckRule(
    "unsafe-yaml",
    "YAML that may run code",
    "yaml.load builds whatever object the file names; yaml.safe_load builds data only.",
    priority=1,
    confidence=0.85,
    category="security",
    languages=PYTHON,
    in_tests=False,
    mentions=("yaml.load",),
    examples=(
        py("config = yaml.load(file) «"),
        py("config = yaml.load(file, Loader=yaml.Loader) «"),
        py("config = yaml.load(file, Loader=yaml.SafeLoader)"),
        py("config = yaml.load(file, Loader=OurLoader)"),
        py("config = yaml.safe_load(file)"),
    ),
).text
def unsafe_yaml(source: FileVersion) -> Iterator[Finding]:
    """Report `yaml.load` without a loader, or with one that builds objects."""
    for found in source.matches(
        '(call function: (attribute) @_name arguments: (argument_list) @given (#eq? @_name "yaml.load")) @it'
    ):
        loader = re.search(r"(?:,|Loader\s*=)\s*([\w.]+)\s*,?\s*\)$", found["given"].text)
        if loader is None or re.fullmatch(r"(?:yaml\.)?(?:Unsafe|Full)?Loader", loader[1]):
            yield at_capture(found["it"])


# `pickle.load(s)` and its relatives.
unsafe_pickle = CheckRule(
    "unsafe-pickle",
    "Unpickling",
    "To read a pickle is to run code of its writer. Read only pickles that this program wrote itself.",
    priority=2,
    confidence=0.6,
    category="security",
    languages=PYTHON,
    in_tests=False,
    mentions=("pickle", "dill", "marshal"),
    examples=(
        py("state = pickle.loads(data) «"),
        py("state = json.loads(data)\npickle.dumps(state)"),
    ),
).query(
    "(call function: (attribute) @_name"
    ' (#any-of? @_name "pickle.load" "pickle.loads" "cPickle.loads" "dill.loads" "marshal.loads")) @it',
)


@CheckRule(
    "unverified-tls",
    "Certificate not verified",
    "Attackers on the network can read and change the traffic.",
    priority=1,
    confidence=0.8,
    category="security",
    languages=(*PYTHON, *SCRIPT, *GO),
    in_tests=False,
    mentions=("verif", "rejectUnauthorized", "InsecureSkipVerify"),
    examples=(
        py("requests.get(url, verify=False) «"),
        py("context = ssl._create_unverified_context() «"),
        py("requests.get(url, verify=True)\nimage.verify(False)"),
        js("const agent = new https.Agent({ rejectUnauthorized: false }); «"),
        js("const agent = new https.Agent({ rejectUnauthorized: true });"),
        go("package a\nvar c = tls.Config{InsecureSkipVerify: true} «"),
        go("package a\nvar c = tls.Config{InsecureSkipVerify: skip}"),
    ),
).text
def unverified_tls(source: FileVersion) -> Iterator[Finding]:
    """Report `verify=False`, `rejectUnauthorized: false`, `InsecureSkipVerify: true`."""
    for found in source.matches(_UNVERIFIED[source.language_name]):
        yield at_capture(found["it"])


_UNVERIFIED_PYTHON = """
(call function: (_) @_call arguments: (argument_list (keyword_argument name: (identifier) @_name value: (false)) @it)
  (#eq? @_name "verify")
  (#match? @_call "(requests|httpx|session|client|http)|(get|post|put|patch|delete|head|request|Client|Session)$"))
(call function: (attribute) @_name (#eq? @_name "ssl._create_unverified_context")) @it
"""
_UNVERIFIED_SCRIPT = """
(pair key: (property_identifier) @_name value: (false) (#eq? @_name "rejectUnauthorized")) @it
"""
_UNVERIFIED_GO = """
(keyed_element key: (_) @_name value: (_) @_value (#eq? @_name "InsecureSkipVerify") (#eq? @_value "true")) @it
"""
_UNVERIFIED = {"python": _UNVERIFIED_PYTHON, "go": _UNVERIFIED_GO, **dict.fromkeys(SCRIPT, _UNVERIFIED_SCRIPT)}


# `execute` of a statement that contains a value where a parameter could be.
sql_built = CheckRule(
    "sql-built",
    "SQL built from text",
    "A quote in a value becomes SQL. Pass values as parameters of the query.",
    priority=1,
    confidence=0.75,
    category="security",
    languages=PYTHON,
    in_tests=False,
    mentions=("execute",),
    examples=(
        py("cursor.execute(f\"SELECT * FROM users WHERE name = '{name}'\") «"),
        py("db.execute('DELETE FROM users WHERE id = %s' % user) «"),
        py("db.execute('SELECT * FROM users WHERE id = ' + user) «"),
        py("db.execute('SELECT * FROM users WHERE id = %s', (user,))"),
        py("db.execute(f'SELECT {COLUMNS} FROM users')"),
        py("runner.execute(f'select {card}')"),
    ),
).query(
    "(call function: (attribute attribute: (identifier) @_name) arguments: (argument_list . (_) @text)"
    ' (#any-of? @_name "execute" "executemany" "executescript")) @it',
    lambda found: _is_built_sql(found["text"].text),
)


def _is_built_sql(text: str) -> bool:
    """Whether a statement has a placeholder after a comparison, or is joined from parts.

    >>> _is_built_sql('f"SELECT a FROM b WHERE c = {d}"'), _is_built_sql('f"SELECT a FROM {table}"')
    (True, False)
    """
    if not re.search(
        r"(?i)['\"]\s*(?:select\b.*\bfrom|insert\s+into|update\b.*\bset|delete\s+from)\b", text, re.DOTALL
    ):
        return False
    if re.match(r"[rR]?[fF][rR]?['\"]", text):
        return bool(re.search(r"(?i)(?:=|<|>|\blike\b|\bin\b|values\s*\()\s*\(?\s*['\"]?%?\{(?!(?-i:[A-Z_]+)\})", text))
    return bool(re.search(r"['\"]\s*(?:%\s*[\w(]|\+\s*\w)|['\"]\.format\(", text))


@CheckRule(
    "plain-http",
    "Address without encryption",
    "Attackers on the network can read and change what goes over http://.",
    priority=2,
    confidence=0.6,
    category="security",
    languages=(*PYTHON, *SCRIPT, *GO),
    in_tests=False,
    mentions=("http://",),
    examples=(
        py("API = 'http://api.shop.io/v1' «"),
        py("API = 'http://localhost:8000'\nNS = 'http://www.w3.org/2000/svg'"),
        py("# see http://api.shop.io/v1"),
        js("fetch('http://api.shop.io/v1'); «"),
    ),
).text
def plain_http(source: FileVersion) -> Iterator[Finding]:
    """Report an http:// address of another machine; names of XML namespaces are not addresses."""
    if source.language_name != "go":
        query = "(string) @it"
    else:
        query = "(interpreted_string_literal) @it"
    for found in source.matches(query):
        address = re.match(r"[a-zA-Z]*['\"`]{1,3}http://([\w.-]+)", found["it"].text)
        if address and not _LOCAL.search(address[1]):
            yield at_capture(found["it"])


_LOCAL = re.compile(
    r"^(?:localhost|127\.|0\.0\.0\.0|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)"
    r"|\.(?:local|test|internal|invalid|example)$"
    r"|(?:^|\.)(?:example\.(?:com|org|net)|w3\.org|schemas?\.[\w.]+|xmlsoap\.org|purl\.org|json-schema\.org)$|^[\w-]+$"
)


@CheckRule(
    "flask-debug",
    "Debugger for everybody",
    "With debug=True every visitor of an error page can run code on this machine.",
    priority=1,
    confidence=0.75,
    category="security",
    languages=PYTHON,
    in_tests=False,
    mentions=("debug=",),
    examples=(
        py("app.run(host='0.0.0.0', debug=True) «"),
        py("app.run(debug=settings.debug)"),
        CheckExample("examples/hello.py", "app.run(debug=True)"),
    ),
).text
def flask_debug(source: FileVersion) -> Iterator[Finding]:
    """Report `app.run(debug=True)` outside of examples and docs."""
    if re.search(r"(?:^|/)(?:examples?|docs?(?:_src)?|tutorials?|samples?)/", source.path):
        return
    for found in source.matches(
        "(call function: (attribute) @_call arguments: (argument_list"
        ' (keyword_argument name: (identifier) @_name value: (true)) @_pair) (#eq? @_name "debug")'
        ' (#match? @_call "(^|[.])(app|application|server)[.]run$")) @it'
    ):
        yield at_capture(found["it"])
