"""How secrets are written down in files of many kinds: a path, a text with marks of `secret_examples`, and which mark must go.

The last mark of a text is the secret unless its row says another. Nothing here is a key: marks are filled in by each
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.secret_examples import Drawn, drawn


@dataclass(frozen=True, slots=True)
class SecretFormat:
    """One way to write a secret down: the file it is found in, its text, and the number of the mark that must go."""

    path: str
    text: str
    mark: int = -1

    def draw(self, seed: str) -> tuple[str, str]:
        """Return a text with new values in it, and the secret among them."""
        filled: Drawn = drawn(self.text, seed, digits_min=1)
        return filled.text, filled.parts[self.mark]


F = SecretFormat

TOKEN_FORMATS: Mapping[str, SecretFormat] = {
    "github token": F("a.py", "ghp_<w36>"),
    "github app token": F("a.py", "ghs_<w36>"),
    "github fine-grained token": F("a.py", "github_pat_<w22>_<w59>"),
    "gitlab token": F("a.py", "glpat-<s20>"),
    "gitlab runner token": F("a.py", "glrt-<s20>"),
    "bitbucket app password": F("a.py", "ATBB<w32>"),
    "npm token": F("a.py", "npm_<w36>"),
    "pypi token": F("a.py", "pypi-AgEIcHlwaS5vcmc<s90>"),
    "rubygems token": F("a.py", "rubygems_<x48>"),
    "docker token": F("a.py", "dckr_pat_<s27>"),
    "aws key id": F("a.py", "AKIA<T16>"),
    "aws session key id": F("a.py", "ASIA<T16>"),
    "google key": F("a.py", "AIza<s35>"),
    "google oauth secret": F("a.py", "GOCSPX-<s28>"),
    "alibaba key": F("a.py", "LTAI<w20>"),
    "digitalocean token": F("a.py", "dop_v1_<x64>"),
    "fly.io token": F("a.py", "fo1_<s43>"),
    "netlify token": F("a.py", "nfp_<w36>"),
    "supabase token": F("a.py", "sbp_<x40>"),
    "planetscale password": F("a.py", "pscale_pw_<s43>"),
    "databricks token": F("a.py", "dapi<x32>"),
    "vault token": F("a.py", "hvs.<s90>"),
    "doppler token": F("a.py", "dp.pt.<w43>"),
    "openai key": F("a.py", "sk-proj-<s48>"),
    "anthropic key": F("a.py", "sk-ant-api03-<s93>"),
    "hugging face token": F("a.py", "hf_<w34>"),
    "replicate token": F("a.py", "r8_<w37>"),
    "groq key": F("a.py", "gsk_<w52>"),
    "stripe key": F("a.py", "sk_live_<w24>"),
    "stripe webhook secret": F("a.py", "whsec_<w32>"),
    "square token": F("a.py", "sq0atp-<s22>"),
    "shopify token": F("a.py", "shpat_<x32>"),
    "slack bot token": F("a.py", "xoxb-<d12>-<d12>-<w24>"),
    "slack app token": F("a.py", "xapp-1-<A11>-<d13>-<x64>"),
    "sendgrid key": F("a.py", "SG.<s22>.<s43>"),
    "mailchimp-like brevo key": F("a.py", "xkeysib-<x64>-<w16>"),
    "new relic key": F("a.py", "NRAK-<A27>"),
    "grafana token": F("a.py", "glsa_<w32>_<x8>"),
    "linear key": F("a.py", "lin_api_<w40>"),
    "notion token": F("a.py", "ntn_<w46>"),
    "figma token": F("a.py", "figd_<s40>"),
    "json web token": F("a.py", "eyJ<s20>.eyJ<s60>.<s43>"),
    "age key": F("a.txt", "AGE-SECRET-KEY-1<Q58>"),
}
"""Tokens that a prefix of their own gives away, whatever is around them."""

PLACE_FORMATS: Mapping[str, SecretFormat] = {
    "password in Python": F("app.py", 'password = "<w12>"'),
    "password in JavaScript": F("db.js", "const db = { user: 'app', password: '<w14>' };"),
    "password in Go": F("db.go", 'var dbPassword = "<w14>"'),
    "password in Java": F("Db.java", 'private static final String DB_PASSWORD = "<w14>";'),
    "password in PHP": F("db.php", "$db_password = '<w14>';"),
    "password in a PHP array": F("db.php", "'password' => '<w14>',"),
    "password of WordPress": F("wp-config.php", "define( 'DB_PASSWORD', '<w14>' );"),
    "salt of WordPress": F("wp-config.php", "define('AUTH_KEY', '<w64>');"),
    "password in Ruby": F("db.rb", 'password: "<w14>",'),
    "password in C#": F("Db.cs", 'string password = "<w14>";'),
    "password in Terraform": F("main.tf", '  master_password = "<w14>"'),
    "password in YAML": F("config.yml", "db:\n  user: app\n  db_password: <w12>\n"),
    "quoted password in YAML": F("config.yml", 'db_password: "<w12>"'),
    "password in TOML": F("config.toml", '[db]\npassword = "<w12>"'),
    "password in INI": F("app.ini", "[db]\npassword = <w12>\n"),
    "password in properties": F("application.properties", "spring.datasource.password=<w12>"),
    "password in an environment file": F(".env", "DB_PASSWORD=<w12>"),
    "exported password": F("setup.sh", "export PGPASSWORD='<w12>'"),
    "password in JSON": F("settings.json", '{"user": "app", "password": "<w12>"}'),
    "password element in XML": F("settings.xml", "<server><username>app</username><password><w14></password></server>"),
    "password attribute in XML": F("server.xml", '<Resource username="app" password="<w14>" url="jdbc:x"/>'),
    "nuget password": F("nuget.config", '<add key="ClearTextPassword" value="<w14>" />'),
    "key in a web.config": F("web.config", '<add key="ApiSecret" value="<w32>"/>'),
    "ansible password": F("hosts.ini", "web1 ansible_user=root ansible_ssh_pass=<w12>"),
    "rails database.yml": F("config/database.yml", "production:\n  username: app\n  password: <w14>\n"),
    "rails secret_key_base": F("config/secrets.yml", "  secret_key_base: <x128>"),
    "rails master key": F("config/master.key", "<x32>\n"),
    "laravel key": F(".env", "APP_KEY=base64:<b43>="),
    "django secret key": F("settings.py", "SECRET_KEY = '<s50>'"),
    "flask secret key": F("app.py", 'app.secret_key = "<x32>"'),
    "jwt secret": F(".env", "JWT_SECRET=<w32>"),
    "npm login": F(".npmrc", "//registry.npmjs.org/:_authToken=<u>"),
    "npm basic login": F(".npmrc", "_auth=<B30>"),
    "pypirc": F(".pypirc", "[pypi]\nusername = me\npassword = <w16>\n"),
    "netrc on one line": F(".netrc", "machine api.x.test login me password <w12>"),
    "netrc on three lines": F(".netrc", "machine api.x.test\n  login me\n  password <w12>\n"),
    "pgpass": F(".pgpass", "db.local:5432:app:app_user:<w12>"),
    "pgpass in a reply": F("", "localhost:5432:shop:shop:<w12>"),
    "htpasswd": F(".htpasswd", "admin:$apr1$<w8>$<w22>"),
    "htpasswd with bcrypt": F(".htpasswd", "admin:$2y$10$<w53>"),
    "shadow": F("etc/shadow", "root:$6$<w16>$<w86>:19000:0:99999:7:::"),
    "docker login": F(".docker/config.json", '{"auths": {"r.x.test": {"auth": "<B30>"}}}'),
    "kubernetes secret": F("secret.yml", "kind: Secret\ndata:\n  db-pass: <B24>\n"),
    "kubernetes secret of one value": F("secret.yaml", "apiVersion: v1\nkind: Secret\ndata:\n  password: <B20>\n"),
    "kubeconfig token": F("kubeconfig", "users:\n- name: a\n  user:\n    token: <w40>\n"),
    "azure account key": F(
        "a.cs", "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=<b86>==;EndpointSuffix=core"
    ),
    "azure shared access signature": F(
        "a.js", "https://acme.blob.core.windows.net/c?sv=2022-11-02&ss=b&sig=<w43>%3D&se=2030"
    ),
    "service bus key": F("a.cs", "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey=<b43>="),
    "heroku key": F(".env", "HEROKU_API_KEY=<u>"),
    "aws secret key": F("credentials", "[default]\naws_secret_access_key = <b40>\n"),
    "aws session token": F("credentials", "aws_session_token=<b300>"),
    "service account key": F(
        "sa.json",
        '"private_key": "-----BEGIN PRIVATE KEY-----\\n<b64>\\n<b64>\\n<b40>\\n-----END PRIVATE KEY-----\\n"',
        0,
    ),
    "basic authorization": F("a.http", "Authorization: Basic <B24>"),
    "basic authorization in code": F("a.js", 'headers: { "Authorization": "Basic <B24>" }'),
    "bearer authorization": F("a.http", "Authorization: Bearer <w40>"),
    "api key header": F("a.http", "X-API-Key: <x32>"),
    "api key header in curl": F("run.sh", 'curl -H "X-Api-Key: <w32>" https://api.x.test/v1'),
    "basic login of curl": F("run.sh", "curl -u admin:<w12> https://x.test"),
    "password of mysql": F("run.sh", "mysql -u root -p<w12> shop"),
    "password of wget": F("run.sh", "wget --user=me --password=<w12> https://x.test/f"),
    "password of docker run": F("run.sh", "docker run -e MYSQL_ROOT_PASSWORD=<w12> mysql:8"),
    "password of docker login": F("run.sh", "docker login -u me -p <w14> registry.x.test"),
    "sshpass": F("run.sh", "sshpass -p <w12> ssh a@b"),
    "password in an address": F("a.py", "https://app:<w12>@git.x.test/a.git"),
    "token in a git address": F("a.sh", "git clone https://oauth2:<w20>@gitlab.x.test/a/b.git"),
    "redis address": F("a.py", "redis://:<w16>@cache.x.test:6379/0"),
    "mongodb address": F("a.py", "mongodb+srv://app:<w16>@c0.x.test/db"),
    "jdbc address": F("a.properties", "url=jdbc:mysql://db.x.test/shop?user=app&password=<w12>"),
    "jdbc oracle": F("a.properties", "jdbc:oracle:thin:scott/<w12>@db.x.test:1521:orcl"),
    "ado connection string": F("a.config", "Server=db;Database=shop;User Id=sa;Password=<w12>;"),
    "libpq connection string": F("a.py", 'conn = "host=db.x.test user=app password=<w12> dbname=shop"'),
    "redis.conf": F("redis.conf", "requirepass <w20>"),
    "postfix login": F("sasl_passwd", "[smtp.x.test]:587 me@x.test:<w14>"),
    "wpa key": F("wpa_supplicant.conf", 'network={\n  ssid="home"\n  psk="<w14>"\n}'),
    "wireguard key": F("wg0.conf", "[Interface]\nPrivateKey = <b43>=\n"),
    "otp secret": F("a.txt", "otpauth://totp/acme:me?secret=<T32>&issuer=acme"),
    "slack webhook": F("a.sh", "https://hooks.slack.com/services/T<A8>/B<A8>/<w24>"),
    "discord webhook": F("a.js", "https://discord.com/api/webhooks/<d18>/<s68>"),
    "client secret": F("a.yml", "client_secret: <w32>"),
    "uuid behind a telling name": F("a.ts", "const clientSecret = '<u>';"),
    "hex key behind a telling name": F("a.go", 'encryptionKey := "<x64>"'),
    "unquoted key in an environment file": F(".env", "ACME_API_KEY=<a24>"),
    "unquoted token in YAML": F("a.yaml", "token: <x40>"),
    "session cookie": F("a.http", "Cookie: lang=en; sessionid=<a32>"),
    "maven password": F(
        "settings.xml", "<servers>\n  <server>\n    <password><w14></password>\n  </server>\n</servers>"
    ),
    "gradle signing": F("gradle.properties", "signing.password=<w14>"),
    "smtp password": F("config.php", "'smtp_pass' => '<w14>',"),
    "s3cmd": F(".s3cfg", "access_key = <A20>\nsecret_key = <w40>"),
    "ldap bind password": F("ldap.conf", "bindpw <w14>"),
}
"""Values that only the place where they are written gives away."""
