// Style of a tuning report for phones, wide screens, dark mode and paper.
#pragma once

namespace ligerdsl::cli {

inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b636d; --rule: #dfe3e8; --paper: #ffffff; --gain: #1a7f4b;
  --best: #2f7ed8; --trial: #8a8f98; --failure: #d9534f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa3ad; --rule: #333a42; --paper: #14171a;
  --gain: #5cc28d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 70rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 3rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p { margin: .25rem 0 .75rem; max-width: 46rem; }
.soft, figcaption, caption { color: var(--soft); }
.soft, figcaption { font-size: .875rem; }
a { color: inherit; text-decoration-color: var(--trial); text-underline-offset: .15em; }
code { font: .8125rem/1.4 ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.charts { display: grid; gap: 1.5rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr));
  align-items: start; }
figure { margin: 1rem 0 0; max-width: 31rem; min-width: 0; break-inside: avoid; }
figcaption { margin-top: .25rem; }
.chart { display: block; width: 100%; height: auto; }
.chart text { font-family: system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.chart [color="black"] { color: var(--ink); }
.chart [stroke="black"], .chart [stroke="rgb(  0,   0,   0)"] { stroke: var(--ink); }
.chart [fill="black"] { fill: var(--ink); }
.chart .gridline, .chart [color="gray"] { color: var(--rule); stroke: var(--rule); }
.key { display: inline-block; width: .6em; height: .6em; border-radius: 50%; margin-right: .3em; background: var(--trial); }
.key.best { background: var(--best); }
.key.failure { background: var(--failure); }
.key.open { background: none; border: 2px solid var(--trial); }
.key, .bar { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.wide { overflow-x: auto; margin: .75rem 0; }
table { overflow-wrap: break-word; border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .25rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--rule); }
td { overflow-wrap: anywhere; }
th { font-weight: 600; }
thead th { color: var(--soft); font-weight: 500; }
.number { text-align: right; white-space: nowrap; }
.gain { color: var(--gain); font-weight: 600; }
.bar { display: block; height: .3rem; min-width: 2px; background: var(--failure); }
.bar.slow { background: var(--trial); }
@media (max-width: 40rem) {
  .cards thead { display: none; }
  .cards, .cards tbody, .cards tr, .cards th, .cards td, .cards caption { display: block; }
  .cards tr { border-bottom: 1px solid var(--rule); padding: .5rem 0; }
  .cards th, .cards td { border: 0; padding: .1rem 0; text-align: left; white-space: normal; }
  .cards td { display: flex; gap: 1rem; justify-content: space-between; }
  .cards td:empty { display: none; }
  .cards .bar, .minor { display: none; }
  .cards td::before { content: attr(data-title); color: var(--soft); flex: none; }
}
@media print {
  :root { --ink: #000; --soft: #444; --rule: #ccc; --paper: #fff; --gain: #000; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  table { font-size: 8.5pt; }
  .wide { overflow: visible; }
  h2, h3 { break-after: avoid; }
  tr { break-inside: avoid; }
}
@page { margin: 15mm; }
)css";

}  // namespace ligerdsl::cli
