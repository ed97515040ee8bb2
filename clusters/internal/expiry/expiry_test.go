package expiry_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/clusters/internal/expiry"
)

// owner has faults that take a number of attempts to end.
type owner struct {
	sync.Mutex
	timers expiry.Timers[string]
	ended  []string
	fails  int // attempts that fail from now on
}

func (o *owner) start(key, says string, left time.Duration) {
	o.Lock()
	defer o.Unlock()
	o.timers.Start(o, key, left, func() error {
		if o.fails > 0 {
			o.fails--
			return errors.New("the disk is full")
		}
		o.ended = append(o.ended, says)
		return nil
	})
}

func (o *owner) wait(d time.Duration) (ended []string, active int) {
	time.Sleep(d)
	synctest.Wait()
	o.Lock()
	defer o.Unlock()
	return o.ended, o.timers.Len()
}

func TestEndsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		o.start("cut", "cut", time.Minute)
		if ended, active := o.wait(59 * time.Second); len(ended) != 0 || active != 1 {
			t.Errorf("before its time %v ended, %d active", ended, active)
		}
		if ended, active := o.wait(time.Second); len(ended) != 1 || active != 0 {
			t.Errorf("after its time %v ended, %d active", ended, active)
		}
	})
}

func TestTriesUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		o.fails = 3
		o.start("wipe", "wipe", 0)
		if ended, active := o.wait(3*expiry.Pause - 1); len(ended) != 0 || active != 1 {
			t.Errorf("while attempts fail %v ended, %d active", ended, active)
		}
		if ended, active := o.wait(1); len(ended) != 1 || active != 0 {
			t.Errorf("after the fourth attempt %v ended, %d active", ended, active)
		}
	})
}

func TestStoppedOrReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		o.start("hold", "first", time.Second)
		o.start("hold", "second", time.Minute)
		o.start("freeze", "freeze", time.Second)
		o.Lock()
		o.timers.Stop("freeze")
		o.timers.Stop("never started")
		o.Unlock()
		if ended, _ := o.wait(time.Hour); len(ended) != 1 || ended[0] != "second" {
			t.Errorf("ended %v, want the second hold alone", ended)
		}
		o.start("hold", "third", time.Second)
		o.Lock()
		o.timers.StopAll()
		o.Unlock()
		if ended, active := o.wait(time.Hour); len(ended) != 1 || active != 0 {
			t.Errorf("after StopAll %v ended, %d active", ended, active)
		}
	})
}

// A timer that waits for the lock must not end what has been replaced in that time. Waiting for
// a mutex does not let a bubble's time pass, so this test takes real time.
func TestReplacedWhileItWaitsForTheLock(t *testing.T) {
	o := &owner{}
	o.Lock()
	o.timers.Start(o, "hold", 0, func() error { o.ended = append(o.ended, "first"); return nil })
	time.Sleep(20 * time.Millisecond) // most likely the timer has fired and waits
	o.timers.Start(o, "hold", time.Hour, func() error { o.ended = append(o.ended, "second"); return nil })
	o.Unlock()
	time.Sleep(20 * time.Millisecond)
	o.Lock()
	defer o.Unlock()
	if len(o.ended) != 0 || o.timers.Len() != 1 {
		t.Errorf("%v ended, %d active", o.ended, o.timers.Len())
	}
}

// A slow end may release the lock; a fault stopped in that time is not retried.
func TestStoppedWhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		attempts := 0
		o.Lock()
		o.timers.Start(o, "alarm", time.Second, func() error {
			attempts++
			o.Unlock()
			time.Sleep(time.Minute)
			o.Lock()
			return errors.New("etcd has no leader")
		})
		o.Unlock()
		time.Sleep(10 * time.Second)
		o.Lock()
		o.timers.Stop("alarm")
		o.Unlock()
		if _, active := o.wait(time.Hour); attempts != 1 || active != 0 {
			t.Errorf("%d attempts, %d active", attempts, active)
		}
	})
}

// An attempt that is under way is not started a second time, and one that failed is repeated once.
func TestHurryDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		attempts, under := 0, 0
		o.Lock()
		o.timers.Start(o, "promise", time.Hour, func() error {
			attempts++
			under++
			if under > 1 {
				t.Errorf("%d attempts at the same time", under)
			}
			o.Unlock()
			time.Sleep(time.Minute)
			o.Lock()
			under--
			if attempts == 1 {
				return errors.New("etcd has no leader")
			}
			return nil
		})
		o.Unlock()
		hurry := func() {
			o.Lock()
			defer o.Unlock()
			o.timers.Hurry()
		}
		hurry()
		hurry()
		o.wait(time.Second)
		o.start("cut", "cut", time.Hour)
		for range 3 {
			hurry()
			if ended, active := o.wait(15 * time.Second); len(ended) != 1 || active != 1 || attempts != 1 {
				t.Errorf("during an attempt: %d attempts, %d active, ended %v", attempts, active, ended)
			}
		}
		if o.wait(14*time.Second + expiry.Pause + time.Second); attempts != 2 {
			t.Errorf("after an attempt that failed: %d attempts, want one more", attempts)
		}
		if _, active := o.wait(time.Hour); attempts != 2 || active != 0 {
			t.Errorf("%d attempts, %d active", attempts, active)
		}
	})
}
