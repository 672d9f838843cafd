"""Plugin of pytest that lists the deprecations of libraries that tests have failed on (`make test-newest`)."""

import re

WARNING = re.compile(r"\b(?:Pending)?(?:Deprecation|Future)Warning: .+")
OUR_LINE = re.compile(r"\bhf_localattn/[\w/]+\.py:\d+")


def deprecations(text):
    """Return the deprecations in a traceback or a log, each with the package's last line before it."""
    lines = {}
    last = "outside the package"
    for line in text.splitlines():
        if match := OUR_LINE.search(line):
            last = match.group()
        if match := WARNING.search(line):
            lines[match.group()] = last
    return lines


def pytest_terminal_summary(terminalreporter):
    failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    lines = {}
    for report in failed:
        lines |= deprecations(report.longreprtext)
    terminalreporter.section("deprecations of libraries")
    for warning, line in sorted(lines.items()):
        terminalreporter.line(f"{line}: {warning}")
    terminalreporter.line(f"{len(lines)} in all")
