package clock

import (
	"testing"
	"time"
)

func BenchmarkApply(b *testing.B) {
	p := run(b, 2, plainly)
	for b.Loop() {
		apply(b, p.pid, Shift{Offset: time.Hour})
		apply(b, p.pid, Shift{})
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(2*b.N), "µs/change")
}

// BenchmarkNow compares the cost of time.Now in a program with the real clock
// and a shifted one.
func BenchmarkNow(b *testing.B) {
	p := run(b, 0, plainly)
	cost := func() float64 {
		var now told
		if _, err := p.in.Write([]byte(askCost + "\n")); err != nil {
			b.Fatal(err)
		}
		if err := p.out.Decode(&now); err != nil {
			b.Fatal(err)
		}
		return now.Cost
	}
	var plain, shifted float64
	n := 0.0
	for b.Loop() {
		plain += cost()
		apply(b, p.pid, Shift{Offset: time.Hour})
		shifted += cost()
		apply(b, p.pid, Shift{})
		n++
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(plain/n, "ns/plain")
	b.ReportMetric(shifted/n, "ns/shifted")
	b.ReportMetric(shifted/plain, "ratio")
}
