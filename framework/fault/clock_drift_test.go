package fault

import (
	"strings"
	"testing"
)

func TestClockDrift(t *testing.T) {
	t.Parallel()
	testClockFault(t, ClockDrift, nil)
	for _, rate := range []string{"1ppm", "-500ppm", "0.1%", "50%", "-50%"} {
		testMoves(t, ClockDrift, map[string]string{"rate": rate})
	}
	inBubble(t, "dates that do not move are no proof of what they would show", func(t *testing.T, c *fakeCluster) {
		c.nodes[2].trust.lies = true
		i, err := ClockDrift.Inject(t.Context(), c, wholeTarget("node-3"), Params{TTL: ttl, Values: map[string]string{"rate": "20%"}})
		if err != nil || i.Proof().Proven {
			t.Fatalf("%+v, %v", i.Proof(), err)
		}
	})
	inBubble(t, "rates", func(t *testing.T, c *fakeCluster) {
		for _, bad := range []string{"1000", "0ppm", "0.5ppm", "500001ppm", "-51%", "NaN%", "Infppm", "fast"} {
			err := ClockDrift.Check(c, wholeTarget("node-3"), Params{TTL: ttl, Values: map[string]string{"rate": bad}})
			if err == nil || !strings.Contains(err.Error(), `fault clock-drift: parameter rate="`+bad+`"`) {
				t.Errorf("%s: %v", bad, err)
			}
		}
	})
}
