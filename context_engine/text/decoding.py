"""PURE. The one decoder: for reading a file, searching it, and writing an edit back.

A byte order mark decides; then UTF-16 and UTF-32 by their NULs; then UTF-8. Other bytes are guessed: the encoding in
which most characters are frequent in a language that uses it. A guess counts only if it gives the same bytes back.
"""

from __future__ import annotations

import codecs
import re
from itertools import islice
from typing import NamedTuple

from context_engine.errors import WrongEncoding
from context_engine.text.json_reader import ParseError, read_json

SNIFF_BYTES = 8_192
"""Git also searches the first 8,000 bytes for a NUL to recognize binary files."""
DAMAGED_SHARE = 4
"""Invalid UTF-8 with this many good sequences to each bad one is damaged UTF-8, not another encoding."""
SAMPLE_LINES = 500
"""Lines with more than ASCII by which an encoding is guessed."""
FIT_MIN = 0.25
"""The most frequent 300 characters are half of a Chinese or Japanese text; those of a wrong encoding are rare ones."""

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = (("utf-32-le", 4), ("utf-32-be", 4), ("utf-16-le", 2), ("utf-16-be", 2))
_CONTROLS_8BIT = bytes(range(0x80, 0xA0))

_JAPANESE = (
    "ぁ-んァ-ヴー日本語一人年大中出時行見月分後前生間上今会新体手力場設定読込書文字列変数関処理試験確認名説明値型"
    "返引追加削除更取得実装初期化表示保存画像検索開始終了入力接続失敗成功"
)
_CHINESE = (
    "的一是了不人在有上大地中你生和要出也得自以家可下天能小多好看成只如事把用第道想作面最但前些所同日手行意方因很法"
    "知次使"
)
_DOUBLE_BYTE = {
    "euc_jp": _JAPANESE,
    "cp932": _JAPANESE,
    "gbk": _CHINESE
    + "我他这个们来到时为子说国年着就那她里后会而过去对然于心学之都起发当没还样种开总从无情己现又动期它头经长回位分给"
    "名间世什两身者被高已其进此话常与正文件配置路径设测试错误数据信息类型返值参函代码注释输入打关闭保存读取写检查默"
    "认列表字符串称编找修改密添加删除更新户系统请求处理结果单页显示服务器网络语言版本标题内容目录程序运连接失败功建"
    "立计算价格订库图片汉",
    "cp950": _CHINESE
    + "我他這個們來到時為子說國年著就那她裡後會而過去對然於心學之都起發當沒還樣種開總從無情己現又動期它頭經長回位分給"
    "名間世什兩身者被高已其進此話常與正文件檔案設定路徑測試錯誤資料類型返值參數函式碼註解輸入打關閉儲存讀取寫檢查預"
    "列表字串計算價格訂單庫圖片頁顯示服務器網語言版本標題內容目錄連接失敗功用戶密修改刪除更新系統請求處理結果建繁體"
    "漢",
    "cp949": "이다는에의가을를은로하고지기사도한서대어자인리시나아스해있것정수그일안보라여주부들전제면원구게상만거"
    "장으니우과동성모조비오파소신마유선까설경테트류데터글국말습녕세요입출력저값름문열함변환검색",
}
"""Encodings with two bytes for a character, and frequent characters of the languages that use them."""
_SINGLE_BYTE = {
    "cp1252": r"(?<![^\0-\x7f]{2})(?:[äöüßÄÖÜ]+(?![^\0-\x7f])|[àâäáãåæçéèêëíìîïñóòôöõøœúùûüýßÀÂÄÁÅÆÇÉÈÊÍÎÑÓÔÖØÚÜ])"
    r"|(?<![A-Za-z])[€“”‘«»°§©®µ·¿¡±²³½£×\xa0]|[’”»–—…™•]",
    "cp1250": r"(?<![^\0-\x7f]{2})[ąćęłńóśźżĄĆĘŁŃÓŚŹŻěščřžýáíéůúťďňĚŠČŘŽőűöüäăâîşţ„”–]",
    "cp1254": r"(?<![^\0-\x7f]{2})[ğışüöçâîûĞİŞÜÖÇ’“”]",
    "cp1257": r"(?<![^\0-\x7f]{2})[āčēģīķļņšūžąęėįųĀČĒĢĪĶĻŅŠŪŽĄĘĖĮŲõäöüå„“]",
    "cp1251": r"(?<![A-Za-z])[а-чы-яёіїєґ№«»](?![A-Za-z])",
    "cp1253": r"(?<![A-Za-z])(?:[α-ρσ-ωάέήίόύώ]|ς(?![α-ω]))(?![A-Za-z])",
    "cp1255": r"(?<![A-Za-z])[אבדהוחילםמןנעפקרשת](?![A-Za-z])",
    "cp1256": r"(?<![A-Za-z])[ء-ي](?![A-Za-z])",
}
"""Encodings with one byte for a character, and where their letters are usual: those of another alphabet among their
like, those of Latin with an accent beside plain ones."""


class DecodedText(NamedTuple):
    """Text and its encoding. `lossy`: the text does not give the bytes back, so they must not be rewritten from it."""

    text: str
    encoding: str
    bom: bytes = b""
    lossy: bool = False

    @property
    def label(self) -> str:
        """The encoding as replies name it, with a question mark where it is a guess; empty for UTF-8."""
        if self.encoding == "utf-8":
            return "damaged utf-8" if self.lossy else ""
        return self.encoding if self.bom else f"{self.encoding}?"


def decode(raw: bytes) -> DecodedText:
    r"""Decode any bytes; never fails.

    >>> decode(b"\x93quoted\x94"), decode("ünïcödé".encode() + b"\xff").lossy
    (DecodedText(text='“quoted”', encoding='cp1252', bom=b'', lossy=False), True)
    >>> [decode("设置路径".encode(name)).encoding for name in ("gbk", "utf-8")], decode("Привет".encode("cp1251")).text
    (['gbk', 'utf-8'], 'Привет')
    """
    bom, encoding = next(((mark, name) for mark, name in BOMS if raw.startswith(mark)), (b"", wide_encoding(raw)))
    rest = raw[len(bom) :]
    try:
        return DecodedText(rest.decode(encoding or "utf-8"), encoding or "utf-8", bom)
    except UnicodeDecodeError:
        if not encoding:
            return _guess(raw)
        return DecodedText(rest.decode(encoding, "replace"), encoding, bom, lossy=True)


def encode(text: str, encoding: str, path: str = "the file") -> bytes:
    """Return a text in the encoding of a file. Raises: WrongEncoding for a character that it lacks."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise WrongEncoding(
            f"{path} is encoded in {encoding}, which has no {text[error.start]!r}; nothing was written",
            suggestion="Leave that character out, or ask the user whether the file may become UTF-8.",
            details={"path": path, "encoding": encoding},
        ) from None


def read_notebook_cells(text: str) -> str:
    r"""Return the sources of a Jupyter notebook's cells in their lines; what is not Python in it is a comment.

    All else, such as outputs, is blank. A notebook whose sources are not one line of the file each stays as it is.

    >>> read_notebook_cells('"cell_type": "code",\n"source": [\n"%pip x\\n",\n"a = \\"b\\""\n]')
    '\n# %%\n# %pip x\na = "b"\n'
    """
    lines = text.split("\n")
    shown, is_code, end = [""] * len(lines), False, ""
    for number, line in enumerate(lines):
        bare = line.strip().removesuffix(",")
        if bare.startswith('"cell_type":'):
            is_code = '"code"' in bare
        elif bare == '"source": [':
            shown[number], end = "# %%", f"{line[: line.index(bare)]}]"
        elif end and line.removesuffix(",") == end:
            end = ""
        elif end:
            try:
                source = str(read_json(bare)).rstrip("\n")
            except ParseError:
                return text
            shown[number] = source if is_code and not source.startswith(("%", "!")) else f"# {source}"
    return "\n".join(shown) if any(shown) else text


def wide_encoding(raw: bytes) -> str:
    r"""Return how bytes with NULs and without a mark are UTF-16 or UTF-32: printable, most of it ASCII; empty if not.

    >>> wide_encoding("a = 'ä'\n".encode("utf-16-be")), wide_encoding(b"a\0b"), wide_encoding(b"\0\1" * 9)
    ('utf-16-be', '', '')
    """
    head = raw[:SNIFF_BYTES]
    for encoding, unit in _WIDE if b"\0" in head else ():
        if len(raw) % unit == 0:
            text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
            plain = re.sub(r"[\t\n\f\r]", " ", text)
            if plain.isprintable() and "\ufffd" not in plain and 2 * len(re.findall(r"[ -~]", plain)) > len(plain):
                return encoding
    return ""


def _guess(raw: bytes) -> DecodedText:
    """Decode bytes that are not UTF-8: as UTF-8 if few of them are damaged, so that the rest reads right."""
    text = raw.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - bad - len(text.encode("ascii", "ignore"))
    if good >= DAMAGED_SHARE * bad:
        return DecodedText(text, "utf-8", lossy=True)
    sample = b"\n".join(islice((line for line in raw.splitlines() if not line.isascii()), SAMPLE_LINES))
    for table in (_DOUBLE_BYTE, _SINGLE_BYTE):
        fits = {
            name: _fit(sample, name, f"[{usual}]" if table is _DOUBLE_BYTE else usual) for name, usual in table.items()
        }
        best = max(fits, key=lambda name: fits[name])
        if fits[best] >= FIT_MIN and best != "cp1252" and (guess := _decode_as(raw, best)):
            return guess
    # where Latin-1 has control characters, Windows-1252 has quotes and dashes
    has_controls = raw.translate(None, _CONTROLS_8BIT) != raw
    return (_decode_as(raw, "cp1252") if has_controls else None) or DecodedText(raw.decode("latin-1"), "latin-1")


def _fit(sample: bytes, encoding: str, usual: str) -> float:
    """Return the share of the characters beyond ASCII that are usual in an encoding; 0 where it cannot be decoded."""
    guess = _decode_as(sample, encoding)
    return len("".join(re.findall(usual, guess.text))) / len(re.findall(r"[^\0-\x7f]", guess.text)) if guess else 0.0


def _decode_as(raw: bytes, encoding: str) -> DecodedText | None:
    """Return the text in an encoding if it gives the same bytes back."""
    try:
        text = raw.decode(encoding)
        return DecodedText(text, encoding) if text.encode(encoding) == raw else None
    except UnicodeError:
        return None
