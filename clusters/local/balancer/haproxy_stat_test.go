package balancer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
)

func TestParseStat(t *testing.T) {
	now := time.Unix(1000, 0)
	got, err := parseStat(strings.NewReader(`# pxname,svname,status,lastchg,check_status,last_chk,addr,
apiservers,FRONTEND,OPEN,,,,,
apiservers,node-1,UP,30,L7OK,,10.77.0.11:6443,
apiservers,node-2,DOWN 1/2,4,L4CON,Connection refused,10.77.0.12:6443,
apiservers,node-3,UP 1/3,9,L6TOUT,,10.77.0.13:6443,
apiservers,node-4,no check,30,,,10.77.0.14:6443,
apiservers,BACKEND,UP,30,,,,

`), now)
	if err != nil {
		t.Fatal(err)
	}
	want := []framework.Backend{
		{Name: "node-1", Address: "10.77.0.11:6443", Up: true, Since: now.Add(-30 * time.Second), Check: "L7OK"},
		{Name: "node-2", Address: "10.77.0.12:6443", Since: now.Add(-4 * time.Second), Check: "L4CON Connection refused"},
		{Name: "node-3", Address: "10.77.0.13:6443", Up: true, Since: now.Add(-9 * time.Second), Check: "L6TOUT"},
		{Name: "node-4", Address: "10.77.0.14:6443", Up: true, Since: now.Add(-30 * time.Second)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("backends\n%+v, want\n%+v", got, want)
	}
	for _, text := range []string{"", "Unknown command\n", "# pxname,svname\n"} {
		if _, err := parseStat(strings.NewReader(text), now); err == nil {
			t.Errorf("%q is taken for HAProxy's state", text)
		}
	}
}
