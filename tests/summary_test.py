import contextlib
import io
import json
import os
import tempfile
import unittest

from tests import summary

GTEST_XML = """<?xml version="1.0"?><testsuites><testsuite name="PoolTest">
<testcase name="Takes" classname="PoolTest" status="run" result="completed"/>
<testcase name="Gives" classname="PoolTest" status="run" result="completed"><failure message="no"/></testcase>
<testcase name="OnGpu" classname="PoolTest" status="run" result="skipped"><skipped message="pool_test.cc:7&#x0A;no GPU"/></testcase>
<testcase name="DISABLED_Old" classname="PoolTest" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""


class SummaryTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def result(self, label, status, xml=None):
        outputs = [{"name": "test.log", "uri": "file:///nowhere"}]
        if xml is not None:
            outputs.append({"name": "test.xml", "uri": "file://" + self.write("a%20b.xml".replace("%20", " "), xml).replace(" ", "%20")})
        return {"id": {"testResult": {"label": label}}, "testResult": {"status": status, "testActionOutput": outputs}}

    def run_main(self, events, *arguments):
        path = self.write("events.json", "\n".join(e if isinstance(e, str) else json.dumps(e) for e in events))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = summary.main(["--events", path, *arguments])
        return code, out.getvalue().rstrip("\n").split("\n")

    def test_counts_cases_and_names_what_failed_or_was_skipped(self):
        code, lines = self.run_main([self.result("//kv:pool_test", "FAILED", GTEST_XML)])
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 2 skipped")
        self.assertIn("  //kv:pool_test PoolTest.Gives", lines)
        self.assertIn("  //kv:pool_test PoolTest.OnGpu: no GPU", lines)

    def test_a_target_without_cases_counts_as_one(self):
        code, lines = self.run_main([self.result("//a:a", "PASSED"), self.result("//a:b", "PASSED", "<testsuites/>")])
        self.assertEqual((code, lines), (0, ["2 passed, 0 failed"]))

    def test_a_crash_counts_although_its_cases_passed(self):
        passed = GTEST_XML.replace('<failure message="no"/>', "")
        code, lines = self.run_main([self.result("//a:a", "TIMEOUT", passed)])
        self.assertEqual(code, 1)
        self.assertIn("  //a:a: TIMEOUT", lines)

    def test_a_target_that_did_not_build_counts_as_failed(self):
        code, lines = self.run_main([
            {"id": {"targetCompleted": {"label": "//a:broken"}}, "completed": {}},
            {"id": {"targetCompleted": {"label": "//a:fine"}}, "completed": {"success": True}},
            {"id": {"targetCompleted": {"label": "//a:gpu"}}, "aborted": {"reason": "SKIPPED"}},
            {"id": {"targetCompleted": {"label": "//a:lost"}}, "aborted": {"reason": "ANALYSIS_FAILURE"}},
        ])
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "0 passed, 2 failed, 1 skipped")

    def test_adds_suites_outside_bazel(self):
        good = self.write("cluster.log", "hello\n3 passed, 0 failed, 2 skipped\n\n")
        bad = self.write("python_client.log", "1 passed, 1 failed\n")
        code, lines = self.run_main([self.result("//a:a", "PASSED")], good, bad)
        self.assertEqual((code, lines[-1]), (1, "5 passed, 1 failed, 2 skipped"))

    def test_a_suite_that_ends_without_its_line_failed(self):
        log = self.write("cluster.log", "3 passed, 0 failed\nSegmentation fault\n")
        code, lines = self.run_main([self.result("//a:a", "PASSED")], log)
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))

    def test_a_failed_run_is_never_all_passed(self):
        code, lines = self.run_main([self.result("//a:a", "PASSED"), '{"cut off'], "--failed")
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed"))

    def test_nothing_at_all_is_a_failure(self):
        self.assertEqual(self.run_main([])[0], 1)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(summary.main(["--events", "/nonexistent"]), 1)
        self.assertTrue(out.getvalue().endswith("0 passed, 1 failed\n"))


if __name__ == "__main__":
    from tests import xml_main
    xml_main.main()
