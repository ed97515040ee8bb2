package scenarios

import (
	"strings"
	"testing"

	"github.com/holdfast-ha/holdfast/framework/engine"
	"github.com/holdfast-ha/holdfast/framework/fault"
	"github.com/holdfast-ha/holdfast/framework/judge"
)

const ownFile = `
apiVersion: holdfast.dev/v1alpha1
kind: Scenario
metadata: {name: own}
spec:
  timeline:
    - inject: {fault: meteor, target: node/1, as: hit, params: {size: 3}}
    - heal: hit
  requirements:
    - {id: OWN-1, judge: survives, bound: 2E + M, fault: hit, params: {grace: 1s}}
    - {id: HA-QR-001, judge: linearizable}
`

// meteor is a program's own fault.
var meteor = &fault.Fault{Name: "meteor", Params: []fault.Param{{Name: "size", Doc: "in metres"}}}

func survives() judge.Judge {
	return judge.Judge{Doc: judge.Doc{Name: "survives", NeedsFault: true, NeedsBound: true, Params: map[string]string{"grace": "a duration"}}}
}

// A file may name a user's own faults and judges, which are validated like the built-in ones.
func TestOwnNames(t *testing.T) {
	both := []Option{WithFaults(meteor), WithJudges(survives())}
	for name, test := range map[string]struct {
		change  func(string) string
		options []Option
		want    string // in the error; empty for none
	}{
		"both":             {nil, both, ""},
		"neither":          {nil, nil, `own:7: spec.timeline[0].inject.fault is "meteor": want one of alarm, `},
		"no fault":         {nil, both[1:], `own:7: spec.timeline[0].inject.fault is "meteor": want one of alarm, `},
		"no judge":         {nil, both[:1], `own:10: spec.requirements[0].judge is "survives": want one of active-again, `},
		"another name":     {func(s string) string { return strings.Replace(s, "meteor", "comet", 1) }, both, "webhook-hang, meteor"},
		"fault's params":   {func(s string) string { return strings.Replace(s, "size", "speed", 1) }, both, "own:7: spec.timeline[0].inject.params.speed: fault meteor has no such parameter: it accepts size"},
		"judge's params":   {func(s string) string { return strings.Replace(s, "grace", "patience", 1) }, both, "judge survives has no such parameter: it accepts grace"},
		"judge's bound":    {func(s string) string { return strings.Replace(s, "bound: 2E + M, ", "", 1) }, both, "judge survives needs one"},
		"judge's fault":    {func(s string) string { return strings.Replace(s, ", fault: hit", "", 1) }, both, "judge survives needs the name of an injection"},
		"two judges":       {nil, append(both, WithJudges(survives())), `two judges have the name "survives"`},
		"two faults":       {nil, append(both, WithFaults(meteor)), `two faults have the name "meteor"`},
		"a built-in judge": {nil, append(both, WithJudges(judge.Judge{Doc: judge.Doc{Name: "linearizable"}})), `two judges have the name "linearizable"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := ownFile
			if test.change != nil {
				text = test.change(text)
			}
			s, err := Parse("own", []byte(text), test.options...)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "" && len(s.Experiment().Validate(engine.Options{})) == 0:
				t.Error("the experiment is valid without what is the user's own")
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want …%s…", err, test.want)
			}
		})
	}
}

func TestOwnSchema(t *testing.T) {
	plain, err := Schema()
	if err != nil || strings.Contains(string(plain), "meteor") {
		t.Error(err)
	}
	own, err := Schema(WithFaults(meteor), WithJudges(survives()))
	if err != nil || !strings.Contains(string(own), `"meteor"`) || !strings.Contains(string(own), `"survives"`) {
		t.Error(err)
	}
}
