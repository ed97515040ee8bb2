package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/judge/internal/facts"
	"github.com/holdfast-ha/holdfast/framework/judge/internal/judges"
	"github.com/holdfast-ha/holdfast/framework/record"
)

// chronicle reads a history written as text, a line a second, each answered half a
// second after its call:
//
//	create|update|put|patch|delete KEY VALUE[@GROUP] [REVISION] [over=REVISION] [unknown|refused] [txn=T] [header=R]
//	get KEY [VALUE REVISION] [header=R] [serializable]
//	watch ID [from=R] [key=K] [group=G] [initial] [previous] [resumes=ID] [through=ENTRANCE]
//	refused|ended ID [status=410] [compacted=R] [from=R] [awaited]
//	added|modified|deleted ID KEY VALUE[@GROUP] REVISION [batch=N] [created=R version=N] [was=VALUE/REVISION]
//	bookmark ID REVISION [end]
//	list unset|any|exact|not-older-than [ASKED] [group=G] = REVISION KEY:VALUE@GROUP:REVISION ... [/ REVISION ...]
//
//	later SECONDS
//
// A delete has no value. A line that begins with "with" happens at the time of the one
// before it.
func chronicle(t *testing.T, api, text string) *record.Run {
	t.Helper()
	run := newStory().run
	now := sec(0)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] == "with" {
			f = f[1:]
		} else {
			now += sec(1)
		}
		if f[0] == "later" {
			seconds, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				t.Fatalf("cannot read %q: %v", line, err)
			}
			now += sec(seconds) - sec(1)
			continue
		}
		l := chronicleLine{fields: map[string]string{}, now: now}
		for _, word := range f {
			if name, value, ok := strings.Cut(word, "="); ok && name != "" {
				l.fields[name] = value
			} else if slices.Contains([]string{"unknown", "initial", "previous", "end", "awaited", "serializable"}, word) || word == "refused" && len(l.words) > 0 {
				l.fields[word] = word
			} else {
				l.words = append(l.words, word)
			}
		}
		if !l.add(run, api) {
			t.Fatalf("cannot read %q", line)
		}
	}
	return run
}

type chronicleLine struct {
	words  []string
	fields map[string]string
	now    record.Nanos
}

// word returns word i, empty if none exists.
func (l chronicleLine) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

func (l chronicleLine) number(field string) (n int) {
	_, _ = fmt.Sscan(l.fields[field], &n)
	return n
}

func (l chronicleLine) add(run *record.Run, api string) bool {
	value, group, _ := strings.Cut(l.word(2), "@")
	switch what := l.word(0); what {
	case "create", "update", "put", "patch", "delete", "get":
		op := record.Op{Client: "writer", Entrance: "node-1", API: api, Type: record.OpType(what), Collection: "things", Key: l.word(1), Value: value, Group: group,
			Revision: l.word(3), Expect: l.fields["over"], Transaction: l.fields["txn"], Call: l.now, Return: l.now + sec(.5), Outcome: record.OK, Found: what == "get" && value != "", Header: l.fields["header"]}
		if what == "get" && api == facts.APIEtcd {
			op.Consistency = cmp.Or(l.fields["serializable"], "linearizable")
		}
		if what == "delete" {
			op.Value, op.Revision = "", l.word(2)
		}
		if l.fields["unknown"] != "" {
			op.Outcome, op.Error = record.Unknown, "timed out"
		} else if l.fields["refused"] != "" {
			op.Outcome, op.Error = record.Refused, "conflict"
		}
		run.Ops = append(run.Ops, record.Timed[record.Op]{At: op.Return, V: op})
	case "watch", "refused", "ended":
		w := record.Watch{ID: l.word(1), Phase: record.WatchPhase(what), Client: "watcher", Entrance: "node-1", API: api, Collection: "things",
			Key: l.fields["key"], Group: l.fields["group"], From: l.fields["from"], Initial: l.fields["initial"] != "", Previous: l.fields["previous"] != "",
			Resumes: l.fields["resumes"], Called: l.now, Seen: l.now + sec(.1), Status: l.number("status"), Compacted: l.fields["compacted"]}
		if what == "watch" {
			w.Phase = record.WatchOpened
		}
		if l.fields["awaited"] != "" {
			w.Purpose = facts.PurposeFinalRead
		}
		if l.fields["through"] != "" {
			w.Entrance = l.fields["through"]
		}
		run.Watches = append(run.Watches, record.Timed[record.Watch]{At: w.Seen, V: w})
	case "added", "modified", "deleted", "bookmark":
		e := record.Event{Watch: l.word(1), Type: record.EventType(what), Seen: l.now}
		if what == "bookmark" {
			e.Revision, e.InitialEnd = l.word(2), l.fields["end"] != ""
		} else {
			e.Key = l.word(2)
			e.Value, e.Group, _ = strings.Cut(l.word(3), "@")
			e.Revision, e.Batch, e.CreateRevision, e.Version = l.word(4), l.number("batch"), l.fields["created"], int64(l.number("version"))
			e.PreviousValue, e.PreviousRevision, _ = strings.Cut(l.fields["was"], "/")
		}
		run.Events = append(run.Events, record.Timed[record.Event]{At: l.now, V: e})
	case "list":
		return l.addList(run, api)
	default:
		return false
	}
	return true
}

func (l chronicleLine) addList(run *record.Run, api string) bool {
	list := record.List{Client: "lister", Entrance: "node-2", API: api, Collection: "things", Group: l.fields["group"], Match: record.ListMatch(l.word(1)),
		Call: l.now, Return: l.now + sec(.5), Outcome: record.OK}
	words := l.words[2:]
	if len(words) > 0 && words[0] != "=" {
		list.Asked, words = words[0], words[1:]
	}
	if len(words) < 2 {
		return false
	}
	page := record.Page{Call: list.Call, Return: list.Return, Remaining: -1}
	for _, word := range words[1:] {
		switch part := strings.Split(word, ":"); {
		case word == "/":
			page.Continued = true
			list.Pages = append(list.Pages, page)
			page = record.Page{Call: list.Call, Return: list.Return, Remaining: -1}
		case word == "410":
			list.Outcome, list.Status, list.Error = record.Refused, 410, "expired"
		case len(part) == 1:
			page.Revision = word
		case len(part) == 3:
			value, group, _ := strings.Cut(part[1], "@")
			list.Items = append(list.Items, record.Item{Key: part[0], Value: value, Group: group, Revision: part[2]})
			page.Items++
		default:
			return false
		}
	}
	list.Pages = append(list.Pages, page)
	run.Lists = append(run.Lists, record.Timed[record.List]{At: list.Return, V: list})
	return true
}

// telling is a case of the table of a judge of lists or watches: a history in the text of
// chronicle and the expected finding.
type telling struct {
	name    string
	api     string // Kubernetes if empty
	history string
	want    Verdict
	says    string // part of the sentence
}

// tell runs a judge's table.
func tell(t *testing.T, d judges.Definition, cases []telling) {
	t.Helper()
	legal, illegal := 0, 0
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			api := tt.api
			if api == "" {
				api = facts.APIKubernetes
			}
			f := d.Judge(&facts.Case{Run: chronicle(t, api, tt.history)})
			if f.Verdict != tt.want || !strings.Contains(f.Sentence, tt.says) {
				t.Errorf("verdict %q (want %q)\nsentence: %s\nwant:     %s", f.Verdict, tt.want, f.Sentence, tt.says)
			}
			if f.Verdict == Fail && (f.Exhibit == nil || !slices.ContainsFunc(f.Exhibit.Spans, func(s Span) bool { return s.Culprit })) {
				t.Errorf("no culprit is shown: %+v", f.Exhibit)
			}
		})
		switch tt.want {
		case Pass:
			legal++
		case Fail:
			illegal++
		}
	}
	if legal == 0 || illegal == 0 {
		t.Errorf("%d legal and %d illegal histories", legal, illegal)
	}
}
