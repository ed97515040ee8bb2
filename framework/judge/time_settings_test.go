package judge

import (
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func TestTimeSettings(t *testing.T) {
	set := func(symbol string, d time.Duration) func() *story {
		return func() *story {
			return newStory().change(func(r *record.Run) { r.Meta.Settings[symbol] = d })
		}
	}
	elections := func(lease time.Duration) *story {
		return newStory().change(func(r *record.Run) {
			r.Meta.Settings["L"] = lease
			r.Meta.Elections = map[string]map[string]time.Duration{
				"kube-scheduler": {"L": lease}, "kube-controller-manager": {"L": 15 * time.Second},
			}
		})
	}
	check := record.Check{Requirement: "HA-TOP-005", Level: "SHOULD", Judge: "time-settings", Params: map[string]string{"E": "5s", "L": "60s", "T": "60s", "H": "15s"}}
	rule(t, check, []ruling{
		{name: "the defaults", story: func() *story { return newStory() }, want: Pass, took: "4 of 4 settings",
			says: "All 4 time settings are within their ceilings: etcd's election timeout 1s (5s at most), the lease duration of elected components 15s (1m0s at most)"},
		{name: "an election timeout of 10 s", story: set("E", 10*time.Second), want: Fail, took: "3 of 4 settings", says: "etcd's election timeout 10s is more than 5s"},
		{name: "a lease of an hour of one component", story: func() *story { return elections(time.Hour) }, want: Fail, took: "4 of 5 settings",
			says: "the lease duration of kube-scheduler 1h0m0s is more than 1m0s"},
		{name: "each at its ceiling", story: func() *story { return elections(time.Minute) }, want: Pass},
		{name: "a lease that is longer than its setting", want: Fail, says: "the lease duration of kube-scheduler 1m30s", story: func() *story {
			return elections(time.Second).at(5).lease("kube-scheduler", "node-1_a", 5, 5).change(func(r *record.Run) { r.Leases[0].V.Duration = 90 })
		}},
		{name: "a stranger's lease", want: Pass, story: func() *story {
			return elections(time.Second).at(5).lease("kube-scheduler", "stranger", 5, 5).change(func(r *record.Run) { r.Leases[0].V.Duration = 90 })
		}},
		{name: "a slow balancer", story: set("H", 20*time.Second), want: Fail, says: "the load balancer's detection time 20s is more than 15s"},
		{name: "no balancer", want: Pass, took: "3 of 3 settings", story: func() *story {
			return set("H", 20*time.Second)().change(func(r *record.Run) { r.Meta.Entrances = r.Meta.Entrances[1:] })
		}},
		{name: "not told", story: set("T", 0), want: Inconclusive, says: "does not show time to live of API servers' addresses"},
		{name: "nothing shows one", want: NotApplicable, took: "3 of 4 settings", says: "nothing shows the load balancer's detection time. Within their ceilings: etcd's election timeout 1s",
			story: func() *story {
				return newStory().change(func(r *record.Run) { r.Meta.Assumed = []string{"H"} })
			}},
		{name: "nothing shows one, and another is too long", want: Fail, says: "etcd's election timeout 10s is more than 5s", story: func() *story {
			return set("E", 10*time.Second)().change(func(r *record.Run) { r.Meta.Assumed = []string{"H"} })
		}},
		{name: "no ceiling", want: Inconclusive, says: "names no ceiling", story: func() *story {
			c := check
			c.Params = nil
			return newStory(c)
		}},
		{name: "no duration", want: Inconclusive, says: `parameter E = "5" is not a duration`, story: func() *story {
			c := check
			c.Params = map[string]string{"E": "5"}
			return newStory(c)
		}},
	})
}
