package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/holdfast-ha/holdfast/framework/record"
)

func kubeStatus(code int, reason, message string) Answer {
	return Answer{Sent: true, Status: code, Body: fmt.Appendf(nil,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, code)}
}

func TestOutcome(t *testing.T) {
	text := func(code int, body string) Answer { return Answer{Sent: true, Status: code, Body: []byte(body)} }
	for _, tc := range []struct {
		name string
		a    Answer
		want record.Outcome
	}{
		{"ok", text(200, `{}`), record.OK},
		{"created", text(201, `{}`), record.OK},
		{"accepted", text(202, `{}`), record.OK},
		{"never sent", Answer{Err: errors.New("dial: connection refused")}, record.Refused},
		{"sent, then an error", Answer{Sent: true, Err: errors.New("EOF")}, record.Unknown},
		{"success that broke off", Answer{Sent: true, Status: 201, Err: errors.New("unexpected EOF")}, record.Unknown},
		{"refusal that broke off", Answer{Sent: true, Status: 409, Err: errors.New("unexpected EOF")}, record.Unknown},

		{"bad request", kubeStatus(400, "BadRequest", "x"), record.Refused},
		{"unauthorized", kubeStatus(401, "Unauthorized", "Unauthorized"), record.Refused},
		{"forbidden", kubeStatus(403, "Forbidden", "x"), record.Refused},
		{"not found", kubeStatus(404, "NotFound", "x"), record.Refused},
		{"conflict", kubeStatus(409, "Conflict", "x"), record.Refused},
		{"already exists", kubeStatus(409, "AlreadyExists", "x"), record.Refused},
		{"too large", kubeStatus(413, "RequestEntityTooLarge", "x"), record.Refused},
		{"invalid", kubeStatus(422, "Invalid", "x"), record.Refused},
		{"version compacted", kubeStatus(410, "Expired", "x"), record.Refused},
		{"flow control", text(429, "Too many requests, please try again later."), record.Refused},
		{"server that shuts down", text(429, "The apiserver is shutting down, please try again later."), record.Refused},

		{"etcd timed out", kubeStatus(500, "InternalError", "etcdserver: request timed out"), record.Unknown},
		{"etcd leader changed", kubeStatus(500, "", "etcdserver: leader changed"), record.Unknown},
		{"no leader", kubeStatus(500, "InternalError", "etcdserver: no leader"), record.Unknown},
		{"bad gateway", text(502, "Bad Gateway"), record.Unknown},
		{"unavailable", kubeStatus(503, "ServiceUnavailable", "x"), record.Unknown},
		{"server timeout", kubeStatus(504, "Timeout", "x"), record.Unknown},
		{"server timeout as 500", kubeStatus(500, "ServerTimeout", "x"), record.Unknown},
		{"client closed request", text(499, ""), record.Unknown},

		{"redirect", text(302, ""), record.Unknown},
		{"conflict of a proxy", text(409, "conflict"), record.Unknown},
		{"not found of a path", text(404, "404 page not found"), record.Unknown},
		{"forbidden of a proxy", text(403, "<html>"), record.Unknown},
		{"reason of another status", kubeStatus(409, "Timeout", "x"), record.Unknown},
		{"status of a success in an error", text(409, `{"kind":"Status","status":"Success","reason":"Conflict"}`), record.Unknown},
		{"no answer, no error", Answer{Sent: true}, record.Unknown},
	} {
		if got := tc.a.Outcome(); got != tc.want {
			t.Errorf("%s: outcome %s, want %s", tc.name, got, tc.want)
		}
		if p := tc.a.Problem(); (p == "") != (tc.want == record.OK) {
			t.Errorf("%s: problem %q", tc.name, p)
		}
	}
}

func TestAbsent(t *testing.T) {
	const of = `{"kind":"Status","status":"Failure","reason":"NotFound","details":{"kind":%q,"name":%q},"code":404}`
	for _, tc := range []struct {
		name string
		a    Answer
		want bool
	}{
		{"the object", Answer{Sent: true, Status: 404, Body: fmt.Appendf(nil, of, "configmaps", "a")}, true},
		{"another object", Answer{Sent: true, Status: 404, Body: fmt.Appendf(nil, of, "configmaps", "b")}, false},
		{"its namespace", Answer{Sent: true, Status: 404, Body: fmt.Appendf(nil, of, "namespaces", "a")}, false},
		{"the path", Answer{Sent: true, Status: 404, Body: []byte("404 page not found")}, false},
		{"broken off", Answer{Sent: true, Status: 404, Body: fmt.Appendf(nil, of, "configmaps", "a"), Err: errors.New("EOF")}, false},
	} {
		if got := tc.a.Absent("configmaps", "a"); got != tc.want {
			t.Errorf("%s: absent %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestRefusedSince(t *testing.T) {
	of := func(code int, reason, kind, name string) Answer {
		return Answer{Sent: true, Status: code, Body: fmt.Appendf(nil, `{"kind":"Status","status":"Failure","reason":%q,"details":{"kind":%q,"name":%q},"code":%d}`, reason, kind, name, code)}
	}
	for _, tc := range []struct {
		name string
		a    Answer
		want record.Refusal
	}{
		{"not found", of(404, "NotFound", "configmaps", "a"), record.RefusedAbsent},
		{"there already", of(409, "AlreadyExists", "configmaps", "a"), record.RefusedPresent},
		{"another version", of(409, "Conflict", "configmaps", "a"), record.RefusedVersion},
		{"another version, to a deletion", of(409, "Conflict", "ConfigMap", "a"), record.RefusedVersion},
		{"of the namespace", of(404, "NotFound", "namespaces", "a"), ""},
		{"of another object", of(409, "Conflict", "configmaps", "b"), ""},
		{"of a quota", of(409, "Conflict", "resourcequotas", "a"), ""},
		{"for another reason", of(403, "Forbidden", "configmaps", "a"), ""},
		{"a reason of another status", of(500, "Conflict", "configmaps", "a"), ""},
		{"of a path", Answer{Sent: true, Status: 404, Body: []byte("404 page not found")}, ""},
	} {
		if got := tc.a.RefusedSince("configmaps", "ConfigMap", "a"); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestEtcdOutcome(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want record.Outcome
	}{
		{"ok", nil, record.OK},
		{"deadline", context.DeadlineExceeded, record.Unknown},
		{"cancelled", context.Canceled, record.Unknown},
		{"request timed out", rpctypes.ErrTimeout, record.Unknown},
		{"timed out, connection lost", rpctypes.ErrTimeoutDueToConnectionLost, record.Unknown},
		{"timed out, leader failed", rpctypes.ErrTimeoutDueToLeaderFail, record.Unknown},
		{"leader changed", rpctypes.ErrLeaderChanged, record.Unknown},
		{"no leader", rpctypes.ErrNoLeader, record.Unknown},
		{"unavailable", grpcstatus.Error(codes.Unavailable, "connection error"), record.Unknown},
		{"answer too large for the client", grpcstatus.Error(codes.ResourceExhausted, "grpc: received message larger than max"), record.Unknown},
		{"stopped", rpctypes.ErrStopped, record.Unknown},
		{"too many requests", rpctypes.ErrTooManyRequests, record.Refused},
		{"too many requests, on the wire", rpctypes.ErrGRPCRequestTooManyRequests, record.Refused},
		{"too large", rpctypes.ErrRequestTooLarge, record.Refused},
		{"permission", rpctypes.ErrPermissionDenied, record.Refused},
		{"compacted", rpctypes.ErrGRPCCompacted, record.Refused},
		{"lease not found", rpctypes.ErrLeaseNotFound, record.Refused},
		// The put that finds the quota used up is applied all the same.
		{"no space", rpctypes.ErrGRPCNoSpace, record.Unknown},
	} {
		if got := EtcdOutcome(tc.err); got != tc.want {
			t.Errorf("%s: outcome %s, want %s", tc.name, got, tc.want)
		}
	}
}
