package observe

import (
	"os"
	"strconv"
	"strings"
)

// idling is where /proc/stat has the time in which a CPU had nothing to do: as
// such, and while only disks were waited for.
var idling = [2]int{3, 4}

// processors reports how much of the machine's computing time is used.
type processors struct{ busy, all uint64 }

// share returns the part that was used since the last call, from 0 to 1, including other guests
// of the same host if the kernel knows of them. ok is false the first time and if it is not
// known.
func (p *processors) share() (busy float64, ok bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	before := *p
	if !p.parse(string(b)) || before.all == 0 || p.all <= before.all {
		return 0, false
	}
	return float64(p.busy-before.busy) / float64(p.all-before.all), true
}

// parse reads the first line of /proc/stat: user, nice, system, idle, iowait, irq,
// softirq and steal (proc_stat(5)). What guests use is in user and nice as well.
func (p *processors) parse(stat string) bool {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return false
	}
	*p = processors{}
	for i, field := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return false
		}
		p.all += n
		if i != idling[0] && i != idling[1] {
			p.busy += n
		}
	}
	return true
}
