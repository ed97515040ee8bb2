package tamper

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Mode is a way to tamper.
type Mode string

// Modes of the proxy in front of an etcd member. Rules name keys.
const (
	// Serializable serves a linearizable range from the member's own state.
	Serializable Mode = "serializable"
	// Linearizable serves a serializable range through the quorum.
	Linearizable Mode = "linearizable"
	// OldRange serves a range as it was Rule.By revisions ago.
	OldRange Mode = "old-range"
	// LostWrite answers a put, or a transaction that writes, as done, and does
	// nothing.
	LostWrite Mode = "lost-write"
	// LostUpdate does so with a transaction that, by its compares, changes or
	// deletes an existing key.
	LostUpdate Mode = "lost-update"
	// RefusedWrite answers a write with "unavailable" and does nothing.
	RefusedWrite Mode = "refused-write"
	// LateWrite holds a write back for Rule.For.
	LateWrite Mode = "late-write"
	// NoCompare carries out the writes of a transaction whatever its compares
	// say, after Rule.For, in which others may read the same version.
	NoCompare Mode = "no-compare"
	// LowRevision answers a transaction that writes with a revision that is
	// lower by Rule.By.
	LowRevision Mode = "low-revision"

	// WrongPrevious gives the new value as that before the change.
	WrongPrevious Mode = "wrong-previous"
	// CreateAsModify shows the creation of a key as a change of an older one.
	CreateAsModify Mode = "create-as-modify"
	// SplitRevision spreads the events of one revision over two responses.
	SplitRevision Mode = "split-revision"
	// SilentGap begins a watch whose first revisions are compacted with the
	// next change, instead of refusing it.
	SilentGap Mode = "silent-gap"

	// ClaimedLeader makes the member name itself the leader in its status.
	ClaimedLeader Mode = "claimed-leader"
	// OldStatus answers for a member that does not with its last status.
	OldStatus Mode = "old-status"
	// OlderRelease makes the member report a version that is Rule.By minor versions older.
	OlderRelease Mode = "older-release"
	// WrongHash changes the hash of the member's data.
	WrongHash Mode = "wrong-hash"
	// SpoiltSnapshot changes a byte of a snapshot.
	SpoiltSnapshot Mode = "spoilt-snapshot"
	// FalseAlarm adds an alarm to those that the member lists.
	FalseAlarm Mode = "false-alarm"
)

// Modes of the proxy in front of an API server. Rules name paths.
const (
	// Unavailable answers a request with status 503.
	Unavailable Mode = "unavailable"
	// RefusedList and RefusedWatch answer a list of a namespaced collection, or an attempt to
	// open a watch, with status 503 and without Retry-After, as if the server were shutting down.
	RefusedList  Mode = "refused-list"
	RefusedWatch Mode = "refused-watch"
	// ClaimedLease answers an elector that updates its lease as if it had, does
	// nothing, and lets it read back what it wrote last.
	ClaimedLease Mode = "claimed-lease"
	// OldAnswer answers a read as it was answered the first time.
	OldAnswer Mode = "old-answer"
	// EmptyAnswer answers a read with an empty object, and success.
	EmptyAnswer Mode = "empty-answer"
	// NewestList lists the newest state whatever version was asked for, and
	// says that it is that one.
	NewestList Mode = "newest-list"
	// NoAddresses empties the Endpoints or EndpointSlices of an answer.
	NoAddresses Mode = "no-addresses"
	// OlderVersion gives the server's own version as Rule.By minor versions older.
	OlderVersion Mode = "older-version"
	// OtherPage serves the pages after the first one from the newest state.
	OtherPage Mode = "other-page"

	// LostLine, RepeatedLine and SwappedLines do to an event of a watch what they
	// say: a swapped one changes place with the next one; additions are neither
	// repeated nor swapped. AlteredLine shows it with the data from before.
	LostLine     Mode = "lost-line"
	RepeatedLine Mode = "repeated-line"
	SwappedLines Mode = "swapped-lines"
	AlteredLine  Mode = "altered-line"
	// WrongType shows ADDED as MODIFIED and MODIFIED as ADDED.
	WrongType Mode = "wrong-type"
	// EarlyBookmark sends a bookmark of the version of an event, which is no
	// addition, before it.
	EarlyBookmark Mode = "early-bookmark"
	// Unfiltered watches all objects whatever labels were asked for.
	Unfiltered Mode = "unfiltered"
	// Silence sends nothing more on a watch from an event on, and leaves it open.
	Silence Mode = "silence"
	// EndedWatch accepts a watch, and ends it before the first event.
	EndedWatch Mode = "ended-watch"
	// LateStart begins a watch with the next change, whatever version was
	// asked for.
	LateStart Mode = "late-start"
	// OldStream begins a streaming list with the state of Rule.By revisions ago.
	OldStream Mode = "old-stream"
)

var etcdModes = []Mode{Serializable, Linearizable, OldRange, LostWrite, LostUpdate, RefusedWrite, LateWrite, NoCompare, LowRevision,
	WrongPrevious, CreateAsModify, SplitRevision, SilentGap, ClaimedLeader, OldStatus, OlderRelease, WrongHash, SpoiltSnapshot, FalseAlarm}

var apiModes = []Mode{Unavailable, RefusedList, RefusedWatch, ClaimedLease, OldAnswer, EmptyAnswer, NewestList, OtherPage, NoAddresses, OlderVersion,
	LostLine, RepeatedLine, SwappedLines, AlteredLine, WrongType, EarlyBookmark, Unfiltered, Silence, EndedWatch, LateStart, OldStream}

// Rule says what a proxy is to tamper with, and how.
type Rule struct {
	Mode Mode `json:"mode"`
	// Prefix is what the key, or the path of the request, begins with; empty
	// for all.
	Prefix string `json:"prefix,omitempty"`
	// After is how many messages that match pass as they are.
	After int `json:"after,omitempty"`
	// Times is how many are tampered with then; 0 for all.
	Times int `json:"times,omitempty"`
	// By is a number of revisions, or of versions.
	By int64 `json:"by,omitempty"`
	// For is how long something is held back.
	For time.Duration `json:"for,omitempty"`
}

// desk holds the rules of one proxy.
type desk struct {
	modes []Mode

	mu    sync.Mutex
	rules []*ruleState
}

type ruleState struct {
	Rule
	matched, acted int
}

// set replaces all rules, and the counts with them.
func (d *desk) set(rules []Rule) error {
	var states []*ruleState
	for _, r := range rules {
		if !slices.Contains(d.modes, r.Mode) {
			return fmt.Errorf("this proxy has no mode %q; it has %v", r.Mode, d.modes)
		}
		states = append(states, &ruleState{Rule: r})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules = states
	return nil
}

// acted counts what was tampered with since the rules were set.
func (d *desk) acted() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rules {
		n += r.acted
	}
	return n
}

// has reports whether there is a rule of a mode.
func (d *desk) has(m Mode) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.rules, func(r *ruleState) bool { return r.Mode == m })
}

// act is asked about each message that a mode fits: it counts it, and returns
// the rule by which it is to be tampered with, if there is one.
func (d *desk) act(m Mode, name string) (Rule, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rules {
		if r.Mode != m || !strings.HasPrefix(name, r.Prefix) {
			continue
		}
		r.matched++
		if r.matched > r.After && (r.Times == 0 || r.acted < r.Times) {
			r.acted++
			return r.Rule, true
		}
	}
	return Rule{}, false
}
