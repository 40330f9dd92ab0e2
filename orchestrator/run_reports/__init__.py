"""From the name of a run to its report, and from the report to its files.

name ── run_lookup ──▶ run folder ── reporting ──▶ Report ──▶ report.json, .html, ...
└── report_reader: report.json, baselines, and all of the above ──▶ one side of a comparison
"""
