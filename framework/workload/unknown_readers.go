package workload

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/holdfast-ha/holdfast/framework"
	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

const (
	// readersAtATime is how many requests of unknown readers are made at the same time.
	readersAtATime = 4
	// enoughServed is after how many served paths a client stops.
	enoughServed = 10
)

// UnknownReaders reads from each API server, directly, as clients that it does not know: without
// credentials, with a certificate that a foreign CA signed, and with a token that no server
// issued. They request every path that discovery and OpenAPI list and some that neither lists,
// except the public ones (/healthz, /livez, /readyz and /version). Objects are requested by a name
// that none has: the answer that it does not exist shows that the client was allowed to read it.
// So the ConfigMap cluster-info in kube-public, which kubeadm publishes, is not requested.
//
// There is one operation for each API server and each kind of client, which is its key. They have
// the purpose "unknown-reader" and the number of paths as their value. The outcome is OK if a path
// was not refused: with Found, something was served. The error then starts with the first such
// path; it says how often each status was answered, and to which paths unless it refuses them.
func UnknownReaders(ctx context.Context, c framework.Cluster, w *record.Writer) error {
	certificate, key, err := foreignCertificate(pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}})
	if err != nil {
		return fmt.Errorf("unknown readers: failed to make a certificate: %w", err)
	}
	token := "unknown-" + fresh()
	for _, e := range apiServers(c.Entrances()) {
		paths, problem := readablePaths(ctx, e)
		for _, kind := range []string{"anonymous", "foreign CA", "invalid token"} {
			config := rest.AnonymousClientConfig(e.Config)
			switch kind {
			case "foreign CA":
				config.CertData, config.KeyData = certificate, key
			case "invalid token":
				config.BearerToken = token
			}
			op := record.Op{Client: "unknown-readers", Entrance: e.Name, API: apiKubernetes, Type: record.OpGet, Key: kind, Purpose: "unknown-reader",
				Call: w.Now(), Value: strconv.Itoa(len(paths)), Outcome: record.Unknown}
			if problem == nil {
				op.Outcome, op.Found, op.Error = readAs(ctx, config, paths)
			} else {
				op.Error = client.Shorten(problem.Error())
			}
			op.Return = w.Now()
			_ = w.Append(record.KindOp, op)
		}
	}
	return w.Err()
}

// readAs requests paths with a configuration. The outcome is OK if one was served or if one was
// allowed to be read, Refused if every one was answered otherwise.
func readAs(ctx context.Context, config *rest.Config, paths []string) (o record.Outcome, found bool, text string) {
	api, err := client.NewAPI(config, client.Options{})
	if err != nil {
		return record.Unknown, false, client.Shorten(err.Error())
	}
	defer api.Close()
	answers := requestAll(ctx, api, paths)
	paths = paths[:len(answers)]
	if i := slices.IndexFunc(answers, served); i >= 0 {
		return record.OK, true, client.Shorten(paths[i] + "; " + tally(paths, answers))
	}
	for i, a := range answers {
		if absent(paths[i], a) {
			return record.OK, false, client.Shorten(paths[i] + "; " + tally(paths, answers))
		}
	}
	unanswered := 0
	for i, a := range slices.Backward(answers) {
		if !answered(a) {
			unanswered++
			text = fmt.Sprintf("%d of %d paths have no answer; %s: %s", unanswered, len(paths), paths[i], a.Problem())
		}
	}
	if unanswered > 0 {
		return record.Unknown, false, text
	}
	return record.Refused, false, client.Shorten(tally(paths, answers))
}

// requestAll requests paths until enough of them were served, and returns the answers to those
// that it requested.
func requestAll(ctx context.Context, api *client.API, paths []string) []client.Answer {
	answers := make([]client.Answer, len(paths))
	next := make(chan int)
	var open atomic.Int32
	var all sync.WaitGroup
	for range readersAtATime {
		all.Go(func() {
			for i := range next {
				if answers[i] = untilAnswered(ctx, api, readRequest(paths[i])); served(answers[i]) {
					open.Add(1)
				}
			}
		})
	}
	requested := 0
	for ; requested < len(paths) && open.Load() < enoughServed; requested++ {
		next <- requested
	}
	close(next)
	all.Wait()
	return answers[:requested]
}

// readRequest returns a request that reads little: one object of a list, one second of a watch.
func readRequest(path string) client.Request {
	query := url.Values{"limit": {"1"}}
	if isWatch(path) {
		query = url.Values{"timeoutSeconds": {"1"}}
	}
	return client.Request{Method: http.MethodGet, Path: path, Query: query}
}

func served(a client.Answer) bool { return a.Status >= 200 && a.Status < 300 }

// absent reports whether an API server answered that the object of a path does not exist, which
// it says only to a client that may read the object.
func absent(path string, a client.Answer) bool {
	resource, named, ok := strings.Cut(path, "/"+unknownName)
	if !ok || named != "" && named[0] != '/' {
		return false
	}
	return a.Absent(resource[strings.LastIndexByte(resource, '/')+1:], unknownName)
}

// tally counts answers by their status, as in "605 × 403, 2 × 404 (/logs, /logs/)": paths that
// were refused or have no answer are not named, and of the others the first ones are.
func tally(paths []string, answers []client.Answer) string {
	const most = 3
	by := map[int][]string{}
	for i, a := range answers {
		by[a.Status] = append(by[a.Status], paths[i])
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(by)) {
		which := by[status]
		part := fmt.Sprintf("%d × %d", len(which), status)
		switch status {
		case 0:
			part = fmt.Sprintf("%d × no status", len(which))
		case http.StatusUnauthorized, http.StatusForbidden:
		default:
			part += " (" + strings.Join(which[:min(most, len(which))], ", ")
			if len(which) > most {
				part += ", …"
			}
			part += ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// untilAnswered makes a request, and retries if the server did not answer or was too busy.
func untilAnswered(ctx context.Context, api *client.API, r client.Request) (a client.Answer) {
	for range stepTries {
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		a = api.Do(limited, r)
		cancel()
		if answered(a) || !client.Pause(ctx, tokenPause) {
			break
		}
	}
	return a
}

// answered reports whether a server has decided on a request: with a status, whatever happened to
// the body, or with a TLS alert, as a server does that requires a certificate it can verify.
func answered(a client.Answer) bool {
	return tlsAlert(a.Err) || a.Status > 0 && a.Status < http.StatusInternalServerError && a.Status != http.StatusTooManyRequests
}
