"""What we know of each language: how to recognise its files, what a file defines and imports, and which file that is."""

from context_engine.languages.file_header import doc_head
from context_engine.languages.grammars import Grammars
from context_engine.languages.import_resolution import PathIndex, resolve_import
from context_engine.languages.language import OWN_FOLDER, Language, Languages
from context_engine.languages.leading_comments import Above, above, leading_part
from context_engine.languages.outline import Outline, outline
from context_engine.languages.outline_types import SYMBOL_KINDS, Import, Reference, Symbol
from context_engine.languages.syntax_errors import syntax_errors

__all__ = [
    "OWN_FOLDER",
    "SYMBOL_KINDS",
    "Above",
    "Grammars",
    "Import",
    "Language",
    "Languages",
    "Outline",
    "PathIndex",
    "Reference",
    "Symbol",
    "above",
    "doc_head",
    "leading_part",
    "outline",
    "resolve_import",
    "syntax_errors",
]
