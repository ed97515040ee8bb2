package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-ha/holdfast/framework/record"
	"github.com/holdfast-ha/holdfast/framework/workload/client"
)

// watching is what a client watches of a collection, and from which version.
type watching struct {
	key, group string // both empty: all of the collection
	// from is the version, or etcd's first revision, and resumes the ID of the watch, that it
	// continues from; both may be empty.
	from, resumes string
	// initial requests a streaming list, which may not be older than from; bookmarks requests
	// bookmarks, or etcd's notifications of progress, and previous etcd's pairs before each change.
	initial, bookmarks, previous bool
	// seconds is after how long the server ends the watch; 0 leaves it to the server.
	seconds int
	// short marks a watch that does not wait for the last write.
	short bool
}

// message is one message of a watch, as sent.
type message struct {
	Type   string `json:"type"`
	Object struct {
		corev1.ConfigMap
		// Of a metav1.Status.
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"object"`
}

// eventTypes are the types of messages about a register, and of bookmarks.
var eventTypes = map[string]record.EventType{
	"ADDED": record.EventAdded, "MODIFIED": record.EventModified, "DELETED": record.EventDeleted, "BOOKMARK": record.EventBookmark,
}

// initialEnd annotates the bookmark that ends a streaming list's initial events.
const initialEnd = "k8s.io/initial-events-end"

// watched is how a watch ended.
type watched struct {
	id     string // empty for one that was refused
	status int
	// agreed reports that the server ended it as agreed, or that the client did.
	agreed bool
	// from is the version to resume from, empty if no message to the client carried one.
	from string
}

func (r *registers) listFrom(ctx context.Context, group string) (version uint64, from string) {
	l := r.list(ctx, listing{match: record.MatchUnset, group: group})
	if l.Outcome != record.OK {
		return 0, ""
	}
	from = l.Pages[0].Revision
	return record.Number(from), from
}

// watch makes one watch and records it until it ends on its own, until ctx ends, or until done
// returns true for the last event.
//
// Recording an event takes some microseconds of CPU time and no I/O, so it does not delay
// reading.
func (r *registers) watch(ctx context.Context, id string, q watching, seen *progress, done func() bool) watched {
	entry := record.Watch{
		ID: id, Client: r.name, Entrance: r.entrance, API: apiKubernetes, Collection: r.of.name, Key: q.key, Group: q.group,
		From: q.from, Initial: q.initial, Bookmarks: q.bookmarks, Resumes: q.resumes, Called: r.w.Now(),
	}
	phase := func(p record.WatchPhase) {
		entry.Phase, entry.Seen = p, r.w.Now()
		_ = r.w.Append(record.KindWatch, entry)
	}
	result := watched{}
	if !q.initial {
		result.from = q.from
	}
	body, err := r.api.Stream(ctx, client.Request{Method: http.MethodGet, Path: r.path(""), Query: r.watchQuery(q)}, r.timeout)
	if err != nil {
		if refused, ok := errors.AsType[*client.RefusedError](err); ok {
			entry.Status, entry.RetryAfter = refused.Status, refused.RetryAfter
		}
		entry.Error = client.Shorten(why(ctx, err))
		phase(record.WatchRefused)
		result.status = entry.Status
		return result
	}
	defer body.Close()
	entry.Server = body.Server
	phase(record.WatchOpened)
	entry.Server = nil // it is recorded once
	result.id = id
	// A watch without a version, or a streaming list, first shows a state in no order of
	// versions: only later messages carry a version to resume from.
	ordered := q.from != "" && !q.initial
	err = r.messages(body, func(e record.Event) bool {
		e.Watch = id
		_ = r.w.Append(record.KindEvent, e)
		if e.Revision == "" {
			return true // nothing to resume from; messages ends the watch
		}
		ordered = ordered || e.InitialEnd || !q.initial && e.Type != record.EventAdded
		if ordered {
			result.from = e.Revision
		}
		seen.add(e.Key, e.Revision, ordered)
		r.of.saw(e.Revision)
		return !done()
	})
	if ended, ok := errors.AsType[*endedError](err); ok {
		entry.Status = ended.status
	}
	entry.Error = client.Shorten(why(ctx, err))
	entry.Purpose = q.purpose(ctx, err)
	phase(record.WatchEnded)
	result.status, result.agreed = entry.Status, ctx.Err() != nil || errors.Is(err, io.EOF)
	return result
}

// why describes why a watch ended; the client's own reason takes precedence over the resulting
// connection error.
func why(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	case errors.Is(err, io.EOF):
		return "" // as agreed
	}
	return err.Error()
}

// purpose is the purpose of a watch that ran until it had shown the last write or its time was
// over; empty for another.
func (q watching) purpose(ctx context.Context, err error) string {
	if q.short {
		return ""
	}
	if cause := context.Cause(ctx); errors.Is(err, errLastWrite) || errors.Is(cause, errLastWrite) || errors.Is(cause, errTooLate) {
		return "final-read"
	}
	return ""
}

func (r *registers) watchQuery(q watching) map[string][]string {
	query := r.selection(q.key, q.group)
	query.Set("watch", "true")
	if q.from != "" {
		query.Set("resourceVersion", q.from)
	}
	if q.initial {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	if q.bookmarks || q.initial {
		query.Set("allowWatchBookmarks", "true")
	}
	if q.seconds > 0 {
		query.Set("timeoutSeconds", strconv.Itoa(q.seconds))
	}
	return query
}

// endedError is an ERROR event.
type endedError struct {
	status int
	text   string
}

func (e *endedError) Error() string { return e.text }

var (
	errClosed    = errors.New("closed by the client")
	errLastWrite = fmt.Errorf("%w: the last write was seen", errClosed)
	errTooLate   = fmt.Errorf("%w: the last write was not seen in time", errClosed)
)

// messages passes each message of a watch to tell until there are no more, tell returns false, or
// one had no version: no client can continue from there. The error says why: io.EOF if the server
// ended the watch as agreed.
func (r *registers) messages(body io.Reader, tell func(record.Event) bool) error {
	all := json.NewDecoder(body)
	for {
		var m message
		if err := all.Decode(&m); err != nil {
			return err
		}
		i := itemOf(m.Object.ConfigMap)
		e := record.Event{Type: eventTypes[m.Type], Revision: i.Revision, Seen: r.w.Now()}
		switch {
		case m.Type == "ERROR":
			return &endedError{m.Object.Code, fmt.Sprintf("status %d: %s", m.Object.Code, m.Object.Message)}
		case e.Type == "":
			return fmt.Errorf("a message of type %q", m.Type)
		case e.Type == record.EventBookmark:
			e.InitialEnd = m.Object.Annotations[initialEnd] == "true"
		default:
			e.Key, e.Value, e.Group = i.Key, i.Value, i.Group
		}
		if !tell(e) {
			return errLastWrite
		}
		if e.Revision == "" {
			return fmt.Errorf("a message of type %s without a version", m.Type)
		}
	}
}
