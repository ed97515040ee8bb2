package facts

import "testing"

func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{
		"10.77.0.11:6443": "10.77.0.11", "[fd00::11]:6443": "fd00::11", "api.example:6443": "api.example",
		"10.77.0.11": "10.77.0.11", "fd00::11": "fd00::11", "[fd00::11]": "fd00::11", "api.example": "api.example", "": "",
	} {
		if got := HostOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
