"""PURE. How the page of a plan looks: by day, by night, on paper. Its one style sheet; nothing is fetched."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfaf8; --card: #ffffff; --ink: #1f2328; --soft: #626b76; --line: #e2dfd9; --accent: #b4430d; --accent-soft: #fbeee6;
  --done: #e2f3e6; --done-line: #3f8f58; --done-ink: #1d5a32;
  --active: #e3eefb; --active-line: #3b78c2; --active-ink: #1c4a82;
  --ready: #fff; --ready-line: #b08a1e; --ready-ink: #5f4a0c;
  --failed: #fbe5e3; --failed-line: #c0392b; --failed-ink: #842218;
  --waiting: #f4f2ee; --waiting-line: #b9b3a8; --waiting-ink: #4c4a45;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171a; --card: #1d2024; --ink: #e6e4df; --soft: #9aa1aa; --line: #33373d; --accent: #f0935a; --accent-soft: #33231a;
    --done: #17301f; --done-line: #4fa46b; --done-ink: #a5dcb6;
    --active: #172a41; --active-line: #5b97dd; --active-ink: #b4d3f6;
    --ready: #1d2024; --ready-line: #cba63c; --ready-ink: #ecd590;
    --failed: #3a1b18; --failed-line: #e0685b; --failed-ink: #f5b5ad;
    --waiting: #24272c; --waiting-line: #545a63; --waiting-ink: #b9bec6;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 48px 28px 72px; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 14px; letter-spacing: -.015em; text-wrap: balance; }
h2 { font-size: 1.05rem; margin: 52px 0 14px; padding-bottom: 8px; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; line-height: 1.35; margin: 0; }
p { margin: 0 0 12px; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: 3px; }
code, pre { font: .86em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace; }
code { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .1em .35em; border-radius: 4px; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px; overflow-x: auto; }
ul { margin: 0; padding-left: 1.15em; }
li { margin: 3px 0; }
.said { white-space: pre-wrap; }
.soft, .facts dt, .times .tick, .note { color: var(--soft); }
.note { font-size: .875rem; margin: 10px 0 0; }
.warning { background: var(--accent-soft); border-left: 3px solid var(--accent); padding: 10px 14px; border-radius: 4px; }
.line { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 0 0 20px; }
.chip {
  font-size: .8rem; line-height: 1; padding: 6px 10px; border-radius: 99px; border: 1px solid var(--waiting-line);
  background: var(--waiting); color: var(--waiting-ink); white-space: nowrap;
}
.chip.done { background: var(--done); border-color: var(--done-line); color: var(--done-ink); }
.chip.active { background: var(--active); border-color: var(--active-line); color: var(--active-ink); }
.chip.ready { background: var(--ready); border-color: var(--ready-line); color: var(--ready-ink); }
.chip.failed { background: var(--failed); border-color: var(--failed-line); color: var(--failed-ink); }
.chip.blocked { border-color: var(--failed-line); color: var(--failed-ink); border-style: dashed; }
.facts { display: flex; flex-wrap: wrap; gap: 1px; margin: 26px 0 0; padding: 0; background: var(--line);
  border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
.facts div { flex: 1 1 auto; min-width: 88px; background: var(--card); padding: 14px 16px; }
.facts dt { font-size: .78rem; }
.facts dd { margin: 2px 0 0; font-size: 1.18rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.track { display: block; width: 100%; height: 8px; margin: 22px 0 6px; }
.track .whole { fill: var(--line); }
.track .part { fill: var(--done-line); }
.picture { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 20px; overflow-x: auto; }
.picture svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
.picture.wide svg { max-width: none; }
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--ink); }
svg a { text-decoration: none; outline-offset: 3px; }
svg .number { font-weight: 700; font-variant-numeric: tabular-nums; }
.arrow { fill: none; stroke: var(--waiting-line); stroke-width: 1.4; }
.arrow.critical { stroke: var(--accent); stroke-width: 2.2; }
.head { fill: var(--waiting-line); }
.head.critical { fill: var(--accent); }
.box rect { fill: var(--waiting); stroke: var(--waiting-line); stroke-width: 1.2; }
.box text { fill: var(--waiting-ink); }
.box.plain rect { fill: var(--card); }
.box.plain text { fill: var(--ink); }
.box.done rect { fill: var(--done); stroke: var(--done-line); }
.box.done text { fill: var(--done-ink); }
.box.active rect { fill: var(--active); stroke: var(--active-line); }
.box.active text { fill: var(--active-ink); }
.box.ready rect { fill: var(--ready); stroke: var(--ready-line); }
.box.ready text { fill: var(--ready-ink); }
.box.failed rect { fill: var(--failed); stroke: var(--failed-line); }
.box.failed text { fill: var(--failed-ink); }
.box.blocked rect { stroke: var(--failed-line); stroke-dasharray: 5 4; }
.box.critical rect { stroke: var(--accent); stroke-width: 2.2; }
.box:hover rect, .bar:hover .row { filter: brightness(.97); }
.bar rect { fill: var(--waiting-line); }
.bar .row { fill: transparent; }
.bar:hover .row { fill: var(--waiting); }
.bar.critical rect:not(.row) { fill: var(--accent); }
.bar.done rect:not(.row) { fill: var(--done-line); }
.bar.active rect:not(.row) { fill: var(--active-line); }
.bar.failed rect:not(.row) { fill: var(--failed-line); }
.bar .number, .bar .hours { fill: var(--soft); }
.tick { stroke: var(--line); }
text.tick { stroke: none; font-size: 12px; fill: var(--soft); }
.slack { stroke: var(--waiting-line); stroke-width: 2; stroke-dasharray: 2 4; }
.key { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 14px 0 0; font-size: .82rem; color: var(--soft); }
.key span::before { content: ""; display: inline-block; width: 14px; height: 10px; margin-right: 7px; border-radius: 3px;
  background: var(--waiting); border: 1px solid var(--waiting-line); }
.key .done::before { background: var(--done); border-color: var(--done-line); }
.key .active::before { background: var(--active); border-color: var(--active-line); }
.key .ready::before { background: var(--ready); border-color: var(--ready-line); }
.key .failed::before { background: var(--failed); border-color: var(--failed-line); }
.key .blocked::before { border-color: var(--failed-line); border-style: dashed; }
.key .critical::before { background: none; border: 2px solid var(--accent); }
.step { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--waiting-line); border-radius: 12px;
  padding: 18px 22px 20px; margin: 0 0 14px; }
.step.done { border-left-color: var(--done-line); }
.step.active { border-left-color: var(--active-line); }
.step.ready { border-left-color: var(--ready-line); }
.step.failed, .step.blocked { border-left-color: var(--failed-line); }
.step:target { box-shadow: 0 0 0 3px var(--accent-soft), 0 0 0 4px var(--accent); }
.step > :last-child { margin-bottom: 0; }
.step header { display: flex; gap: 14px; align-items: baseline; margin-bottom: 6px; }
.step header h3 { flex: 1; }
.step .place { color: var(--soft); font-weight: 700; font-variant-numeric: tabular-nums; min-width: 1.2em; }
.step .under { margin: 0 0 10px; font-size: .875rem; color: var(--soft); }
.step dl { display: grid; grid-template-columns: 7.5em 1fr; gap: 8px 16px; margin: 12px 0 0; font-size: .92rem; }
.step dt { color: var(--soft); }
.step dd { margin: 0; }
.step ul { list-style: none; padding: 0; }
.paths li { display: inline-block; margin: 0 6px 5px 0; }
.mark { display: inline-block; width: 1.4em; color: var(--soft); }
.mark.yes { color: var(--done-line); font-weight: 700; }
table { width: 100%; border-collapse: collapse; font-size: .94rem; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .82rem; }
th, td { padding: 9px 16px 9px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { min-width: 4em; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 8px 40px; }
.columns h3 { font-size: .82rem; font-weight: 500; color: var(--soft); margin: 8px 0 4px; }
footer { margin-top: 64px; font-size: .82rem; color: var(--soft); }
@media (max-width: 640px) {
  main { padding: 28px 16px 48px; }
  .picture { padding: 12px; }
  .picture svg { max-width: none; }
  .step dl { grid-template-columns: 1fr; gap: 2px; }
  .step dd { margin-bottom: 8px; }
  .step header { flex-wrap: wrap; }
}
@media print {
  :root { color-scheme: light; --paper: #fff; }
  body { font-size: 12px; }
  main { max-width: none; padding: 0; }
  h2 { break-after: avoid; margin-top: 28px; }
  .picture { padding: 8px; }
  .picture.wide svg { max-width: 100%; }
  .step, .picture, tr, .facts { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
"""On paper the colours of the day count wherever the browser prints by them; a plan printed by night is dark, as it was shown."""
