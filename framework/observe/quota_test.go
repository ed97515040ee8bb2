package observe

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestStatFiles(t *testing.T) {
	for _, tc := range []struct {
		groups string
		want   []string
	}{
		{"0::/\n", []string{"/sys/fs/cgroup/cpu.stat"}},
		{"0::/a/b\n", []string{"/sys/fs/cgroup/a/b/cpu.stat", "/sys/fs/cgroup/a/cpu.stat", "/sys/fs/cgroup/cpu.stat"}},
		{"5:cpuset:/x\n4:cpu,cpuacct:/a\n3:memory:/y\n", []string{"/sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cpu.stat"}},
		{"0::/../a\n", []string{"/sys/fs/cgroup/a/cpu.stat", "/sys/fs/cgroup/cpu.stat"}},
		{"", nil},
		{"broken\n", nil},
	} {
		if got := statFiles(tc.groups); !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.groups, got, tc.want)
		}
	}
}

func TestQuotas(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q := quotas{a: {all: 100, throttled: 10}, b: {}}
	write(a, "usage_usec 1\nnr_periods 110\nnr_throttled 18\nthrottled_usec 700\n")
	write(b, "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
	if got := q.share(); got != 0.8 {
		t.Errorf("8 of 10 periods: %g", got)
	}
	if got := q.share(); got != 0 {
		t.Errorf("no period since: %g", got)
	}
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	write(b, "nr_periods 10\nnr_throttled 5\n")
	if got := q.share(); got != 0.5 {
		t.Errorf("5 of 10 periods, another group is gone: %g", got)
	}
	if _, ok := parseQuota([]byte("usage_usec 1\n")); ok {
		t.Error("a group without a quota has one")
	}
}
