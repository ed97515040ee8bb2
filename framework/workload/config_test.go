package workload

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		c          Config
		path, text string // of the only problem; empty for none
	}{
		"default":        {Config{}, "", ""},
		"all":            {Config{Settings: Settings{Profiles: ProfileNames(), Etcd: EtcdSettings{Keys: 1}}}, "", ""},
		"unknown":        {Config{Settings: Settings{Profiles: []string{"registers", "noise"}}}, "profiles[1]", "allowed: application, registers, lists, watches, set, contests, kubernetes, etcd, work"},
		"twice":          {Config{Settings: Settings{Profiles: []string{"etcd", "etcd"}}}, "profiles[1]", "named twice"},
		"lists of none":  {Config{Settings: Settings{Profiles: []string{"lists"}}}, "profiles[0]", "add the profile registers"},
		"without effect": {Config{Settings: Settings{Etcd: EtcdSettings{Keys: 1}}}, "etcd", "the profiles are registers, lists, watches"},
		"negative":       {Config{Settings: Settings{Lists: ListSettings{Limit: -1}}}, "lists.limit", "negative"},
		"huge":           {Config{Settings: Settings{Registers: RegisterSettings{ValueSize: 2 << 20}}}, "registers.valueSize", "want 1048576 bytes at most"},
	} {
		got := test.c.Validate()
		switch {
		case test.path == "" && len(got) > 0:
			t.Errorf("%s: %v", name, got)
		case test.path != "" && (len(got) != 1 || got[0].Path != test.path || !strings.Contains(got[0].Err.Error(), test.text)):
			t.Errorf("%s: %v, want %s: …%s…", name, got, test.path, test.text)
		}
	}
}
