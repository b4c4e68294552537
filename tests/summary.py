#!/usr/bin/env python3
"""Adds up what a test run found and ends with the line 'N passed, N failed[, N skipped]'.

Usage: summary.py --events FILE [--failed] [SUITE.log ...]

FILE is what `bazel test --build_event_json_file=FILE` wrote; GoogleTest cases count where a test wrote them
(test.xml), else the target counts as one. Each log is that of a suite outside Bazel, whose last line has the same form.
With --failed the run failed, so at least one failure is counted. Exit status 1 when anything failed or nothing ran.
"""
import argparse
import json
import os
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

LAST_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


class Totals:
    def __init__(self):
        self.passed = 0
        self.failed = []  # names
        self.skipped = []  # names, some with the reason behind them


def add_test_xml(path, target, totals):
    """Counts the cases of one test.xml into totals. Returns (cases, failures); (0, 0) where it holds none."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return 0, 0
    cases = failures = 0
    for case in root.iter("testcase"):
        suite = case.get("classname") or ""
        name = f"{target} {suite}.{case.get('name')}" if suite else f"{target} {case.get('name')}"
        cases += 1
        if case.find("failure") is not None or case.find("error") is not None:
            failures += 1
            totals.failed.append(name)
        elif (skip := case.find("skipped")) is not None or case.get("result") == "skipped" or case.get(
                "status") == "notrun":
            reason = (skip.get("message") or "").strip().splitlines() if skip is not None else []
            totals.skipped.append(f"{name}: {reason[-1]}" if reason else name)
        else:
            totals.passed += 1
    return cases, failures


def add_events(lines, totals):
    """Counts the targets of a build event file. Lines that are no JSON (a run that was cut off) are passed over."""
    for line in lines:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        ident = event.get("id", {})
        completed = ident.get("targetCompleted")
        if completed and "aborted" in event:
            label = completed["label"]
            if event["aborted"].get("reason") == "SKIPPED":
                totals.skipped.append(f"{label}: incompatible with this machine")
            else:
                totals.failed.append(f"{label}: {event['aborted'].get('reason', 'aborted')}")
        elif completed and "completed" in event and not event["completed"].get("success"):
            totals.failed.append(f"{completed['label']}: did not build")
        if "testResult" in event:
            add_test_result(ident["testResult"]["label"], event["testResult"], totals)


def add_test_result(label, result, totals):
    ok = result["status"] in ("PASSED", "FLAKY")
    files = {f["name"]: f.get("uri", "") for f in result.get("testActionOutput", [])}
    path = urllib.parse.unquote(urllib.parse.urlparse(files.get("test.xml", "")).path)
    cases, failures = add_test_xml(path, label, totals)
    if cases == 0 and ok:
        totals.passed += 1
    elif not ok and failures == 0:  # a crash, a timeout, or a report from before it
        totals.failed.append(f"{label}: {result['status']}")


def add_suite_log(path, totals):
    name = os.path.basename(path).removesuffix(".log")
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            lines = log.read().split("\n")
    except OSError as error:
        totals.failed.append(f"tests/{name}: {error}")
        return
    last = next((line for line in reversed(lines) if line.strip()), "")
    counts = LAST_LINE.match(last.strip())
    if not counts:
        totals.failed.append(f"tests/{name}: ended without its line of counts")
        return
    totals.passed += int(counts[1])
    totals.failed += [f"tests/{name}: see its output"] * int(counts[2])
    totals.skipped += [f"tests/{name}"] * int(counts[3] or 0)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", required=True)
    parser.add_argument("--failed", action="store_true")
    parser.add_argument("logs", nargs="*")
    options = parser.parse_args(arguments)

    totals = Totals()
    try:
        with open(options.events, encoding="utf-8") as events:
            add_events(events, totals)
    except OSError as error:
        totals.failed.append(f"bazel: {error}")
    for log in options.logs:
        add_suite_log(log, totals)
    if options.failed and not totals.failed:
        totals.failed.append("the run itself: see the messages above")
    if not totals.failed and totals.passed == 0:
        totals.failed.append("nothing ran")

    for title, names in (("Skipped", totals.skipped), ("Failed", totals.failed)):
        if names:
            print(f"{title}:")
            for name in names:
                print(f"  {name}")
    skipped = f", {len(totals.skipped)} skipped" if totals.skipped else ""
    print(f"{totals.passed} passed, {len(totals.failed)} failed{skipped}")
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
