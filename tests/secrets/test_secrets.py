"""The mask: what is a secret goes, what only looks like one stays, and nothing else moves."""

from __future__ import annotations

import json

import pytest

from context_engine.secrets import redact

BODY = "q8Zt2Lw0Xv5Rb7Nc4Md9Kf1Hs6Jg3Pa0Ty8We2Ru5Io7Bn4V"
"""48 letters and digits. Keys are put together here, so that no scanner takes this file for a leak."""
PEM_LINES = [(BODY * 2)[place : place + 64] for place in (0, 3, 7)]

KEYS = {
    "aws key": ["AKIA" + "2E0A8F3B244C9986", "ASIA" + "Y34FZKBOKMUTVV7A", "AKIA" + "NEOHSOCDOVWGCVGO"],
    "github token": ["gh" + "p_" + BODY[:36], "gh" + "s_" + BODY, "github_" + "pat_" + BODY[:22] + "_" + BODY],
    "gitlab token": ["glp" + "at-" + BODY[:20]],
    "slack token": ["xox" + "b-" + "314159265358-" + BODY[:24]],
    "hugging face token": ["hf" + "_" + BODY[:34]],
    "api key": [
        *("sk-" + "ant-api03-" + BODY, "sk-" + "proj-" + BODY, "sk-" + BODY, "sk" + "_live_" + BODY[:24]),
        *("npm" + "_" + BODY[:36], "AI" + "za" + BODY[:35]),
    ],
    "jwt": ["ey" + "J" + BODY[:20] + ".ey" + "J" + BODY[:30] + "." + BODY[:43]],
}
EACH = [(kind, key) for kind, keys in KEYS.items() for key in keys]
SURROUNDED = ["{}", '"{}"', "key = '{}';", "({})", "{}\n", "a\n{}\nb", "https://x/?k={}&y=1", '{{"k": "{}"}}', "<{}>"]


def pem(kind: str = "RSA ", *, head: str = "", lines: list[str] | None = None, end: bool = True) -> str:
    first, last = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
    return "\n".join([first, *head.splitlines(), *(PEM_LINES if lines is None else lines), *([last] if end else [])])


# -- keys of known shape ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("around", SURROUNDED)
@pytest.mark.parametrize(("kind", "key"), EACH)
def test_a_key_of_known_shape_is_masked_and_says_its_kind(kind: str, key: str, around: str) -> None:
    masked = redact(around.format(key))
    assert masked.text == around.format(f"[masked {kind}]")
    assert masked.count == 1


@pytest.mark.parametrize(("kind", "key"), EACH)
def test_a_key_inside_json_is_masked_and_the_json_stays_json(kind: str, key: str) -> None:
    said = {"content": f'first\n{key}\n\t{key}\n"{key}"'}
    masked = redact(json.dumps(said))
    assert masked.count == 3
    assert json.loads(masked.text) == {"content": said["content"].replace(key, f"[masked {kind}]")}


@pytest.mark.parametrize(("kind", "key"), EACH)
def test_a_key_in_the_middle_of_a_longer_word_is_something_else(kind: str, key: str) -> None:
    assert redact(f"abc{key}").count == 0, kind
    assert redact(f"7{key}").count == 0, kind


# -- private keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_is_masked_between_its_first_and_last_line(kind: str) -> None:
    masked = redact(f"before\n{pem(kind)}\nafter")
    first, last = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
    assert masked.text.split("\n") == ["before", first, "[masked private key]", "", "", last, "after"]
    assert masked.count == 1


def test_a_private_key_with_a_passphrase_keeps_only_its_headers() -> None:
    headers = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
    masked = redact(pem(head=headers))
    assert masked.text.split("\n")[1:-1] == [*headers.split("\n")[:3], "[masked private key]", "", ""]


def test_a_private_key_written_into_a_program_is_masked_and_the_program_stays() -> None:
    code = "KEY = (" + "".join(f'\n    "{line}\\n"' for line in pem().split("\n")) + "\n)"
    masked = redact(code)
    assert masked.text.split("\n")[2:4] == ['    "[masked private key]\\n"', '    "\\n"']
    assert masked.text.count('"') == code.count('"')
    assert not any(line in masked.text for line in PEM_LINES)


def test_a_private_key_in_json_keeps_its_lines() -> None:
    said = {"content": f"a\n{pem()}\nb", "more": "-----END of story"}
    masked = redact(json.dumps(said))
    told = json.loads(masked.text)
    assert PEM_LINES[1] not in masked.text
    assert told["content"].count("\n") == said["content"].count("\n")
    assert told["content"].startswith("a\n-----BEGIN RSA PRIVATE KEY-----\n[masked private key]\n")
    assert told["more"] == said["more"]


def test_a_private_key_whose_end_was_cut_off_is_masked_as_far_as_it_goes() -> None:
    masked = redact(pem(end=False) + "\n… 3 more lines did not fit")
    assert masked.text.split("\n")[1:] == ["[masked private key]", "", "", "… 3 more lines did not fit"]


@pytest.mark.parametrize(
    "code",
    [
        'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    return read(text)',
        'FIRST = "-----BEGIN PRIVATE KEY-----"\nLAST = "-----END PRIVATE KEY-----"\n',
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n...\n-----END PRIVATE KEY-----",
        "BEGIN = '-----BEGIN PRIVATE KEY-----'\n\npass\n",
        'x = "-----BEGIN PRIVATE KEY-----"\ny = sha(x)\nz = "' + PEM_LINES[0] + '"\nw = "-----END PRIVATE KEY-----"',
        "-----BEGIN CERTIFICATE-----\n" + PEM_LINES[0] + "\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\n" + PEM_LINES[0] + "\n-----END PUBLIC KEY-----",
    ],
)
def test_code_that_speaks_of_keys_and_public_ones_stay(code: str) -> None:
    assert redact(code).text == code


# -- headers, addresses, assignments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"Authorization: Bearer {BODY}", "Authorization: Bearer [masked token]"),
        (f'{{"Authorization": "Bearer {BODY}"}}', '{"Authorization": "Bearer [masked token]"}'),
        (f"curl -H 'authorization: Bearer {BODY}' x", "curl -H 'authorization: Bearer [masked token]' x"),
        ("postgres://app:Tr0ub4dor@db.local/app", "postgres://app:[masked password]@db.local/app"),
        (f'İİİİ = 1; password = "{BODY[:20]}"', 'İİİİ = 1; password = "[masked secret]"'),
        ("redis://:s3cr3t-pw@localhost:6379/0", "redis://:[masked password]@localhost:6379/0"),
        ("http://tobi:ferret9@example.com/x", "http://tobi:[masked password]@example.com/x"),
        ("http://tobi:ferret9@api.shop.invalid/x", "http://tobi:[masked password]@api.shop.invalid/x"),
        ("https://me:f@r:r$t9@127.0.0.1/x", "https://me:[masked password]@127.0.0.1/x"),
        (f'password = "{BODY[:20]}"', 'password = "[masked secret]"'),
        (f"DB_PASSWORD: '{BODY[:20]}'", "DB_PASSWORD: '[masked secret]'"),
        (f'"apiKey": "{BODY[:32]}",', '"apiKey": "[masked secret]",'),
        (f'aws_secret_access_key="{BODY[:20]}/+{BODY[20:38]}"', 'aws_secret_access_key="[masked secret]"'),
        (f"client.token := `{BODY[:24]}`", "client.token := `[masked secret]`"),
        ('password = "hunter2"', 'password = "[masked password]"'),
        ('token = "0b1e9c7e-3d5f-4a53-9f6e-2f4e4c1f9a11"', 'token = "[masked secret]"'),
        (f'SECRET_KEY_BASE => "{BODY[:24]}"', 'SECRET_KEY_BASE => "[masked secret]"'),
    ],
)
def test_a_secret_that_its_place_gives_away_is_masked(text: str, shown: str) -> None:
    assert redact(text).text == shown
    assert json.loads(redact(json.dumps([text])).text) == [shown]


@pytest.mark.parametrize(
    "text",
    [
        "token = getTokenFromRequest(req)",
        'password = os.environ["PASSWORD"]',
        "const apiKey = process.env.OPENAI_API_KEY_2",
        'token_url = "https://login.example.com/oauth2/v2.0/token"',
        'self.token = f"{prefix}-{number}-{suffix1}-{suffix2}"',
        'SECRET_NAME = "projects/my-project/secrets/database-password"',
        'password: "${DB_PASSWORD_2024_FROM_VAULT}"',
        '"token": "user_access_token_header_v2"',
        'auth_token = "test_token_123_test_token"',
        'tokenizer = "q8Zt2Lw0Xv5Rb7Nc4Md9Kf1H"',
        'cache_key = "q8Zt2Lw0Xv5Rb7Nc4Md9Kf1H"',
        "sha256 3f786850e387550fdab836ed7e6dc881de23001b3f786850e387550fdab836ed",
        "commit = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'",
        '"integrity": "sha512-' + BODY * 2 + '=="',
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUg" + BODY * 3,
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAPACIFICSOUTHEAST",
        "gh" + "p_" + "x" * 36,
        "sk-" + "your-key-goes-here-0123456789",
        "task-sk-learn-model",
        "Authorization: Bearer <token>",
        "Authorization: Bearer authenticationTokenProvider",
        "https://user:password@host/x",
        "postgres://postgres:postgres@localhost/db",
        "http://user:${PASSWORD}@host",
        "MAILER_DSN=ses+https://ACCESS_KEY:SECRET_KEY@default",
        "'somethingElse://userLogin:apiKey@host.test'",
        "http://foo:b%3Dar@localhost:8057",
        "https://untrusted.com:80?@trusted.com/",
        "http://user:$PASSWORD@host",
        "https://token:MY_CI_TOKEN@host",
        "git@github.com:owner/repo.git",
        "see https://example.com:8080/a@b",
        "npm_config_registry=https://registry.npmjs.org/",
        "hf_hub_download(repo_id, filename)",
        "yield 'missing token' => ['lox24://default?from=0611223344'];",
        "eyJ",
        "",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    masked = redact(text)
    assert masked.text == text
    assert masked.count == 0


def test_a_text_without_anchors_is_answered_as_it_is() -> None:
    text = "def login(user):\n    return check(user)\n" * 100
    assert redact(text).text is text


# -- what a value shows by itself --------------------------------------------------------------------------------------

MII = "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"
PUBLIC = {
    "image": "iVBORw0KGgoAAAANSUhEUgAAAsAAAAGMAQMAAADuk4Ym",
    "photo": "/9j/4AAQSkZJRgABAQAAAQABAAD//gA+Q1JFQVRPUjog",
    "certificate": "MIIC9TCCAl6gAwIBAgIJANL8E4epRNznMA0GCSqGSIb3",
    "public key": MII,
    "public key of an elliptic curve": "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE1Olb3zMA",
    "public key of SSH": "AAAAB3NzaC1yc2EAAAADAQABAAABAQC7k3vTz1qRZx8b",
}
PRIVATE = {
    "PKCS#1": "MIICXQIBAAKBgQC9Twh0V5q7R1Q8NxYzCNM4lj9AXeZL",
    "PKCS#8": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA",
    "PKCS#8 with a password": "MIIC3TBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQww",
    "SEC 1": "MHcCAQEEIOj98rAhc4ToQkHby3IegvhmX3UBx13TwpfN",
    "OpenSSH": "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAA",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_an_image_or_a_public_key_stays_whatever_its_name_is(name: str) -> None:
    value = PUBLIC[name]
    lines = "\n".join((value + BODY * 4)[at : at + 64] for at in (0, 64, 128))
    for text in (f'"key": "{value}=="', f"api_token = '{value}'", lines, f'x = "{lines}"'):
        assert redact(text).text == text


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_key_is_masked_without_its_first_line(name: str) -> None:
    value = PRIVATE[name]
    lines = "\n".join((value + BODY * 4)[at : at + 64] for at in (0, 64, 128))
    for text in (f'secret_key = "{value}"', lines):
        assert value not in redact(text).text


@pytest.mark.parametrize(
    "text",
    [
        f'"keyid": "{"9f86d081" * 5}"',
        f'"keys": {{"{"3b" * 32}": {{}}}}',
        f'key: "Linux-node-{"958aff96db" * 4}"',
        'PublicKeyToken="b77a5c561934e089"',
        'PubKey: "CDjXqf7AJBXWhMczcyFs7JlACEptgceysutztHaFQI"',
    ],
)
def test_checksums_and_names_of_keys_stay(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "example.com", "db", "x.invalid", "db.example.org:5432"]
)
def test_a_password_in_an_address_is_masked_whatever_the_host(host: str) -> None:
    for password in ("s3cr3t-pw", "f@r:r$t9", "12345", "%C3%A4x9"):
        assert redact(f"u = amqp://app:{password}@{host}/x").text == f"u = amqp://app:[masked password]@{host}/x"
    for word in ("password", "$PASSWORD", "${PASSWORD}", "MY_DB_PASSWORD", "app"):
        assert redact(f"u = amqp://app:{word}@{host}/x").count == 0


@pytest.mark.parametrize("around", ["{}", "{},1", "see {}.", 'c = "{}"', "a\t{}\n"])
def test_tokens_of_dropbox_and_of_bots_of_discord_are_masked_standing_alone(around: str) -> None:
    for token in (
        "sl." + BODY * 3,
        "sl.u." + BODY * 3,
        f"M{BODY[:23]}.{BODY[:6]}.{BODY[:27]}",
        f"{MII[:3]}{BODY[:23]}",
    ):
        text = around.format(token)
        assert (redact(text).count == 1) == ("." in token), text
