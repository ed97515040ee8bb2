package fault

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestParams(t *testing.T) {
	read := map[string]func(Params) (any, error){
		"bool":     func(p Params) (any, error) { return boolParam(Kill, p, "x") },
		"duration": func(p Params) (any, error) { return durationParam(Kill, p, "x", time.Second, 0, time.Minute) },
		"share":    func(p Params) (any, error) { return shareParam(Kill, p, "x", 0.5) },
		"int":      func(p Params) (any, error) { return intParam(Kill, p, "x", 3, 1, 7) },
		"size":     func(p Params) (any, error) { return sizeParam(Kill, p, "x", 7, 1, 1<<20) },
		"choice":   func(p Params) (any, error) { return choiceParam(Kill, p, "x", "both", "in", "out") },
	}
	for _, c := range []struct{ kind, value, want string }{
		{"bool", "", "false"}, {"bool", "true", "true"}, {"bool", "yes", "true or false"},
		{"duration", "", "1s"}, {"duration", "20ms", "20ms"}, {"duration", "-20ms", "from 0s to 1m0s"}, {"duration", "2m", "from 0s to 1m0s"}, {"duration", "20", "such as 20ms"},
		{"share", "", "0.5"}, {"share", "10%", "0.1"}, {"share", "0.25", "0.25"}, {"share", "130%", "from 0% to 100%"}, {"share", "-1%", "from 0% to 100%"}, {"share", "NaN", "from 0% to 100%"},
		{"int", "", "3"}, {"int", "7", "7"}, {"int", "8", "from 1 to 7"}, {"int", "many", "from 1 to 7"},
		{"size", "", "7"}, {"size", "512Ki", "524288"}, {"size", "1k", "1000"}, {"size", "2Mi", "from 1 to 1Mi"}, {"size", "big", "such as 10M"},
		{"choice", "", "both"}, {"choice", "out", "out"}, {"choice", "up", "one of both, in, out"},
	} {
		got, err := read[c.kind](Params{Values: map[string]string{"x": c.value}})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `fault kill: parameter x="`+c.value+`"`) {
				t.Errorf("%s %q: %v", c.kind, c.value, err)
			}
			continue
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s %q: %v, want %s", c.kind, c.value, got, c.want)
		}
	}
}
