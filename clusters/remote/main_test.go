package remote

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"
)

// harnessVariable makes the test binary a harness that cuts the power, and does not heal it: its
// value is the guard's order.
const harnessVariable = "HOLDFAST_TEST_POWER_HARNESS"

func TestMain(m *testing.M) {
	Provider{}.Main()
	if order := os.Getenv(harnessVariable); order != "" {
		os.Exit(powerHarness(order))
	}
	os.Exit(m.Run())
}

// powerHarness prints the PID of its guard.
func powerHarness(text string) int {
	var order guardOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return 2
	}
	g, err := startGuard(order.Power, order.TTL)
	if err != nil {
		return 1
	}
	fmt.Println(g.pid)
	time.Sleep(time.Hour)
	return 0
}
