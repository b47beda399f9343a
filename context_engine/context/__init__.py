"""Context for a task: bundles of code within a budget, enhanced prompts, and checked second passes of a model.

`localizer` finds the files of a question, `bundle` opens them and lists memories, discoveries and `related_files`,
`budget` chooses the lines: a bundle never costs more than its budget or shows a line twice (`shown_lines`: across
replies). `enhance` adds facts to a prompt by `name_lookup` and `commands`. `project_knowledge` has what all this asks.

A tool computes its answer without any model. Then an endpoint that the user named (`llm_endpoint`), or the calling
agent with a brief and a schema, may take it further (`assist`). `fact_check` compares the draft with files, symbols,
lines and quotes before it counts; no failing model fails a call.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.context.assist import (
        ASSIST_MODES,
        BRIEF_TOKENS_MAX,
        BriefSection,
        SecondPass,
        SecondPassResult,
        SecondPassRunner,
        accept_draft,
        build_brief,
        compute_draft_id,
        format_problem,
        open_runner,
        parse_draft,
    )
    from context_engine.context.budget import (
        PART_WORTH,
        PLACE_TOKENS_MIN,
        FilePrice,
        SnippetOption,
        SnippetPacker,
        find_symbol_at,
        fit_budget,
        order_by_value,
        widen_to_symbol,
    )
    from context_engine.context.bundle import Bundle, BundledFile, BundleRequest, Snippet, build_bundle
    from context_engine.context.commands import Command
    from context_engine.context.enhance import (
        BINDING_TYPES,
        EnhancedPrompt,
        EnhanceMode,
        LikelyFile,
        build_enhanced_prompt,
        build_rewrite_request,
        check_rewrite,
        find_commands,
    )
    from context_engine.context.fact_check import (
        CheckedClaims,
        Claim,
        ClaimedLines,
        ClaimedQuote,
        RejectedItem,
        RepositoryFacts,
        check_claims,
    )
    from context_engine.context.localizer import (
        GatheredFiles,
        GatherRequest,
        gather_files,
        glob_for_path,
    )
    from context_engine.context.name_lookup import PromptReference, ReferencePlace, resolve_names
    from context_engine.context.project_knowledge import (
        QUOTED_FROM_REPOSITORY,
        KnowledgeEntry,
        ProjectKnowledge,
        RuleScope,
        Workspace,
    )
    from context_engine.context.related_files import describe_mentions, describe_mentions_at, find_partners
    from context_engine.context.shown_lines import ShownLines, ShownLinesBySession

__getattr__ = lazy_exports(__name__)
