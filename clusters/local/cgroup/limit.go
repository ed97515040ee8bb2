package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

// period is the period of a CPU quota: the kernel's default, and Kubernetes'.
const period = 100 * time.Millisecond

// limitFile is the file that a usable controller must have.
func limitFile(v2 bool, c Controller) string {
	switch {
	case c == CPU && v2:
		return "cpu.max"
	case c == CPU:
		return "cpu.cfs_quota_us"
	case v2:
		return "memory.high"
	}
	return "memory.limit_in_bytes"
}

// SetQuota limits the CPU time of a group and its subgroups, in percent of one processor; 0
// removes the limit.
func (t *Tree) SetQuota(dir string, percent float64) error {
	quota, none := int64(percent/100*float64(period.Microseconds())), "-1"
	if t.V2 {
		none = "max"
	}
	text := strconv.FormatInt(quota, 10)
	if percent == 0 {
		text = none
	}
	period := strconv.FormatInt(period.Microseconds(), 10)
	if t.V2 {
		return write(filepath.Join(dir, "cpu.max"), text+" "+period)
	}
	if err := write(filepath.Join(dir, "cpu.cfs_period_us"), period); err != nil {
		return err
	}
	return write(filepath.Join(dir, "cpu.cfs_quota_us"), text)
}

// SetMemory limits the memory that is charged to a group, in bytes; 0 removes a limit. Above
// the hard limit the kernel kills processes; above the soft one, which version 1 does not have,
// it slows them down.
func (t *Tree) SetMemory(dir string, soft, hard int64) error {
	text := func(n int64, none string) string {
		if n == 0 {
			return none
		}
		return strconv.FormatInt(n, 10)
	}
	if !t.V2 {
		return write(filepath.Join(dir, "memory.limit_in_bytes"), text(hard, "-1"))
	}
	if err := write(filepath.Join(dir, "memory.high"), text(soft, "max")); err != nil {
		return err
	}
	return write(filepath.Join(dir, "memory.max"), text(hard, "max"))
}

// Usage returns the counters of a group since its creation, and its limits, 0 for none. ThrottledFor
// is the sum over its threads.
func (t *Tree) Usage(dir string) (u framework.LimitReading, err error) {
	r := reader{dir: dir}
	if t.Has(CPU) {
		stat := r.pairs("cpu.stat")
		u.Periods, u.Throttled = stat["nr_periods"], stat["nr_throttled"]
		u.ThrottledFor = time.Duration(stat["throttled_time"])
		quota, period := "", ""
		if t.V2 {
			u.ThrottledFor = time.Duration(stat["throttled_usec"]) * time.Microsecond
			quota, period, _ = strings.Cut(r.text("cpu.max"), " ")
		} else {
			quota, period = r.text("cpu.cfs_quota_us"), r.text("cpu.cfs_period_us")
		}
		if q, p := r.number(quota), r.number(period); q > 0 && p > 0 {
			u.CPU = 100 * float64(q) / float64(p)
		}
	}
	if t.Has(Memory) && t.V2 {
		events := r.pairs("memory.events")
		u.MemoryHits, u.OOMKills = events["high"]+events["max"], events["oom_kill"]
		u.MemoryUsed = r.number(r.text("memory.current"))
		soft, hard := r.number(r.text("memory.high")), r.number(r.text("memory.max"))
		if u.Memory = soft; soft == 0 || hard > 0 && hard < soft {
			u.Memory = hard
		}
	} else if t.Has(Memory) {
		u.MemoryHits = uint64(r.number(r.text("memory.failcnt")))
		u.OOMKills = r.pairs("memory.oom_control")["oom_kill"]
		u.MemoryUsed = r.number(r.text("memory.usage_in_bytes"))
		// The highest number of whole pages means no limit.
		if u.Memory = r.number(r.text("memory.limit_in_bytes")); u.Memory > 1<<60 {
			u.Memory = 0
		}
	}
	return u, r.err
}

// reader reads files of a group and keeps the first error.
type reader struct {
	dir string
	err error
}

func (r *reader) text(file string) string {
	b, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil && r.err == nil {
		r.err = err
	}
	return strings.TrimSpace(string(b))
}

// number reads one; "max" and negative ones mean no limit, which is 0.
func (r *reader) number(text string) int64 {
	if text == "max" || text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("a control group in %s has %q: %w", r.dir, text, err)
	}
	return max(n, 0)
}

// pairs reads a file of names and numbers.
func (r *reader) pairs(file string) map[string]uint64 {
	all := map[string]uint64{}
	for line := range strings.Lines(r.text(file)) {
		if f := strings.Fields(line); len(f) == 2 {
			all[f[0]] = uint64(r.number(f[1]))
		}
	}
	return all
}
