"""The report of a system, and the questions that other projects' reports ask by name."""

from __future__ import annotations

from flambeau.utils import collect_env


def test_commands_are_run_and_read() -> None:
    run = collect_env.run
    assert run("echo hi; echo no >&2; exit 3") == (3, "hi", "no")
    assert run(["echo", "a b"]) == (0, "a b", "")
    assert run(["no-such-program"])[0] == 127
    assert collect_env.run_and_read_all(run, "exit 1") is None
    assert collect_env.run_and_parse_first_match(run, "echo version 4.2", r"version (.*)") == "4.2"
    assert collect_env.run_and_return_first_line(run, "echo a; echo b") == "a"


def test_the_report_names_the_system() -> None:
    answers = {"gcc --version": (0, "gcc (Debian) 12", ""), "lscpu": (0, "Model: x", "")}
    asked = lambda command: answers.get(command, (127, "", ""))
    assert collect_env.get_gcc_version(asked) == "(Debian) 12"
    assert collect_env.get_nvidia_driver_version(asked) is None and collect_env.get_gpu_info(asked) is None
    found = collect_env.SystemEnv(*["x"] * 18, None)
    assert "cpu info: Could not collect" in collect_env.pretty_str(found)
