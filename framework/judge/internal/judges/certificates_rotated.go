package judges

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/text"
	"github.com/holdfast-ha/holdfast/framework/record"
)

var certificatesRotated = Definition{Doc{
	Name:      "certificates-rotated",
	Guarantee: "After each change of a node's certificates every port of the node serves a new one, and does so at the end. While a certificate of a CA is served anywhere, every API server, or every etcd member if the CA is etcd's, accepts clients with certificates from that CA. Every API server accepts the tokens of service accounts that any of them issues, and until it expires the one that was issued before the first change; none accepts a token signed with a key that was never trusted.",
	Source:    "Kubernetes documentation, Manual Rotation of CA Certificates",
	Params: map[string]string{
		"changes":  "names of the changes to judge, separated by commas (default: all)",
		"complete": "true: the last change completes the replacement of the CAs: at the end, every API server serves a client that trusts only the new one, none serves a client that trusts only the old one, and every one signs tokens with a new key; etcd members accept only clients of etcd's new CA, and API servers only front proxies of the new one",
	},
	Values: map[string][]string{"complete": flag},
}, given(changedInPlace, judgeCertificatesRotated)}

func judgeCertificatesRotated(m *facts.Case, changes []record.NodeChange) Finding {
	looks := trustLooks(m, changes)
	old, renewed, complete := firstToken(m), 0, m.Param("complete", "false") == "true"
	var missing []string
	var broken *Finding // the first
	add := func(unseen []string, f *Finding) {
		missing, broken = append(missing, unseen...), cmp.Or(broken, f)
	}
	for i, l := range looks {
		add(trustsWhatIsServed(m, l))
		add(l.membersTrustWhatIsServed(m, complete))
		add(acceptsTokens(m, l, old))
		if i > 0 {
			n, unseen, f := servesNew(changes[i-1], looks[i-1], l)
			renewed += n
			add(unseen, f)
		}
	}
	last := looks[len(looks)-1]
	for _, c := range changes { // a later look must not show the old certificate again
		_, unseen, f := servesNew(c, looks[0], last)
		add(unseen, f)
	}
	if complete {
		add(onlyNewIsTrusted(m, looks[0], last))
		add(onlyNewKeySigns(m, old, last))
		add(membersTrustOnlyNew(changes, looks[0], last))
		add(frontProxies(m, changes, looks))
	}
	if broken != nil {
		return *broken
	}
	if len(missing) > 0 {
		return Inconclusive("not everything was checked: %s", missing[0]).Shows(missing...)
	}
	return Passed("After each of %d changes every port of the node served a new certificate (%d in all), and as long as a CA's certificates were served every API server accepted clients with certificates from it.",
		len(changes), renewed).number(renewed, "certificate")
}

// trustsWhatIsServed checks that no API server refuses clients of a CA that is in use.
func trustsWhatIsServed(m *facts.Case, l trustLook) (missing []string, broken *Finding) {
	keys := slices.SortedFunc(maps.Keys(l), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, served := range keys {
		if l[served].Purpose != facts.PurposeServed || l[served].Outcome != record.OK || strings.HasPrefix(served[1], "etcd/") {
			continue // etcd has a CA of its own: see membersTrustWhatIsServed
		}
		for _, server := range m.APIServers() {
			op := l[[2]string{server, "certificate/" + issuerOf(l[served])}]
			if op.Outcome == record.Refused && op.Value == "Unauthorized" {
				return nil, Failed("A CA must be trusted everywhere before any component serves with a certificate from it, and for as long as one does: the API server on %s refused a client with a certificate from %s, which issued that of %s on %s.",
					server, issuerOf(l[served]), served[1], served[0]).Rests(l[served].Call, op.Return).Shows(text.Describe(l[served]), text.Describe(op)).problem()
			}
			if op.Outcome != record.OK {
				missing = append(missing, fmt.Sprintf("no request shows whether the API server on %s accepts clients with certificates of %s, which is served", server, issuerOf(l[served])))
			}
		}
	}
	return missing, nil
}

// tokenIssue is what the record says about a token of a service account. It is empty if it says
// nothing.
type tokenIssue struct {
	key   string       // the ID of the key that signed it
	until record.Nanos // when it expires, at the earliest
}

func issueOf(op record.Op) (t tokenIssue) {
	seconds := 0
	if n, _ := fmt.Sscanf(op.Value, "issued by key %s for %ds", &t.key, &seconds); n != 2 || op.Outcome != record.OK {
		return tokenIssue{}
	}
	// The API server counts from the second in which it issued the token.
	t.until = op.Call + record.Nanos(time.Duration(seconds-1)*time.Second)
	return t
}

// firstToken is the token that is tried again at each look: the first one that was issued.
func firstToken(m *facts.Case) (t tokenIssue) {
	first := facts.Endless
	for _, o := range m.Run.Ops {
		if op := o.V; op.Purpose == facts.PurposeTrust && op.Key == keyIssue && op.Outcome == record.OK && op.Found && op.Call < first {
			first, t = op.Call, issueOf(op)
		}
	}
	return t
}

// The keys of operations about tokens of service accounts: the issue of one, and the use of the
// first one and of its forged copy.
const (
	keyIssue  = "issue"
	keyToken  = "token/"
	fromFirst = "first"
	forged    = "forged"
)

// acceptsTokens checks that no API server refuses a token of a service account: one that another
// has just issued or, before it expires, the one from before the changes.
func acceptsTokens(m *facts.Case, l trustLook, old tokenIssue) (missing []string, broken *Finding) {
	for _, server := range m.APIServers() {
		for _, issuer := range append(m.APIServers(), fromFirst) {
			op := l[[2]string{server, keyToken + issuer}]
			of := "that the API server on " + issuer + " had issued"
			if issuer == fromFirst {
				of = "that was issued before the first change"
			}
			refused := op.Outcome == record.Refused && op.Value == "Unauthorized"
			switch {
			case refused && issuer == fromFirst && op.Return > old.until:
				missing = append(missing, fmt.Sprintf("the API server on %s refused the token %s, which may have expired by then", server, of))
			case refused:
				return nil, Failed("Tokens of service accounts must be accepted everywhere for as long as they are valid: the API server on %s refused one %s.", server, of).
					Rests(op.Call, op.Return).Shows(text.Describe(op)).problem()
			case op.Outcome != record.OK:
				missing = append(missing, fmt.Sprintf("no request shows whether the API server on %s accepts a token %s", server, of))
			}
		}
		if op := l[[2]string{server, keyToken + forged}]; op.Outcome == record.OK && op.Found {
			return nil, Failed("A token signed with a key that was never trusted must be refused: the API server on %s accepted it as a token of %s.", server, op.Value).
				Shows(text.Describe(op)).problem()
		}
	}
	return missing, nil
}

// onlyNewKeySigns checks that in the end every API server signs tokens with another key than the
// first token's, and refuses one that a key signed which was never trusted.
func onlyNewKeySigns(m *facts.Case, old tokenIssue, last trustLook) (missing []string, broken *Finding) {
	for _, server := range m.APIServers() {
		op := last[[2]string{server, keyIssue}]
		switch key := issueOf(op).key; {
		case key == "" || old.key == "":
			missing = append(missing, "no token shows with which key the API server on "+server+" signs at the end")
		case key == old.key:
			return missing, Failed("At the end, every API server must sign tokens with the new key: the one on %s signed one with the old key %s.", server, key).Shows(text.Describe(op)).problem()
		}
		if op := last[[2]string{server, keyToken + forged}]; op.Outcome != record.Refused || op.Value != "Unauthorized" {
			missing = append(missing, "no request shows whether the API server on "+server+" refuses tokens that were signed with a key that was never trusted")
		}
	}
	return missing, nil
}

// servesNew checks that each port of a changed node serves another certificate than before.
func servesNew(c record.NodeChange, before, after trustLook) (n int, missing []string, broken *Finding) {
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if !slices.Contains(c.Node.Components, component) {
			continue
		}
		ports := portsIn(before, after, c.Node.Name, component)
		for _, at := range ports {
			was, is := before[at], after[at]
			if was.Outcome != record.OK || is.Outcome != record.OK {
				missing = append(missing, fmt.Sprintf("the certificate of %s on %s was not seen before and after the %s", at[1], at[0], facts.InPlaceWords(c)))
				continue
			}
			if is.Value == was.Value {
				return n, missing, Failed("After the %s every port of the node must serve a new certificate: %s served the old one.", facts.InPlaceWords(c), at[1]).
					Rests(c.Effect, is.Return).Shows(text.Describe(was), text.Describe(is)).problem()
			}
			n++
		}
		// kubeadm's controller managers and schedulers serve on the node's loopback alone.
		if len(ports) == 0 && (component == "etcd" || component == "kube-apiserver") {
			missing = append(missing, fmt.Sprintf("the certificate of %s on %s was not seen before and after the %s", component, c.Node.Name, facts.InPlaceWords(c)))
		}
	}
	return n, missing, nil
}

// portsIn returns the ports of a component of a node at which certificates were looked at, in either
// look.
func portsIn(before, after trustLook, node, component string) (ports [][2]string) {
	for _, l := range []trustLook{before, after} {
		for at := range l {
			if at[0] == node && strings.HasPrefix(at[1], component+"/") && !slices.Contains(ports, at) {
				ports = append(ports, at)
			}
		}
	}
	slices.SortFunc(ports, func(a, b [2]string) int { return strings.Compare(a[1], b[1]) })
	return ports
}

// onlyNewIsTrusted checks whom the API servers serve when the CAs have been replaced.
func onlyNewIsTrusted(m *facts.Case, first, last trustLook) (missing []string, broken *Finding) {
	for _, server := range m.APIServers() {
		port := [2]string{server, "kube-apiserver/https"}
		old, next := issuerOf(first[port]), issuerOf(last[port])
		if old == "" || next == "" {
			missing = append(missing, "the CA of the certificate of "+server+" was not seen before and after")
			continue
		}
		if old == next {
			return missing, Failed("At the end, every API server must have a certificate from the new CA: the one on %s has one from %s.", server, old).Shows(text.Describe(last[port])).problem()
		}
		alone, without := last[[2]string{server, "alone/" + next}], last[[2]string{server, "alone/" + old}]
		accepted := last[[2]string{server, "certificate/" + old}]
		switch {
		case turnedAway(alone):
			return missing, Failed("At the end, every API server must serve a client that trusts only the new CA: the one on %s did not (%s).", server, alone.Value).Shows(text.Describe(alone)).problem()
		case without.Outcome == record.OK || accepted.Outcome == record.OK:
			return missing, Failed("At the end, no API server may serve a client with a certificate from the old CA: the one on %s served one with a certificate from %s.", server, old).
				Shows(text.Describe(without), text.Describe(accepted)).problem()
		case alone.Outcome != record.OK || !turnedAway(without) || !turnedAway(accepted):
			missing = append(missing, "no request shows which clients the API server on "+server+" serves at the end")
		}
	}
	return missing, nil
}

// turnedAway reports whether a server did not accept a client's certificate, or the client not the
// server's. A server that is overloaded (429), or that has not loaded its RBAC rules yet (403), says
// nothing about trust.
func turnedAway(op record.Op) bool {
	return op.Outcome == record.Refused && (op.Value == "Unauthorized" || op.Value == "Untrusted")
}
