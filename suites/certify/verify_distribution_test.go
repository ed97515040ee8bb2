package certify

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// found makes a record in which a node was found by a distribution profile.
func found(d record.Distribution) func(*record.Meta) {
	return func(m *record.Meta) { m.Nodes[1].Distribution = &d }
}

// The distribution profile of an existing cluster is in its bundle; records without one, such as of
// nodes that were not inspected, do not differ from it.
func TestVerifyDistribution(t *testing.T) {
	c := newCertification(t, "HA-QR-005")
	for _, s := range c.plan.Scenarios[1:] {
		c.record(t, s, s.Metadata.Name, found(record.Distribution{Name: "kubeadm", Digest: sum}))
	}
	c.plan.Ended = time.Now()
	if err := c.plan.Save(c.dir); err != nil {
		t.Fatal(err)
	}
	key := testKey(t)
	file := c.bundle(t, key)
	if v, err := Verify(file, key, nil); err != nil || !v.Holds() {
		t.Errorf("%+v, %v", v, err)
	}
	seen := searched(t, file, "nothing such")["record/"+c.plan.Scenarios[1].Metadata.Name+"/record.jsonl.zst"]
	if want := `"distribution":{"name":"kubeadm","digest":"` + sum + `"}`; !strings.Contains(seen, want) {
		t.Errorf("the record lacks %s", want)
	}
}
