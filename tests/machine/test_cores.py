"""How many jobs run at a time in a container: quotas and memory of control groups of both versions."""

from pathlib import Path

import pytest

from weakspots.machine.cores import jobs

GIB = 2**30


def machine(root: Path, cgroup: str, files: dict[str, str], memory: int = 64) -> Path:
    """A machine's /proc and /sys with these files under /sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    (root / "proc/meminfo").write_text(f"MemTotal: {memory * 2**20} kB\nMemFree: 1 kB\n")
    for name, content in files.items():
        (root / "sys/fs/cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "sys/fs/cgroup" / name).write_text(content)
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {}, 16),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 16),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "350000 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "400000 100000\n"}, 4),
        ("0::/a/b\n", {"cpu.max": "300000 100000\n"}, 3),  # the group's folder is mounted as the top
        ("0::/\n", {"memory.max": f"{4 * GIB}\n"}, 2),
        ("0::/\n", {"memory.max": "max\n"}, 16),
        ("0::/\n", {"memory.max": f"{GIB}\n"}, 1),
        (
            "4:cpu,cpuacct:/d\n2:memory:/d\n",
            {"cpu,cpuacct/d/cpu.cfs_quota_us": "300000", "cpu,cpuacct/d/cpu.cfs_period_us": "100000"},
            3,
        ),
        ("4:cpu,cpuacct:/d\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 16),
        ("2:memory:/d\n", {"memory/memory.limit_in_bytes": f"{5 * GIB}"}, 3),
        ("2:memory:/d\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, 16),
    ],
)
def test_no_more_jobs_than_the_container_may_use(tmp_path, cgroup, files, expected):
    assert jobs(machine(tmp_path, cgroup, files), processors=16) == expected


def test_no_more_jobs_than_the_machine_has_memory_for(tmp_path):
    assert jobs(machine(tmp_path, "0::/\n", {}, memory=8), processors=16) == 5


def test_without_control_groups_every_processor_counts(tmp_path):
    assert jobs(tmp_path, processors=7) == 7


def test_here_there_is_room_for_a_job():
    assert jobs() >= 1
