package benchnetwork

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// arrival is a message that arrived.
type arrival struct{ sent, came time.Duration }

// stream sends small messages at a steady pace, and records their arrival.
type stream struct {
	start time.Time
	done  chan struct{}

	mu   sync.Mutex
	sent []time.Duration
	got  []arrival
}

// newStream sends a message of 8 bytes every pace from one end to the other, until stop is
// called.
func newStream(b *testing.B, connect func(*testing.B) (out, in net.Conn), pace time.Duration) (s *stream, stop func()) {
	b.Helper()
	out, in := connect(b)
	s = &stream{start: time.Now(), done: make(chan struct{})}
	go func() {
		var message [8]byte
		for i := 0; ; i++ {
			select {
			case <-s.done:
				return
			case <-time.After(time.Until(s.start.Add(time.Duration(i) * pace))):
			}
			now := time.Since(s.start)
			s.mu.Lock()
			s.sent = append(s.sent, now)
			s.mu.Unlock()
			binary.LittleEndian.PutUint64(message[:], uint64(now))
			if _, err := out.Write(message[:]); err != nil {
				return
			}
		}
	}()
	go func() {
		var message [8]byte
		for {
			if _, err := io.ReadFull(in, message[:]); err != nil {
				return
			}
			now := time.Since(s.start)
			s.mu.Lock()
			s.got = append(s.got, arrival{time.Duration(binary.LittleEndian.Uint64(message[:])), now})
			s.mu.Unlock()
		}
	}()
	return s, func() {
		close(s.done)
		_, _ = out.Close(), in.Close()
	}
}

func (s *stream) now() time.Duration { return time.Since(s.start) }

// last returns when the last message arrived.
func (s *stream) last() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.got) == 0 {
		return 0
	}
	return s.got[len(s.got)-1].came
}

// heldUp returns when the first message after the last arrived one was sent.
func (s *stream) heldUp() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := time.Duration(-1)
	if len(s.got) > 0 {
		last = s.got[len(s.got)-1].sent
	}
	i, _ := slices.BinarySearch(s.sent, last+1)
	if i == len(s.sent) {
		return 0
	}
	return s.sent[i]
}

// after returns the messages that arrived after a time.
func (s *stream) after(t time.Duration) []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := slices.BinarySearchFunc(s.got, t, func(a arrival, t time.Duration) int { return int(a.came - t) })
	return s.got[i:len(s.got):len(s.got)]
}

// settle waits until n more messages have arrived.
func (s *stream) settle(b *testing.B, n int) {
	b.Helper()
	from := s.now()
	for len(s.after(from)) < n {
		if s.now() > from+time.Duration(n)*10*time.Millisecond+10*time.Second {
			b.Fatal("no message comes through")
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// quantiles returns the median and the 99th percentile.
func quantiles(all []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
