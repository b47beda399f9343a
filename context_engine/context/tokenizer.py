"""The tokenizer of the model that reads, where its owner has it: then a budget is counted exactly instead of from above.

A `tokenizer.json` as every open model brings it, read by the library `tokenizers`. Nothing is fetched, and without the
file nothing is imported.
"""

from __future__ import annotations

from pathlib import Path

from context_engine.context.budget import TokenCounter
from context_engine.errors import InvalidArgument, UnsupportedHost


def load_tokenizer(file: Path) -> TokenCounter:
    """How many tokens a text has for the model whose tokenizer this is; marks of beginning and end are not counted.

    Raises: UnsupportedHost (the library is not installed), InvalidArgument (the file is none of a tokenizer).
    """
    try:
        from tokenizers import Tokenizer  # heavy, and only for those who named a file
    except ImportError as error:
        raise UnsupportedHost(
            "counting with a tokenizer of your own needs the library tokenizers",
            suggestion="pip install tokenizers, or empty CTX_TOKENIZER_FILE: budgets then keep to an upper bound",
        ) from error
    try:
        loaded = Tokenizer.from_file(str(file))
    except Exception as error:  # the library has no error of its own
        raise InvalidArgument(
            f"{file} is no tokenizer.json that can be read: {error}",
            suggestion="name the tokenizer.json of a model in CTX_TOKENIZER_FILE, or empty it",
        ) from error
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)
