package observe

import "github.com/prometheus/procfs"

// processors reports how much of the machine's computing time is used.
type processors struct{ busy, all float64 } // in seconds, since the machine started

// share returns the part that was used since the last call, from 0 to 1, including other guests
// of the same host if the kernel knows of them. ok is false the first time and if it is not
// known.
func (p *processors) share() (busy float64, ok bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, false
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, false
	}
	return p.next(stat.CPUTotal)
}

func (p *processors) next(c procfs.CPUStat) (busy float64, ok bool) {
	before := *p
	// What guests use is in User and Nice as well.
	p.busy = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	p.all = p.busy + c.Idle + c.Iowait
	if before.all == 0 || p.all <= before.all {
		return 0, false
	}
	return min((p.busy-before.busy)/(p.all-before.all), 1), true // sums are rounded
}
