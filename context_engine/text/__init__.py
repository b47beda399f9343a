"""PURE. Text: lines and spans, words and tokens, ids, patterns, diffs, and data that may be hostile."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.text.decoding import SNIFF_BYTES, decode, encode, read_notebook_cells, wide_encoding
    from context_engine.text.diff_reader import (
        DIFF_BYTES_MAX,
        GIT_DIFF_BYTES_MAX,
        DiffHunk,
        DiffLine,
        FileDiff,
        check_diff_size,
        parse_diff,
    )
    from context_engine.text.formatting import (
        compact_json,
        drop_empty,
        escape_characters,
        escape_controls,
        escape_line,
        fence_for,
        find_near_words,
        format_count,
        format_cursor,
        format_size,
        hash_page,
        join_first,
        locate_lines,
        parse_cursor,
        suggest_nearest,
    )
    from context_engine.text.ids import (
        CHANCE_BYTES,
        ids_ending_with,
        make_slug,
        make_slugs,
        resolve_slug,
        short_id,
        uuid7,
        uuid8,
    )
    from context_engine.text.json_reader import OUTPUT_BYTES_MAX, ParseError, read_json
    from context_engine.text.lines import (
        COMMENT_MARKS,
        LineSpan,
        SpanGroup,
        count_lines,
        group_spans,
        merge_spans,
        shorten_line,
        shorten_prose,
        slice_lines,
        split_lines,
    )
    from context_engine.text.patterns import compile_linear, escape_literal, fold_case, load_re2
    from context_engine.text.untrusted_data import read_toml, read_yaml
    from context_engine.text.words import (
        CHARS_PER_TOKEN,
        STOP_WORDS,
        WORD_CHARS_MAX,
        compound_term,
        cut_words,
        dotted_name,
        estimate_tokens,
        expand_words,
        query_terms,
        score_lines,
        split_identifier,
        split_words,
        stem_all,
        unique,
    )

__getattr__ = lazy_exports(__name__)
