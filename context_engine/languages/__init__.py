"""What is known of each language: how to recognize its files, what a file defines and imports, and where names are.

Facts of a language are in its TOML file, with examples that the tests run; the code here is the same for all.
Outlining never fails: a broken file is a file with problems.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.languages.brackets import Bracket, check_brackets, find_bracket_problem
    from context_engine.languages.comments import (
        ATTRIBUTE,
        blank_comments_and_strings,
        find_leading_lines,
        find_lines_above,
        read_file_header,
    )
    from context_engine.languages.grammars import Grammars
    from context_engine.languages.import_resolution import PathIndex, resolve_import
    from context_engine.languages.language import OWN_FOLDER, Language, Languages, RenameRules, compile_pattern
    from context_engine.languages.name_occurrences import (
        PROSE,
        Occurrence,
        find_occurrences,
        find_whole_words,
        occurrence_at,
    )
    from context_engine.languages.outline import Outline, find_references, outline_file
    from context_engine.languages.outline_types import Import, Symbol, SymbolReference
    from context_engine.languages.syntax_file import NOWHERE, NameBinding, SyntaxFile, read_syntax
    from context_engine.languages.syntax_trees import (
        Capture,
        CaptureMatch,
        Captures,
        LeafToken,
        SyntaxNode,
        child_of,
        read_leaf_tokens,
        read_syntax_errors,
    )

__getattr__ = lazy_exports(__name__)
