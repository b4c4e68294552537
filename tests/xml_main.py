"""Runs the calling module's unittest cases and reports each to Bazel, as GoogleTest does for C++."""
import os
import sys
import unittest
from xml.sax.saxutils import quoteattr


class _Recorder(unittest.TextTestResult):

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.cases = []  # (test id, kind, text); kind is "", "failure" or "skipped"

    def addSuccess(self, test):
        super().addSuccess(test)
        self.cases.append((test.id(), "", ""))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.cases.append((test.id(), "failure", self.failures[-1][1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.cases.append((test.id(), "failure", self.errors[-1][1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.cases.append((subtest.id(), "failure", (self.failures or self.errors)[-1][1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.cases.append((test.id(), "skipped", reason))


def _write_xml(path, cases):
    with open(path, "w", encoding="utf-8") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n<testsuite name="unittest">\n')
        for name, kind, text in cases:
            suite, _, case = name.removeprefix("__main__.").partition(".")
            inside = f"<{kind} message={quoteattr(text)}/>" if kind else ""
            out.write(f"<testcase classname={quoteattr(suite)} name={quoteattr(case)}>{inside}</testcase>\n")
        out.write("</testsuite>\n</testsuites>\n")


def main():
    runner = unittest.TextTestRunner(resultclass=_Recorder, verbosity=2)
    result = unittest.main(module="__main__", testRunner=runner, exit=False).result
    if path := os.environ.get("XML_OUTPUT_FILE"):
        _write_xml(path, result.cases)
    sys.exit(0 if result.wasSuccessful() else 1)
