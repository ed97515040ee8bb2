package observe

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// quotas reports how often a CPU quota stopped the processes of the harness's control groups, as in
// a container with a CPU limit: neither the machine's load nor its run queue shows that. The kernel
// counts the periods of each group with a quota, and those at whose end it had used it up
// (Documentation/admin-guide/cgroup-v2.rst, cpu.stat; in version 1 the fields are the same).
type quotas map[string]quotaPeriods // by file

type quotaPeriods struct{ all, throttled uint64 }

// newQuotas finds the groups of this process, up to the topmost one that can be seen.
func newQuotas() quotas {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	q := quotas{}
	for _, file := range statFiles(string(groups)) {
		if p, ok := readQuota(file); ok {
			q[file] = p
		}
	}
	return q
}

// share returns the part of the periods since the last call in which the quota was used up, from 0
// to 1, in the group in which it is the largest.
func (q quotas) share() (largest float64) {
	for file, old := range q {
		now, ok := readQuota(file)
		if !ok {
			continue
		}
		q[file] = now
		if all := now.all - old.all; now.all > old.all {
			largest = max(largest, float64(now.throttled-old.throttled)/float64(all))
		}
	}
	return largest
}

// statFiles returns where the groups in /proc/PID/cgroup, and those above, have their cpu.stat. In a
// container the paths may be those of the machine, of which only the topmost exists.
func statFiles(groups string) (files []string) {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		controllers := fields[1]
		if fields[0] != "0" && !strings.Contains(","+controllers+",", ",cpu,") {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			files = append(files, filepath.Join("/sys/fs/cgroup", controllers, group, "cpu.stat"))
			if group == "/" {
				break
			}
		}
	}
	return files
}

func readQuota(file string) (quotaPeriods, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return quotaPeriods{}, false
	}
	return parseQuota(b)
}

// parseQuota reads cpu.stat. ok is false for a group that cannot have a quota.
func parseQuota(stat []byte) (p quotaPeriods, ok bool) {
	for lines := bufio.NewScanner(bytes.NewReader(stat)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err != nil:
		case name == "nr_periods":
			p.all, ok = n, true
		case name == "nr_throttled":
			p.throttled = n
		}
	}
	return p, ok
}
