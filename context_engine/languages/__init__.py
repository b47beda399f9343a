"""What is known of each language: how to recognize its files, what a file defines and imports, and where names are."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.languages.brackets import Bracket, check_brackets, find_bracket_problem
    from context_engine.languages.captures import Capture, CaptureMatch, Captures
    from context_engine.languages.comments import (
        ATTRIBUTE,
        LeadingLines,
        blank_comments_and_strings,
        find_leading_lines,
        find_lines_above,
        read_file_header,
    )
    from context_engine.languages.compact_tree import CompactTree, GrammarNames, SyntaxNode
    from context_engine.languages.grammars import Grammars
    from context_engine.languages.import_resolution import PathIndex, resolve_import
    from context_engine.languages.language import OWN_FOLDER, Language, Languages
    from context_engine.languages.leaf_tokens import LeafToken, read_leaf_tokens
    from context_engine.languages.name_occurrences import NameScope, Occurrence, find_occurrences, find_whole_words
    from context_engine.languages.outline import Outline, outline_file
    from context_engine.languages.outline_types import SYMBOL_KINDS, Import, Symbol, SymbolReference
    from context_engine.languages.resolution_rules import ResolutionRules
    from context_engine.languages.syntax_file import NOWHERE, NameBinding, SyntaxFile, child_of, read_syntax
    from context_engine.languages.syntax_trees import prepare_source, read_syntax_errors

__all__ = [
    "ATTRIBUTE",
    "NOWHERE",
    "OWN_FOLDER",
    "SYMBOL_KINDS",
    "Bracket",
    "Capture",
    "CaptureMatch",
    "Captures",
    "CompactTree",
    "GrammarNames",
    "Grammars",
    "Import",
    "Language",
    "Languages",
    "LeadingLines",
    "LeafToken",
    "NameBinding",
    "NameScope",
    "Occurrence",
    "Outline",
    "PathIndex",
    "ResolutionRules",
    "Symbol",
    "SymbolReference",
    "SyntaxFile",
    "SyntaxNode",
    "blank_comments_and_strings",
    "check_brackets",
    "child_of",
    "find_bracket_problem",
    "find_leading_lines",
    "find_lines_above",
    "find_occurrences",
    "find_whole_words",
    "outline_file",
    "prepare_source",
    "read_file_header",
    "read_leaf_tokens",
    "read_syntax",
    "read_syntax_errors",
    "resolve_import",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "ATTRIBUTE": "comments",
        "Bracket": "brackets",
        "Capture": "captures",
        "CaptureMatch": "captures",
        "Captures": "captures",
        "CompactTree": "compact_tree",
        "GrammarNames": "compact_tree",
        "Grammars": "grammars",
        "Import": "outline_types",
        "Language": "language",
        "Languages": "language",
        "LeadingLines": "comments",
        "LeafToken": "leaf_tokens",
        "NameBinding": "syntax_file",
        "NameScope": "name_occurrences",
        "OWN_FOLDER": "language",
        "Occurrence": "name_occurrences",
        "Outline": "outline",
        "PathIndex": "import_resolution",
        "ResolutionRules": "resolution_rules",
        "SYMBOL_KINDS": "outline_types",
        "Symbol": "outline_types",
        "SymbolReference": "outline_types",
        "SyntaxFile": "syntax_file",
        "SyntaxNode": "compact_tree",
        "blank_comments_and_strings": "comments",
        "check_brackets": "brackets",
        "NOWHERE": "syntax_file",
        "child_of": "syntax_file",
        "find_bracket_problem": "brackets",
        "find_leading_lines": "comments",
        "find_lines_above": "comments",
        "find_occurrences": "name_occurrences",
        "find_whole_words": "name_occurrences",
        "outline_file": "outline",
        "prepare_source": "syntax_trees",
        "read_file_header": "comments",
        "read_leaf_tokens": "leaf_tokens",
        "read_syntax": "syntax_file",
        "read_syntax_errors": "syntax_trees",
        "resolve_import": "import_resolution",
    },
)
