package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// evidenceLimit keeps a result short enough to be read.
const evidenceLimit = 10

func passed(format string, args ...any) finding {
	return finding{verdict: Pass, sentence: fmt.Sprintf(format, args...)}
}

func failed(format string, args ...any) finding {
	return finding{verdict: Fail, sentence: fmt.Sprintf(format, args...)}
}

func inconclusive(format string, args ...any) finding {
	return finding{verdict: Inconclusive, sentence: fmt.Sprintf(format, args...)}
}

func notApplicable(format string, args ...any) finding {
	return finding{verdict: NotApplicable, sentence: fmt.Sprintf(format, args...)}
}

// took adds a measured duration.
func (f finding) took(d time.Duration) finding {
	f.measured, f.value = short(d), &d
	return f
}

// counted adds a measured number.
func (f finding) counted(format string, args ...any) finding {
	f.measured = fmt.Sprintf(format, args...)
	return f
}

// rests marks a failure as resting on times measured between from and to.
func (f finding) rests(from, to record.Nanos) finding {
	f.timed, f.from, f.to = true, from, to
	return f
}

// missedBy returns by how much a measured time is longer than the bound; 0 where it is
// not, or where no time was measured.
func (f finding) missedBy(bound *Bound) time.Duration {
	if f.value == nil || bound == nil {
		return 0
	}
	return max(0, *f.value-bound.Limit)
}

// lasted returns as much of a measured time as a failure rests on.
func (f finding) lasted() time.Duration { return min(*f.value, span(f.from, f.to)) }

func (f finding) shows(evidence ...string) finding {
	for _, e := range evidence {
		if len(f.evidence) == evidenceLimit {
			f.evidence = append(f.evidence, "…")
		}
		if len(f.evidence) > evidenceLimit {
			break
		}
		f.evidence = append(f.evidence, e)
	}
	return f
}

// exhibits adds what a report draws of it.
func (f finding) exhibits(e *Exhibit) finding {
	f.exhibit = e
	return f
}
