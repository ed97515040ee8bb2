package fault

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request that fails may have been carried out. Where it cannot be undone at
// once and the provider does not do it either, it goes on being tried.
func TestFailedRequestIsUndoneLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, undone := true, 0
		a := attempt{
			what: "breaking", ttl: time.Minute,
			ask: func(context.Context) error { return errors.New("no answer") },
			undo: func(context.Context) error {
				if undone++; undone < 4 {
					return errors.New("no quorum")
				}
				broken = false
				return nil
			},
		}
		if i, err := a.injection(t.Context()); i != nil || err == nil {
			t.Fatalf("%v, %v", i, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if broken || undone != 4 {
			t.Errorf("undone %d times, broken %v", undone, broken)
		}
	})
}

// Its time may be over before the fault is in force.
func TestTimeOverAtOnce(t *testing.T) {
	broken := false
	done := make(chan struct{})
	i, err := attempt{
		what: "breaking", ttl: time.Nanosecond,
		ask:    func(context.Context) error { broken = true; return nil },
		effect: func(context.Context) (bool, string) { return true, "" },
		undo:   func(context.Context) error { broken = false; close(done); return nil },
		healed: func(context.Context) (bool, string) { return true, "" },
	}.inject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-done
	if healed, err := i.Heal(t.Context()); err != nil || !healed.Proven || broken {
		t.Errorf("%+v, %v, broken %v", healed, err, broken)
	}
}
