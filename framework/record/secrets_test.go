package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// texts are the names of the fields whose texts come from outside: errors, and what shows an
// effect.
var texts = []string{"Error", "Proof", "Problems", "Other", "Check", "LastExit"}

// fill puts a text into each such field of a value, and returns how many there are.
func fill(v reflect.Value, text string) (n int) {
	for i := range v.NumField() {
		field, named := v.Field(i), slices.Contains(texts, v.Type().Field(i).Name)
		switch {
		case named && field.Kind() == reflect.String:
			field.SetString(text)
			n++
		case named && field.Type() == reflect.TypeFor[[]string]():
			field.Set(reflect.ValueOf([]string{text}))
			n++
		case field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct:
			inner := reflect.New(field.Type().Elem())
			if more := fill(inner.Elem(), text); more > 0 {
				field.Set(inner)
				n += more
			}
		}
	}
	return n
}

// A record has no secret in any text that comes from outside, and the values that were appended
// are as they were.
func TestNoSecretsInTexts(t *testing.T) {
	const secret = "https://root:hunter2marker@host:2379"
	w, err := Create(t.TempDir(), testMeta())
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, r := range table {
		if r.typ == nil {
			continue
		}
		v := reflect.New(r.typ)
		if fill(v.Elem(), "failed: "+secret) == 0 {
			continue
		}
		kinds++
		for _, v := range []any{v.Interface(), v.Elem().Interface()} {
			before, _ := json.Marshal(v)
			got, err := w.encode(r.kind, v)
			if err != nil || strings.Contains(string(got), "hunter2") || !strings.Contains(string(got), "https://[redacted]@host:2379") {
				t.Errorf("%s: %s, %v", r.kind, got, err)
			}
			if after, _ := json.Marshal(v); string(after) != string(before) {
				t.Errorf("%s: the value became %s", r.kind, after)
			}
		}
	}
	if kinds < 10 {
		t.Errorf("only %d kinds have texts", kinds)
	}
	for _, v := range []any{Phase{Name: "action x could not be made: " + secret}, Op{Type: OpGet, Value: OtherObject + secret}} {
		if got, err := w.encode(map[bool]Kind{true: KindPhase, false: KindOp}[reflect.TypeOf(v) == reflect.TypeFor[Phase]()], v); err != nil || strings.Contains(string(got), "hunter2") {
			t.Errorf("%s, %v", got, err)
		}
	}
	path := w.path
	if err := w.Close(End{Error: secret}); err != nil {
		t.Fatal(err)
	}
	run, err := Read(strings.TrimSuffix(path, "/"+FileName))
	if err != nil || run.End.Error != "https://[redacted]@host:2379" {
		t.Errorf("%+v, %v", run.End, err)
	}
}
