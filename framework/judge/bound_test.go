package judge

import (
	"strings"
	"testing"
	"time"
)

var testSymbols = map[string]time.Duration{"E": time.Second, "M": 2 * time.Second, "T": 15 * time.Second, "I": 10 * time.Second, "h": time.Minute}

func TestParseBound(t *testing.T) {
	for _, tt := range []struct {
		formula string
		want    time.Duration
		text    string
	}{
		{"2E + M", 4 * time.Second, "4s (2E + M, E = 1s, M = 2s)"},
		{"T+I+M", 27 * time.Second, "27s (T+I+M, I = 10s, M = 2s, T = 15s)"},
		{" 5s + M ", 7 * time.Second, "7s ( 5s + M , M = 2s)"},
		{"1m30s + 300ms", 90*time.Second + 300*time.Millisecond, "1m30.3s (1m30s + 300ms)"},
		{"0E", 0, "0s (0E, E = 1s)"},
		{"E + E", 2 * time.Second, "2s (E + E, E = 1s)"},
		{"10 E", 10 * time.Second, "10s (10 E, E = 1s)"},
		{"2h", 2 * time.Minute, "2m0s (2h, h = 1m0s)"},
	} {
		b, err := ParseBound(tt.formula, testSymbols)
		if err != nil || b.Limit != tt.want || b.String() != tt.text {
			t.Errorf("%q: %v, %s, error %v; want %v, %s", tt.formula, b.Limit, b, err, tt.want, tt.text)
		}
	}
}

func TestParseBoundErrors(t *testing.T) {
	for _, tt := range []struct{ formula, want string }{
		{"", "a term is missing"},
		{"2E +", "a term is missing"},
		{"2X + M", `"2X" is neither a symbol (E, I, M, T, h)`},
		{"E * 2", `"E * 2" is neither`},
		{"-5s", "is negative"},
		{"-E", "neither"},
		{"99999999999999999999E", "longer than 292 years"},
		{"9999999999E", "longer than 292 years"},
		{"2540400h0m + 2540400h0m", "longer than 292 years"},
	} {
		_, err := ParseBound(tt.formula, testSymbols)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "bound ") {
			t.Errorf("%q: error %v, want %q", tt.formula, err, tt.want)
		}
	}
}

func FuzzParseBound(f *testing.F) {
	for _, s := range []string{"2E + M", "T + I + M", "5s + M", "1h2m", "9999999999999999999E", "+", "-0s", "0h", "2000000h", "0E", "1111111111111111111111111111111E", "9223372036s + M", "-5ms", "99999999999999999999ms", ".E", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, formula string) {
		b, err := ParseBound(formula, testSymbols)
		if err != nil {
			return
		}
		if b.Limit < 0 {
			t.Fatalf("%q gives %v", formula, b.Limit)
		}
		more, err := ParseBound(formula+" + M", testSymbols)
		if err == nil && more.Limit != b.Limit+testSymbols["M"] {
			t.Fatalf("%q gives %v, and with M more %v", formula, b.Limit, more.Limit)
		}
	})
}
