package readiness

import (
	"fmt"
	"strings"
	"testing"
)

func TestListed(t *testing.T) {
	item := func(name, status, message string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"conditions":[{"type":"Ready","status":%q,"reason":"R","message":%q}]}}`, name, status, message)
	}
	for _, test := range []struct{ items, says string }{
		{item("a", "True", "") + "," + item("b", "True", ""), ""},
		{item("a", "True", ""), "node b has not registered"},
		{item("a", "False", "cni plugin not initialized") + "," + item("b", "True", ""), "node a is not ready: R: cni plugin not initialized"},
		{`{"metadata":{"name":"a"}},` + item("b", "True", ""), "node a is not ready: its kubelet has reported nothing yet"},
	} {
		err := Listed([]byte(`{"items":[`+test.items+`]}`), []string{"a", "b"})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v, want %q", err, test.says)
		}
	}
}

func TestEveryNode(t *testing.T) {
	node := func(status string) string {
		return `{"metadata":{"name":"w"},"status":{"conditions":[{"type":"Ready","status":"` + status + `"}]}}`
	}
	for body, ready := range map[string]bool{
		`{"items":[]}`:                     true,
		`{"items":[` + node("True") + `]}`: true,
		`{"items":[` + node("True") + `,` + node("Unknown") + `]}`: false,
		`{"items":[{"metadata":{"name":"w"}}]}`:                    false,
		`nothing`:                                                  false,
	} {
		if err := Listed([]byte(body), nil); (err == nil) != ready {
			t.Errorf("%s: %v, want ready = %v", body, err, ready)
		}
	}
}
