"""Runs the calling script's unittest cases as a suite outside Bazel: tests/README.md tells the contract.

    if __name__ == "__main__":
        suite.main()

Cases find what the suite was given in suite.options.
"""
import argparse
import os
import signal
import sys
import unittest

options = argparse.Namespace(headway=None, model=None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headway", required=True, help="the binary")
    parser.add_argument("--model", help="the model file; without it, cases that need one are skipped")
    parser.parse_args(namespace=options)
    options.headway = os.path.abspath(options.headway)

    # Under a shell's "&" ctrl-C is ignored, and so it would be in what the cases start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cases = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(cases)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = max(0, result.testsRun - failed - skipped)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed else 0)


def needs_model(case):
    """Marks a case that is skipped where the model is missing."""
    def wrapped(self):
        if not options.model:
            self.skipTest("the model is missing: run deploy/fetch-model")
        case(self)
    wrapped.__name__ = case.__name__
    return wrapped
