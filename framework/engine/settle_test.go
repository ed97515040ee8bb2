package engine

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/observe"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/record/recordtest"
	"github.com/holdfast-ha/holdfast/framework/workload/apitest"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// brisk has short times, and only stand-ins for API servers.
type brisk struct {
	framework.Cluster
	api *apitest.Cluster
}

func newBrisk(t *testing.T) brisk {
	api := apitest.NewInMemory(t, 3)
	c := &fakeCluster{Cluster: api}
	for i, n := range api.Nodes() {
		c.nodes = append(c.nodes, &fakeNode{Node: talker{Node: n, address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}, pid: 100})
	}
	return brisk{c, api}
}

func (brisk) Settings() framework.Settings {
	return framework.Settings{ElectionTimeout: 100 * time.Millisecond, Margin: time.Second, LeaseDuration: time.Second,
		RetryPeriod: 500 * time.Millisecond, EndpointTTL: time.Second, EndpointInterval: time.Second}
}

func (c brisk) list(addresses ...string) {
	var in, out []string
	for _, a := range addresses {
		in = append(in, fmt.Sprintf(`{"ip":%q}`, a))
		out = append(out, fmt.Sprintf(`{"addresses":[%q]}`, a))
	}
	c.api.Set("/api/v1/namespaces/default/endpoints/kubernetes",
		fmt.Sprintf(`{"metadata":{"name":"kubernetes"},"subsets":[{"addresses":[%s]}]}`, strings.Join(in, ",")))
	c.api.Set("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
		fmt.Sprintf(`{"metadata":{"name":"kubernetes"},"endpoints":[%s]}`, strings.Join(out, ",")))
}

func (c brisk) renew(holder string) {
	c.api.Set(leasePath+"kube-scheduler", fmt.Sprintf(`{"kind":"Lease","metadata":{"name":"kube-scheduler"},"spec":{"holderIdentity":%q,"renewTime":%q}}`,
		holder, time.Now().UTC().Format(time.RFC3339Nano)))
}

func TestSettle(t *testing.T) {
	const (
		lease    = "lease of kube-scheduler"
		live     = record.PartListed
		dead     = record.PartUnlisted
		requests = record.PartRequests
	)
	for _, tc := range []struct {
		name          string
		holder        string // of the lease after the healing; empty for none
		missing, dead bool   // an address, after the healing
		again         bool   // all is well after a second
		cut           bool   // the next fault comes immediately
		unlisted      bool   // the addresses never were as they should be
		served        bool   // all API servers served requests before
		refuses       string // of one API server, after the healing
		want          []string
	}{
		{name: "healthy", holder: "node-1_a", want: []string{dead + " true", lease + " true", live + " true"}},
		{name: "taken over", holder: "node-2_b", want: []string{dead + " true", lease + " true", live + " true"}},
		{name: "healthy in a while", missing: true, dead: true, again: true, want: []string{dead + " true", lease + " true", live + " true"}},
		{name: "nobody renews", want: []string{dead + " true", lease + " false node-1_a holds it and does not renew it", live + " true"}},
		{name: "a stranger renews", holder: "stranger_c", want: []string{dead + " true", lease + " false it is held by stranger_c, which does not run on a node of the cluster", live + " true"}},
		{name: "no address", holder: "node-2_b", missing: true, want: []string{dead + " true", lease + " true", live + " false through node-"}},
		{name: "a dead address", holder: "node-2_b", dead: true, want: []string{dead + " false through node-", lease + " true", live + " true"}},
		{name: "unlisted", holder: "node-2_b", unlisted: true, want: []string{lease + " true"}},
		{name: "serves", holder: "node-2_b", served: true, want: []string{dead + " true", lease + " true", live + " true", requests + " true"}},
		{name: "refuses writes", holder: "node-2_b", served: true, refuses: http.MethodPatch,
			want: []string{dead + " true", lease + " true", live + " true", requests + " false through node-2: a write was not acknowledged: "}},
		{name: "opens no watch", holder: "node-2_b", served: true, refuses: "watch",
			want: []string{dead + " true", lease + " true", live + " true", requests + " false through node-2: a watch was not opened: "}},
		{name: "cut short", missing: true, dead: true, cut: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newBrisk(t)
				var addresses []string
				for _, n := range c.Nodes() {
					addresses = append(addresses, n.Address().String())
				}
				w, read := recordtest.New(t)
				r := &run{cluster: c, w: w, apis: map[string]*client.API{}}
				defer r.close()
				if !tc.unlisted {
					c.list(addresses...)
				}
				if tc.served {
					c.api.Set(written+"/holdfast-writable", `{"metadata":{"name":"holdfast-writable"}}`)
				}
				c.renew("node-1_a")
				var err error
				if r.observers, err = observe.Start(t.Context(), observe.Config{Cluster: c, ProbeInterval: time.Second, LeaseInterval: 200 * time.Millisecond}, w); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					time.Sleep(300 * time.Millisecond)
					c.renew("node-1_a")
				}
				r.disturb(t.Context())

				after := addresses
				if tc.missing {
					after = addresses[1:]
				}
				if tc.dead {
					after = append(slices.Clone(after), "10.9.9.9")
				}
				if !tc.unlisted {
					c.list(after...)
				}
				if tc.refuses != "" {
					c.api.Server(1).Hook(func(w http.ResponseWriter, q *http.Request) bool {
						if refused := q.Method == tc.refuses || q.URL.Query().Has(tc.refuses) && q.URL.Path == written; !refused {
							return false
						}
						w.WriteHeader(http.StatusTooManyRequests)
						return true
					})
				}
				healed := time.Now()
				r.recovery.from = healed
				r.settle(t.Context(), healed, 500*time.Millisecond)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if tc.cut {
						r.disturb(t.Context())
						return
					}
					r.settled()
				}()
				for holder := tc.holder; ; time.Sleep(100 * time.Millisecond) {
					if tc.again && holder == "" && time.Since(healed) > time.Second {
						holder = "node-3_c"
						c.list(addresses...)
					}
					if holder != "" {
						c.renew(holder)
					}
					select {
					case <-done:
					default:
						continue
					}
					break
				}
				r.observers.Stop()
				var got []string
				for _, s := range read().Steadies {
					got = append(got, strings.TrimSpace(fmt.Sprintf("%s %t %s", s.V.Part, s.V.OK, strings.Join(s.V.Problems, "; "))))
					if s.V.Phase != record.SteadyPart || s.V.Limit < 2500*time.Millisecond || tc.again && s.V.Took < time.Second || !s.V.OK && s.V.Took < s.V.Limit {
						t.Errorf("%+v", s.V)
					}
				}
				slices.Sort(got)
				if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			})
		})
	}
}
