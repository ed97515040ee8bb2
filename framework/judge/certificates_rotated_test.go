package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// trusting says at which stage the API server of a node is: from which CA its certificates
// are and which key signs its tokens, whose clients it accepts, and the tokens of which keys.
type trusting struct {
	issuer         string
	accepted, keys []string
}

var trustStages = map[string]trusting{
	"": {"old", []string{"old"}, []string{"old"}}, "trust-both": {"old", []string{"old", "new"}, []string{"old", "new"}},
	"use-new": {"new", []string{"old", "new"}, []string{"old", "new"}}, "trust-new": {"new", []string{"new"}, []string{"old", "new"}},
}

// trustLook records what the ports of all nodes serve, and whom the API servers accept.
func (s *story) trustLook(t float64, at map[string]trusting, serial map[string]int, change func(*record.Op)) {
	put := func(purpose, node, key, value string, outcome record.Outcome) {
		o := during(t, t+0.1)
		o.Client, o.Type, o.Purpose, o.Entrance, o.Key, o.Value, o.Outcome, o.Found = purpose, record.OpGet, purpose, node, key, value, outcome, outcome == record.OK
		change(&o)
		s.op(o)
	}
	for _, n := range threeNodes {
		for _, port := range []string{"etcd/client", "etcd/peer", "kube-apiserver/https", "kube-controller-manager/https", "kube-scheduler/https"} {
			ca := at[n].issuer
			if port[:4] == "etcd" {
				ca += " etcd"
			}
			put("served", n, port, fmt.Sprintf("%x %s", serial[n], ca), record.OK)
		}
		for _, ca := range []string{"old", "new"} {
			outcome, value := record.OK, ""
			if !slices.Contains(at[n].accepted, ca) {
				outcome, value = record.Refused, "Unauthorized"
			}
			put("trust", n, "certificate/"+ca, value, outcome)
			// etcd's CA and that of front proxies go with it.
			if outcome == record.OK {
				put("trust", n, "etcd-client/"+ca+" etcd", "", record.OK)
				put("trust", n, "etcd-peer/"+ca+" etcd", "", record.OK)
				put("trust", n, "front-proxy/"+ca+" proxy", "holdfast-proxied", record.OK)
			} else {
				put("trust", n, "etcd-client/"+ca+" etcd", "TLS alert", record.Refused)
				put("trust", n, "etcd-peer/"+ca+" etcd", "TLS alert", record.Refused)
				put("trust", n, "front-proxy/"+ca+" proxy", "Unauthorized", record.Refused)
			}
			if at[n].issuer != ca {
				outcome, value = record.Refused, "Untrusted"
			}
			put("trust", n, "alone/"+ca, value, outcome)
		}
		// The keys of service accounts go with the CAs.
		put("trust", n, "issue", "issued by key "+at[n].issuer+" for 3600s", record.OK)
		for _, issuer := range append(slices.Clone(threeNodes), "first") {
			outcome, value, key := record.OK, "system:serviceaccount:default:trust", at[issuer].issuer
			if issuer == "first" {
				key = "old"
			}
			if !slices.Contains(at[n].keys, key) {
				outcome, value = record.Refused, "Unauthorized"
			}
			put("trust", n, "token/"+issuer, value, outcome)
		}
		put("trust", n, "token/forged", "Unauthorized", record.Refused)
	}
}

// rotated is the replacement of the CAs through the stages, node by node, with what change
// makes of each operation after a number of changes. At stage "" a node's certificates are
// replaced by ones of the CAs that it has.
func rotated(stages []string, change func(changes int, o *record.Op)) func() *story {
	return func() *story {
		s, end := newStory(), max(100, 10*len(stages)*len(threeNodes)+10)
		for i := 61; i <= end; i++ {
			s.at(float64(i)).harness(2 * time.Millisecond)
		}
		s.run.EndAt = sec(float64(end))
		at, serial, n := map[string]trusting{}, map[string]int{}, 0
		for _, node := range threeNodes {
			at[node] = trustStages[""]
		}
		s.trustLook(1, at, serial, func(o *record.Op) { change(0, o) })
		for _, stage := range stages {
			for _, node := range threeNodes {
				n++
				action := "rotate-certificates"
				if stage != "" {
					action, at[node] = "rotate-ca", trustStages[stage]
				}
				s.inPlace(fmt.Sprint(stage, node), action, node, "", stage, float64(n*10), float64(n*10+5), "kube-apiserver")
				serial[node]++
				s.trustLook(float64(n*10+6), at, serial, func(o *record.Op) { change(n, o) })
			}
		}
		return s
	}
}

func TestCertificatesRotated(t *testing.T) {
	all := []string{"trust-both", "use-new", "trust-new"}
	renewed := []string{"trust-both", "use-new", "", "trust-new"}
	asIs := func(int, *record.Op) {}
	at := func(changes int, node, key string, change func(*record.Op)) func(int, *record.Op) {
		return func(n int, o *record.Op) {
			if n == changes && o.Entrance == node && o.Key == key {
				change(o)
			}
		}
	}
	unseen := func(o *record.Op) { o.Outcome, o.Found, o.Value = record.Unknown, false, "" }
	refused := func(o *record.Op) { o.Outcome, o.Found, o.Value = record.Refused, false, "Unauthorized" }
	accepted := func(o *record.Op) { o.Outcome, o.Found, o.Value = record.OK, true, "" }
	alert := func(o *record.Op) { o.Outcome, o.Found, o.Value = record.Refused, false, "TLS alert" }
	busy := func(o *record.Op) { o.Outcome, o.Found, o.Value = record.Refused, false, "TooManyRequests" }
	lost := func(o *record.Op) { o.Purpose = "not recorded" }
	// A replacement of Kubernetes' CA alone.
	keptEtcd := func(n int, o *record.Op) {
		switch {
		case strings.HasPrefix(o.Key, "etcd/"):
			o.Value = fmt.Sprintf("%x old etcd", n)
		case strings.HasSuffix(o.Key, "/old etcd"):
			accepted(o)
		}
	}
	untried := func(_ int, o *record.Op) {
		if strings.HasPrefix(o.Key, "etcd-") || strings.HasPrefix(o.Key, "front-proxy/") {
			lost(o)
		}
	}
	rule(t, record.Check{Requirement: "HA-SEC-004", Judge: "certificates-rotated", Params: map[string]string{"complete": "true"}}, []ruling{
		{name: "stage by stage", want: Pass, took: "45 certificates", story: rotated(all, asIs)},
		{name: "no period of trusting both", want: Fail, says: "A CA must be trusted everywhere before", story: rotated([]string{"trust-new"}, asIs)},
		{name: "the new one is used too early", want: Fail, says: "refused a client with a certificate from new", story: rotated([]string{"use-new", "trust-new"}, asIs)},
		{name: "the old one is dropped too early", want: Fail, says: "refused a client with a certificate from old", story: rotated([]string{"trust-both", "trust-new"}, asIs)},
		{name: "one API server lost the old one early", want: Fail, says: "the API server on node-2 refused a client with a certificate from old", story: rotated(all, at(1, "node-2", "certificate/old", refused))},
		{name: "a port that serves the old one", want: Fail, says: "kube-scheduler/https served the old one",
			story: rotated(all, at(5, "node-2", "kube-scheduler/https", func(o *record.Op) { o.Value = "1 old" }))},
		{name: "a port that serves the old one again after later changes", want: Fail, says: "kube-apiserver/https served the old one",
			story: rotated([]string{""}, func(n int, o *record.Op) {
				if n >= 2 && o.Entrance == "node-1" && o.Key == "kube-apiserver/https" {
					o.Value = "0 old"
				}
			})},
		{name: "the old one is trusted for ever", want: Fail, says: "on node-3 served one with a certificate from old", story: rotated(all, at(9, "node-3", "certificate/old", accepted))},
		{name: "a token from before is refused early", want: Fail, says: "refused one that was issued before the first change", story: rotated(all, at(5, "node-2", "token/first", refused))},
		{name: "a token of another API server is refused", want: Fail, says: "refused one that the API server on node-1 had issued", story: rotated(all, at(5, "node-2", "token/node-1", refused))},
		{name: "the old key is dropped before its tokens expire", want: Fail, says: "the API server on node-2 refused one that was issued before the first change", story: rotated(all, at(9, "node-2", "token/first", refused))},
		{name: "the old token was not tried in the end", want: Inconclusive, says: "issued before the first change", story: rotated(all, at(9, "node-2", "token/first", unseen))},
		{name: "the old token had expired when it was refused", want: Inconclusive, says: "may have expired by then", story: rotated(all, func(n int, o *record.Op) {
			if o.Key == "issue" {
				o.Value = strings.Replace(o.Value, "3600s", "60s", 1)
			}
			if n >= 6 && o.Key == "token/first" {
				refused(o)
			}
		})},
		{name: "nothing says how long the old token is valid", want: Inconclusive, says: "may have expired by then", story: rotated(all, func(n int, o *record.Op) {
			if o.Key == "issue" {
				o.Value = "issued"
			}
			if n == 9 && o.Key == "token/first" {
				refused(o)
			}
		})},
		{name: "the old key signs for ever", want: Fail, says: "the one on node-3 signed one with the old key", story: rotated(all, func(n int, o *record.Op) {
			if o.Key == "issue" && o.Entrance == "node-3" {
				o.Value = "issued by key old for 3600s"
			}
		})},
		{name: "no token was issued in the end", want: Inconclusive, says: "with which key the API server on node-2 signs", story: rotated(all, at(9, "node-2", "issue", unseen))},
		{name: "nothing says which key signs", want: Inconclusive, says: "with which key the API server on node-1 signs", story: rotated(all, func(_ int, o *record.Op) {
			if o.Key == "issue" {
				o.Value = "issued"
			}
		})},
		{name: "a token of any key is accepted", want: Fail, says: "the API server on node-3 accepted it as a token of", story: rotated(all, at(4, "node-3", "token/forged", accepted))},
		{name: "a forged token was not tried", want: Inconclusive, says: "refuses tokens that were signed with a key that was never trusted", story: rotated(all, at(9, "node-3", "token/forged", unseen))},
		{name: "a token was not tried", want: Inconclusive, says: "accepts a token", story: rotated(all, at(3, "node-2", "token/node-3", unseen))},
		{name: "nothing was replaced", want: Fail, says: "must have a certificate from the new CA", story: rotated([]string{"trust-both"}, asIs)},
		{name: "a port that was not looked at", want: Inconclusive, says: "etcd/peer on node-1", story: rotated(all, at(1, "node-1", "etcd/peer", unseen))},
		{name: "a client that got no answer", want: Inconclusive, says: "whether the API server on node-2 accepts", story: rotated(all, at(4, "node-2", "certificate/old", unseen))},
		{name: "no request in the end", want: Inconclusive, says: "serves at the end", story: rotated(all, at(9, "node-1", "alone/new", unseen))},
		{name: "a busy API server in the end", want: Inconclusive, says: "serves at the end", story: rotated(all, at(9, "node-1", "alone/new", busy))},
		{name: "a busy API server does not show that it refuses the old one", want: Inconclusive, says: "serves at the end", story: rotated(all, at(9, "node-3", "certificate/old", busy))},
		{name: "a member that has dropped etcd's old CA early", want: Fail, says: "the peer port on node-2 refused a client with a certificate from old etcd", story: rotated(all, at(4, "node-2", "etcd-peer/old etcd", alert))},
		{name: "a member that serves with a CA that another does not trust yet", want: Fail, says: "the client port on node-3 refused a client with a certificate from new etcd, which issued that of node-1", story: rotated(all, at(4, "node-3", "etcd-client/new etcd", alert))},
		{name: "etcd's new CA is refused before any member serves with it", want: Pass, took: "45 certificates", story: rotated(all, at(3, "node-3", "etcd-client/new etcd", alert))},
		{name: "a member that closed the connection", want: Inconclusive, says: "the peer port of etcd on node-2 accepts clients with certificates of old etcd", story: rotated(all, at(4, "node-2", "etcd-peer/old etcd", unseen))},
		{name: "a member that was not asked", want: Inconclusive, says: "the client port of etcd on node-1 accepts", story: rotated(all, at(6, "node-1", "etcd-client/new etcd", lost))},
		{name: "etcd's old CA is trusted for ever", want: Fail, says: "At the end, no etcd member may serve a client with a certificate from the old CA: the client port on node-2", story: rotated(all, at(9, "node-2", "etcd-client/old etcd", accepted))},
		{name: "peers of etcd's old CA are accepted for ever", want: Fail, says: "the peer port on node-3 served one with a certificate from old etcd", story: rotated(all, at(9, "node-3", "etcd-peer/old etcd", accepted))},
		{name: "clients of etcd's old CA were not tried in the end", want: Inconclusive, says: "the peer port of etcd on node-3 refuses clients of the old CA", story: rotated(all, at(9, "node-3", "etcd-peer/old etcd", unseen))},
		{name: "etcd keeps its CA", want: Fail, says: "every etcd member must have a certificate from the new CA: the client port on node-1 has one from old etcd", story: rotated(all, keptEtcd)},
		{name: "an API server drops the old CA of front proxies early", want: Fail, says: "the one on node-1 refused a proxy with a certificate from old proxy", story: rotated(all, at(5, "node-1", "front-proxy/old proxy", refused))},
		{name: "an API server does not know the new CA of front proxies", want: Fail, says: "the one on node-3 refused a proxy with a certificate from new proxy", story: rotated(all, at(4, "node-3", "front-proxy/new proxy", refused))},
		{name: "the old CA of front proxies is refused once it is not in use", want: Pass, took: "45 certificates", story: rotated(all, at(6, "node-1", "front-proxy/old proxy", refused))},
		{name: "the old CA of front proxies is trusted for ever", want: Fail, says: "no API server may accept a front proxy with a certificate from the old CA: the one on node-2", story: rotated(all, at(9, "node-2", "front-proxy/old proxy", accepted))},
		{name: "no front proxy in the end", want: Inconclusive, says: "the API server on node-2 refuses front proxies of the old CA", story: rotated(all, at(9, "node-2", "front-proxy/old proxy", unseen))},
		{name: "a front proxy that was not tried", want: Inconclusive, says: "whether the API server on node-2 accepts front proxies of new proxy", story: rotated(all, at(5, "node-2", "front-proxy/new proxy", unseen))},
		{name: "front proxies of both CAs from the start", want: Inconclusive, says: "before the first change whose front proxies", story: rotated(all, at(0, "node-2", "front-proxy/new proxy", accepted))},
		{name: "new certificates of the same CA before the old one is dropped", want: Pass, took: "60 certificates", story: rotated(renewed, asIs)},
		{name: "new certificates of the same CA before the new one is used", want: Pass, took: "60 certificates", story: rotated([]string{"trust-both", "", "use-new", "trust-new"}, asIs)},
		{name: "new certificates of the same CA in the end", want: Pass, took: "60 certificates", story: rotated([]string{"trust-both", "use-new", "trust-new", ""}, asIs)},
		{name: "the new CA of front proxies is refused after new certificates of the same CA", want: Fail, says: "the one on node-3 refused a proxy with a certificate from new proxy", story: rotated(renewed, at(9, "node-3", "front-proxy/new proxy", refused))},
		{name: "the old CA of front proxies is trusted for ever after new certificates of the same CA", want: Fail, says: "no API server may accept a front proxy with a certificate from the old CA: the one on node-2", story: rotated(renewed, at(12, "node-2", "front-proxy/old proxy", accepted))},
		{name: "neither etcd's clients nor front proxies were tried", want: Inconclusive, says: "of etcd on node-1 accepts", story: rotated(all, untried)},
		{name: "no change", want: Inconclusive, says: "no change of nodes", story: func() *story { return newStory() }},
	})
	rule(t, record.Check{Requirement: "HA-SEC-004", Judge: "certificates-rotated"}, []ruling{
		{name: "new certificates of the same CA", want: Pass, took: "15 certificates", story: rotated([]string{""}, asIs)},
		{name: "a token is refused by a node with new certificates", want: Fail, says: "issued before the first change", story: rotated([]string{""}, at(2, "node-2", "token/first", refused))},
		{name: "a forged token is accepted", want: Fail, says: "never trusted", story: rotated([]string{""}, at(2, "node-2", "token/forged", accepted))},
		{name: "a member that refuses clients of its own CA", want: Fail, says: "the client port on node-2 refused a client with a certificate from old etcd", story: rotated([]string{""}, at(1, "node-2", "etcd-client/old etcd", alert))},
		{name: "a member that closed the connection of a client", want: Inconclusive, says: "the client port of etcd on node-2 accepts", story: rotated([]string{""}, at(1, "node-2", "etcd-client/old etcd", unseen))},
		{name: "neither etcd's clients nor front proxies were tried", want: Pass, took: "15 certificates", story: rotated([]string{""}, untried)},
		{name: "tokens that say nothing of themselves", want: Pass, took: "15 certificates", story: rotated([]string{""}, func(_ int, o *record.Op) {
			switch o.Key {
			case "issue":
				o.Value = "issued"
			case "token/forged":
				o.Purpose = "not recorded"
			}
		})},
		{name: "controller managers and schedulers that serve on the loopback alone", want: Pass, took: "9 certificates", story: rotated([]string{""}, func(_ int, o *record.Op) {
			if o.Key == "kube-controller-manager/https" || o.Key == "kube-scheduler/https" {
				o.Purpose = "not recorded"
			}
		})},
		{name: "a port that was not looked at before", want: Inconclusive, says: "etcd/peer on node-1", story: rotated([]string{""}, at(0, "node-1", "etcd/peer", unseen))},
		{name: "a scheduler that reported its port and was not seen", want: Inconclusive, says: "the certificate of kube-scheduler/https on node-1", story: rotated([]string{""}, at(0, "node-1", "kube-scheduler/https", unseen))},
		{name: "API servers that were not looked at", want: Inconclusive, says: "the certificate of kube-apiserver on node-1", story: rotated([]string{""}, func(_ int, o *record.Op) {
			if o.Key == "kube-apiserver/https" {
				o.Purpose = "not recorded"
			}
		})},
		{name: "as before", want: Fail, says: "served the old one", story: rotated([]string{""}, at(1, "node-1", "kube-apiserver/https", func(o *record.Op) { o.Value = "0 old" }))},
	})
}
