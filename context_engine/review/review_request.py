"""PURE. What a review session is asked for: which change, and how."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from context_engine.review.review_options import ReviewOptions


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """What is to be reviewed, as it is kept: full hashes, so that it means the same tomorrow."""

    commit: str
    base: str
    paths: tuple[str, ...] = ()
    options: ReviewOptions = field(default_factory=ReviewOptions)
    title: str = ""
    author: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What makes two requests the same: the change and the options, not their titles."""
        said = "\0".join((self.commit, self.base, self.options.key, *self.paths))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
