package main

import (
	"os"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if p := rememberedPace("local"); p.of(time.Minute) != time.Minute {
		t.Errorf("without a run before: %v", p)
	}
	// The machine takes twice as long as expected.
	p := rememberedPace("local")
	p.add(4*time.Minute, 2*time.Minute)
	if got := p.of(time.Minute).Round(time.Second); got != 100*time.Second {
		t.Errorf("after two minutes that took four: %s", got)
	}
	p.remember("local")
	if p := rememberedPace("local"); p.of(time.Minute).Round(time.Second) != 100*time.Second {
		t.Errorf("remembered %v", p)
	}
	if p := rememberedPace("kind"); p.of(time.Minute) != time.Minute {
		t.Errorf("of another provider: %v", p)
	}
	// Too short to count.
	short := pace{before: 1}
	short.add(10*time.Minute, time.Second)
	short.remember("local")
	// Invalid values are ignored.
	path, err := paceFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"local": 1e9}`, `{"local": -1}`, `{"local": "x"}`, `{`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p := rememberedPace("local"); p.of(time.Minute) != time.Minute {
			t.Errorf("%s: %v", text, p)
		}
	}
}
