package observe

import "testing"

// A busy machine is seen as such.
func TestRunnable(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	waitFor(t, "the spinning task to be counted", func() bool {
		n, ok := runnable()
		if !ok {
			t.Fatal("/proc/loadavg was not understood")
		}
		return n > 0
	})
	var m mean
	if m.value() != 0 {
		t.Errorf("mean of nothing: %v", m.value())
	}
	m.add(1)
	m.add(2)
	if m.value() != 1.5 {
		t.Errorf("mean %v", m.value())
	}
}
