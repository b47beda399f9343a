// The review of a tool result, inside a client: each finding at the line that it is about.

import { embed } from "./embedded.js";
import { fill } from "./kit.js";
import { show } from "./reviews.js";

function quotedFiles(findings) {
  const paths = [...new Set(findings.map(({ code_location: { file_path } }) => file_path))];
  return paths.map((path) => {
    const lines = new Map(findings.filter(({ code_location: { file_path } }) => file_path === path).map(({ code_location: { line_range: { end } }, quote }) => [end, quote || ""]));
    const hunks = [...lines].sort(([a], [b]) => a - b).map(([line, quote]) => ({ section: "", lines: [["+", 0, line, quote]] }));
    return { path, kind: "modified", note: "", hunks };
  });
}

embed("review", (node, { review }) => fill(node, show({ review, files: quotedFiles(review.findings) })));
