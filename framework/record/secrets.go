package record

import "strings"

// Error texts of clients, and other texts that come from the cluster, may quote secrets, such as the
// password in a URL. Secrets are removed before an entry is written, so that a judge here and a
// reviewer of the record read the same text.

// worded is an entry with such texts.
type worded interface {
	// reword replaces each of them with the result of of, in this entry alone: values that the
	// entry points to are copied.
	reword(of func(string) string)
}

func (v *Op) reword(of func(string) string) {
	v.Error = of(v.Error)
	if v.IsOther() {
		v.Value = OtherObject + of(strings.TrimPrefix(v.Value, OtherObject))
	}
}

func (v *Probe) reword(of func(string) string) {
	v.Error = of(v.Error)
	if v.Again != nil {
		again := *v.Again
		again.Error = of(again.Error)
		v.Again = &again
	}
}

func (v *EtcdStatus) reword(of func(string) string) { v.Error = of(v.Error) }

func (v *ProcessState) reword(of func(string) string) {
	v.Error, v.LastExit = of(v.Error), of(v.LastExit)
}

func (v *Fault) reword(of func(string) string) { v.Error, v.Proof = of(v.Error), of(v.Proof) }

func (v *Steady) reword(of func(string) string) {
	var problems []string
	for _, p := range v.Problems {
		problems = append(problems, of(p))
	}
	v.Problems = problems
}

func (v *Phase) reword(of func(string) string) { v.Name = of(v.Name) }

func (v *List) reword(of func(string) string) { v.Error, v.Other = of(v.Error), of(v.Other) }

func (v *Watch) reword(of func(string) string) { v.Error = of(v.Error) }

func (v *Backend) reword(of func(string) string) { v.Error, v.Check = of(v.Error), of(v.Check) }

func (v *NodeChange) reword(of func(string) string) { v.Error = of(v.Error) }

func (v *Step) reword(of func(string) string) { v.Proof = of(v.Proof) }

func (v *Session) reword(of func(string) string) { v.Error = of(v.Error) }

func (v *End) reword(of func(string) string) { v.Error = of(v.Error) }

// reworded returns v, a T or a pointer to one, or a pointer to a copy of it with its texts replaced
// by what of returns.
func reworded[T any](v any, of func(string) string) any {
	if _, ok := any((*T)(nil)).(worded); !ok {
		return v
	}
	copied := new(T)
	switch v := v.(type) {
	case T:
		*copied = v
	case *T:
		if v == nil {
			return v
		}
		*copied = *v
	}
	any(copied).(worded).reword(of)
	return copied
}
