"""How people write a secret down: languages, settings files, commands, logs; and the names and values that go into these."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.secret_examples import drawn

WRITINGS = (
    *(
        "{n}={v}",
        '{n} = "{v}"',
        "{n}: '{v}'",
        "{n}: {v}",
        '"{n}": "{v}"',
        "'{n}' => '{v}'",
        '{n} := "{v}"',
        "{n} := `{v}`",
    ),
    *('var {n} string = "{v}"', 'String {n} = "{v}";', 'const {n}: string = "{v}"', 'let {n}: &str = "{v}";'),
    *('let {n} = "{v}".to_string();', "<{n}>{v}</{n}>", "<{n}>\n  {v}\n</{n}>", '<add key="{n}" value="{v}" />'),
    *('config.put("{n}", "{v}")', 'os.environ["{n}"] = "{v}"', '{n} ||= "{v}"', 'x = process.env.{n} ?? "{v}"'),
    *(
        'x = process.env.{n} || "{v}"',
        "export {n}={v}",
        "run --{n}={v}",
        "run --{n} {v}",
        '- name: {n}\n  value: "{v}"',
    ),
    *(
        "{n}: >\n  {v}",
        "{n}:\n  {v}",
        '{{\\"{n}\\": \\"{v}\\"}}',
        "the {n} is {v}",
        "{n} - {v}",
        "[DEBUG] Using {n}={v}",
    ),
    *("{n}:{v}", "setenv {n} {v}", '{n} <- "{v}"', 'System.setProperty("{n}", "{v}")', '{n}: ["{v}"]', '{n}("{v}")'),
    *(
        'config[:{n}] = "{v}"',
        '{n} .= "{v}"',
        '{n}="\\"{v}\\""',
        '{n} = """{v}"""',
        '{n} == "{v}"',
        '{n}: "{v}", other: 1',
    ),
    *(
        "?{n}={v}&x=1",
        '${n} = "{v}";',
        '{n} "{v}"',
        "| {n} | {v} |",
        "{n}\n{v}",
        "{n}, {v}",
        "{n}={v};",
        "`{n}`: `{v}`",
    ),
    *(
        'new Client({{ {n}: "{v}" }})',
        "{n}%3D{v}",
        "set {n}={v}",
        "ENV {n} {v}",
        "ENV {n}={v}",
        "{n} {v}",
        "# {n}: {v}",
    ),
    *('{{"name":"{n}","value":"{v}"}}', "key={v} # {n}", 'Client("{v}")  # {n}', 'curl -H "{n}: {v}" https://x.test'),
)
NAMES = (
    *(
        "acmeToken",
        "ACME_API_KEY",
        "acme_secret",
        "acmeApiKey",
        "acme-api-token",
        "ACME_ACCESS_TOKEN",
        "acme_client_secret",
    ),
    *("ApiKey", "secretKey", "auth_token", "acme_key", "apikey", "acme_password", "DB_PASSWORD"),
)
VALUES = (
    "<w32>",
    "<x32>",
    "<w40>",
    "<a24>",
    "<x40>",
    "<w16>",
    "<x64>",
    "<s43>",
    "<b40>",
    "<w20>",
    "<u>",
    "<A32>",
    "<l32>",
)


def written() -> Iterator[tuple[str, str]]:
    """Every name and value in every writing, and what of it must go."""
    for writing in WRITINGS:
        for name in NAMES:
            for value in VALUES:
                secret = drawn(value, writing + name, digits_min=0).text
                yield writing.format(n=name, v=secret), secret
