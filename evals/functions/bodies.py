"""From source files to questions: every function as what is embedded of it, and the sentence that somebody wrote about it.

Pure. The document of a function is its capsule, as the index makes it; for a question made of a doc comment the comment
is taken out of the function and of those around it, or the question would find itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from context_engine.index import ChunkEmbeddingText, ChunkLocation, build_chunk_texts
from context_engine.index.describe import StoredOutline, StoredSymbol
from context_engine.languages import Grammars, Language, Symbol, outline_file
from training.mine import CODE_CHARS_MAX, plain, sentence, sketch, without

FUNCTIONS = frozenset({"function", "method", "constructor"})
WORDS_MIN = 4
"""A shorter sentence ("Returns the name.") is about any function, and an address is no sentence."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function or method: its place, what is embedded with and without doc comments, and the comment itself."""

    path: str
    first: int
    last: int
    doc: str
    told: ChunkEmbeddingText
    bare: ChunkEmbeddingText


@dataclass(frozen=True, slots=True)
class Case:
    """One package or repository: question n is answered by any of the documents `right[n]`."""

    title: str
    documents: list[ChunkEmbeddingText]
    questions: list[str]
    right: list[frozenset[int]]


@dataclass(frozen=True, slots=True)
class Known:
    """What the static table was trained on, where that is at hand: sentences, and sketches of code."""

    questions: Collection[str] = ()
    codes: Collection[tuple[int, ...]] = ()


def functions_of(path: str, data: bytes, language: Language, grammars: Grammars) -> list[Function]:
    """The functions of one file in its order, those inside others as well."""
    symbols = list(outline_file(language, data, grammars, details=True).symbols)
    numbers = [number for number, symbol in enumerate(symbols) if symbol.kind in FUNCTIONS]
    chunks = [ChunkLocation(symbols[number].start, symbols[number].stop, number) for number in numbers]
    made = build_chunk_texts(path, data, _stored(symbols, data), chunks)
    return [
        Function(path, symbol.first, symbol.last, symbol.doc, _told(each, symbol), _bare(each, symbol, symbols))
        for each, symbol in zip(made, (symbols[number] for number in numbers), strict=True)
    ]


def _stored(symbols: Sequence[Symbol], data: bytes) -> StoredOutline:
    """The outline as the index keeps it, from which chunk texts are built."""
    kept = [
        StoredSymbol(each.name, each.kind, each.first, each.last, each.line, each.parent, each.owner)
        for each in symbols
    ]
    return StoredOutline(kept, [], data.count(b"\n") + 1)


def _told(capsule: ChunkEmbeddingText, symbol: Symbol) -> ChunkEmbeddingText:
    """With the comment, put in front where the language has it outside of the function."""
    first = symbol.doc.partition("\n")[0]
    return capsule if first in capsule.body else capsule._replace(body=f"{symbol.doc}\n{capsule.body}")


def _bare(capsule: ChunkEmbeddingText, symbol: Symbol, symbols: Iterable[Symbol]) -> ChunkEmbeddingText:
    """Without the comment, and without those of the functions inside."""
    body = capsule.body
    for each in symbols:
        if symbol.start <= each.start and each.stop <= symbol.stop:
            body = without(each.doc, body)
    return capsule._replace(body=body)


def case_of(title: str, functions: Sequence[Function], known: Known) -> tuple[Case, dict[str, int]]:
    """The questions of a package and what was left out for which reason. The same sentence is one question."""
    documents = [each.bare for each in functions]
    spelled = [plain(each.body) for each in documents]
    asked: dict[str, tuple[str, set[int]]] = {}
    left_out: dict[str, int] = defaultdict(int)
    for number, each in enumerate(functions):
        question = sentence(each.doc)
        if len(question.split()) < WORDS_MIN:
            continue
        if reason := _unfair(question, each, spelled[number], known):
            left_out[reason] += 1
        else:
            asked.setdefault(plain(question), (question, set()))[1].add(number)
    rows = asked.values()
    case = Case(title, documents, [question for question, _ in rows], [frozenset(right) for _, right in rows])
    return case, dict(left_out)


def _unfair(question: str, function: Function, spelled: str, known: Known) -> str:
    """Why a question may not be asked; empty when it may."""
    if plain(question) in spelled:
        return "its sentence still stands in the code"
    if plain(question) in known.questions or sketched(function) in known.codes:
        return "training knows it"
    return ""


def sketched(function: Function) -> tuple[int, ...]:
    """The sketch of a function as training makes it: of as much code as it reads."""
    return sketch(f"{function.bare.head}\n{function.bare.body[:CODE_CHARS_MAX]}")
