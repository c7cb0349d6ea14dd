#!/usr/bin/env python3
"""Runs test programs, single checks and pytest, side by side, each with a time limit; prints what fails.

    run_tests.py [--timeout S] [--jobs N] [--check NAME COMMAND]... [--pytest PYTHON DIR] PROGRAM...

PROGRAM  a cmocka program: its own lines are counted test by test.
--check  a shell command: exit 0 passes, 77 skips (its last line says why), anything else fails.
--pytest a folder of Python tests and the interpreter that has pytest.

The last line is 'N passed, N failed, N skipped'; the exit status is 0 when nothing failed.
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from dataclasses import dataclass, field

SKIP = 77
RUNNING = set()  # process groups to end when the runner is interrupted


@dataclass
class Result:
    name: str
    passed: int = 0
    failed: int = 0
    skipped: list = field(default_factory=list)  # what was skipped, as text
    seconds: float = 0.0
    output: str = ""


def run(command, timeout, shell=False):
    """(exit status, or text about why there is none; output). The whole process group ends at the limit."""
    try:
        process = subprocess.Popen(
            command, shell=shell, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"could not be started: {error}", ""
    RUNNING.add(process.pid)
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = f"ran longer than {timeout:g} s"
    RUNNING.discard(process.pid)
    return status, output.decode(errors="replace")


def ending(status):
    if isinstance(status, str):
        return status
    return f"ended by signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def run_program(path, timeout):
    status, output = run([path], timeout)
    result = Result(path, output=output)
    result.passed = len(re.findall(r"^\[       OK \]", output, re.M))
    # cmocka names a failed or skipped test where it happens and again in its summary
    failed = set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M))
    result.skipped = sorted(set(re.findall(r"^\[  SKIPPED \] (\D.*)$", output, re.M)))
    result.failed = len(failed)
    if status != 0 and not failed:
        result.failed = 1
        result.output += f"\n{path}: {ending(status)}"
    elif status == 0 and result.passed == 0 and not result.skipped and not failed:
        result.failed = 1
        result.output += f"\n{path}: ran no test"
    return result


def run_check(name, command, timeout):
    status, output = run(command, timeout, shell=True)
    result = Result(name, output=output)
    if status == 0:
        result.passed = 1
    elif status == SKIP:
        result.skipped = [output.strip().splitlines()[-1] if output.strip() else "no reason given"]
    else:
        result.failed = 1
        result.output += f"\n{name}: {ending(status)}"
    return result


def run_pytest(python, folder, timeout):
    result = Result(f"pytest {folder}")
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--durations=5"]
        status, result.output = run([*command, f"--junitxml={report.name}", folder], timeout)
        try:
            cases = list(xml.etree.ElementTree.parse(report.name).iter("testcase"))
        except xml.etree.ElementTree.ParseError:
            cases = []
    for case in cases:
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed += 1
        elif skip is not None:
            result.skipped.append(f"{case.get('name')}: {skip.get('message')}")
        else:
            result.passed += 1
    if status != 0 and not result.failed:
        result.failed = 1
        result.output += f"\npytest: {ending(status)}"
    return result


def timed(function, *arguments):
    start = time.monotonic()
    result = function(*arguments)
    result.seconds = time.monotonic() - start
    return result


def show(result, verbose):
    word = "FAIL" if result.failed else "ok" if result.passed else "skip"
    counts = f"{result.passed} passed"
    counts += f", {result.failed} failed" if result.failed else ""
    counts += f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{word:4} {result.seconds:7.2f} s  {result.name}: {counts}", flush=True)
    if result.failed or verbose:
        print("     | " + result.output.strip().replace("\n", "\n     | "), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a program or check (default 900)")
    parser.add_argument("--pytest-timeout", type=float, default=2400, help="seconds for all of pytest (default 2400)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--check", nargs=2, action="append", default=[], metavar=("NAME", "COMMAND"))
    parser.add_argument("--pytest", nargs=2, metavar=("PYTHON", "DIR"))
    parser.add_argument("--verbose", action="store_true", help="output of tests that pass, too")
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()

    start = time.monotonic()
    results = []
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        # pytest first: it takes longest and runs one test at a time
        work = [pool.submit(timed, run_pytest, *options.pytest, options.pytest_timeout)] if options.pytest else []
        work += [pool.submit(timed, run_program, path, options.timeout) for path in options.program]
        work += [pool.submit(timed, run_check, *check, options.timeout) for check in options.check]
        try:
            for done in concurrent.futures.as_completed(work):
                results.append(done.result())
                show(results[-1], options.verbose)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(RUNNING):
                os.killpg(group, signal.SIGKILL)
            sys.exit(130)

    skipped = [(result.name, reason) for result in results for reason in result.skipped]
    failed = [result for result in results if result.failed]
    if skipped:
        print("\nskipped:")
        for name, reason in skipped:
            print(f"  {name}: {reason}")
    if failed:
        print("\nfailed:")
        for result in failed:
            print(f"  {result.name}")
    passed = sum(result.passed for result in results)
    n_failed = sum(result.failed for result in results)
    print(f"\ntime: {time.monotonic() - start:.0f} s")
    print(f"{passed} passed, {n_failed} failed, {len(skipped)} skipped")
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
