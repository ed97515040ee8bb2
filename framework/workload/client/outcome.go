package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-ha/holdfast/framework/record"
)

// status returns the metav1.Status of a response, if it is one.
func (a Answer) status() (metav1.Status, bool) {
	var s metav1.Status
	if a.Err != nil || json.Unmarshal(a.Body, &s) != nil || s.Kind != "Status" {
		return metav1.Status{}, false
	}
	return s, true
}

// refusals are the responses after which a write certainly had no effect: the reasons with which
// an API server rejects a request before it asks etcd for the change, or after etcd's transaction
// found its condition not met (k8s.io/apimachinery/pkg/api/errors). Any other may have had an
// effect: Timeout, ServerTimeout, InternalError, ServiceUnavailable and Unknown are also returned
// when etcd did not answer in time.
var refusals = map[int]map[metav1.StatusReason]bool{
	http.StatusBadRequest:            {"BadRequest": true},
	http.StatusUnauthorized:          {"Unauthorized": true},
	http.StatusForbidden:             {"Forbidden": true},
	http.StatusNotFound:              {"NotFound": true},
	http.StatusMethodNotAllowed:      {"MethodNotAllowed": true},
	http.StatusNotAcceptable:         {"NotAcceptable": true},
	http.StatusConflict:              {"Conflict": true, "AlreadyExists": true},
	http.StatusRequestEntityTooLarge: {"RequestEntityTooLarge": true},
	http.StatusUnsupportedMediaType:  {"UnsupportedMediaType": true},
	http.StatusUnprocessableEntity:   {"Invalid": true},
	// For lists and watches: the version, or the continuation, is compacted.
	http.StatusGone: {"Expired": true, "Gone": true},
}

// Outcome reports what the client knows of the effect of its request.
//
//   - OK: the complete response arrived, with a status of 200 to 299.
//   - Refused: certainly without effect. There never was a connection to send
//     the request on, or an API server itself rejected it (see refusals;
//     also 429, with which flow control answers instead of the handler).
//   - Unknown: everything else. Timeouts after the request was passed to a
//     connection, resets, truncated responses, every 5xx (etcd's timeouts
//     are 500 and 504), redirects, and refusals that are not an API
//     server's own (a proxy may speak for a request that went through).
//
// For a read, Refused and Unknown both mean that nothing was learned.
func (a Answer) Outcome() record.Outcome {
	switch {
	case a.Err != nil && !a.Sent:
		return record.Refused
	case a.Err != nil:
		return record.Unknown
	case a.Status >= 200 && a.Status <= 299:
		return record.OK
	case a.Status == http.StatusTooManyRequests:
		return record.Refused
	}
	if s, ok := a.status(); ok && s.Status == "Failure" && refusals[a.Status][s.Reason] {
		return record.Refused
	}
	return record.Unknown
}

// Absent reports whether the response is the API server's statement that the object of that
// resource and name does not exist. There are other responses with status 404: for a path that is
// not served yet, or for a namespace.
func (a Answer) Absent(resource, name string) bool {
	return a.RefusedSince(resource, resource, name) == record.RefusedAbsent
}

// RefusedSince returns what a refusal says about the object of that resource and name, empty if
// it says nothing (it may be about a namespace). An API server answers an update, or a deletion
// with a precondition, with Conflict only after it has compared with the newest state of etcd,
// and a create with AlreadyExists, and an update, patch or deletion with NotFound, only after a
// transaction or a quorum read of etcd (k8s.io/apiserver/pkg/storage/etcd3: Create,
// GuaranteedUpdate, Delete). The Conflict of a deletion names the kind instead of the resource
// (k8s.io/apiserver/pkg/registry/rest: BeforeDelete). A patch is different: the server retries it
// while other clients change the object (MaxRetryWhenPatchConflicts), so its last Conflict is not
// about a version that the client named.
func (a Answer) RefusedSince(resource, kind, name string) record.Refusal {
	s, ok := a.status()
	if !ok || s.Status != "Failure" || s.Details == nil || s.Details.Kind != resource && s.Details.Kind != kind || s.Details.Name != name {
		return ""
	}
	switch {
	case a.Status == http.StatusNotFound && s.Reason == "NotFound":
		return record.RefusedAbsent
	case a.Status == http.StatusConflict && s.Reason == "AlreadyExists":
		return record.RefusedPresent
	case a.Status == http.StatusConflict && s.Reason == "Conflict":
		return record.RefusedVersion
	}
	return ""
}

// Done reports whether the answer is the metav1.Status of a success, which a completed deletion
// returns.
func (a Answer) Done() bool {
	s, ok := a.status()
	return ok && a.Outcome() == record.OK && s.Status == "Success"
}

// Reason is the machine-readable reason of a metav1.Status, such as AlreadyExists; empty for
// other responses.
func (a Answer) Reason() string {
	s, _ := a.status()
	return string(s.Reason)
}

// maxProblem limits a Problem, in bytes.
const maxProblem = 300

// Problem describes what is wrong with a response, empty for a status of 200 to 299.
func (a Answer) Problem() string {
	var p string
	switch {
	case a.Err != nil:
		p = a.Err.Error()
	case a.Status >= 200 && a.Status <= 299:
		return ""
	default:
		p = fmt.Sprintf("status %d", a.Status)
		if s, ok := a.status(); ok {
			p += fmt.Sprintf(" (%s): %s", s.Reason, s.Message)
		} else if text := strings.TrimSpace(string(a.Body)); text != "" {
			p += ": " + text
		}
	}
	return Shorten(p)
}

// Shorten truncates a text that is too long for an entry of a record.
func Shorten(p string) string {
	if len(p) > maxProblem {
		p = strings.ToValidUTF8(p[:maxProblem], "") + " …"
	}
	return p
}
