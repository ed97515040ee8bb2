package reports

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rgb is a colour in linear light, from 0 to 1.
type rgb [3]float64

// sights are how colours are seen: by most people, without the cones for red and without those for
// green (Machado, Oliveira and Fernandes, 2009, severity 1).
var sights = map[string][3]rgb{
	"common":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
}

func parseColour(t *testing.T, hex string) (c rgb) {
	t.Helper()
	digits := strings.TrimPrefix(hex, "#")
	if len(digits) != 6 {
		t.Fatalf("%q is not a colour of six digits", hex)
	}
	for i := range c {
		n, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if v := float64(n) / 255; v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

func (c rgb) seen(by [3]rgb) (s rgb) {
	for i, row := range by {
		s[i] = min(max(row[0]*c[0]+row[1]*c[1]+row[2]*c[2], 0), 1)
	}
	return s
}

func (c rgb) luminance() float64 { return 0.2126729*c[0] + 0.7151522*c[1] + 0.0721750*c[2] }

// lab is the colour in CIELAB, with the white of sRGB.
func (c rgb) lab() (l, a, b float64) {
	f := func(v float64) float64 {
		if v > 216.0/24389 {
			return math.Cbrt(v)
		}
		return (24389.0/27*v + 16) / 116
	}
	x := f((0.4124564*c[0] + 0.3575761*c[1] + 0.1804375*c[2]) / 0.95047)
	y := f(c.luminance())
	z := f((0.0193339*c[0] + 0.1191920*c[1] + 0.9503041*c[2]) / 1.08883)
	return 116*y - 16, 500 * (x - y), 200 * (y - z)
}

// distance is how different two colours look, as Delta E of 1976: about 2 is the smallest that can
// be seen side by side.
func distance(a, b rgb, by [3]rgb) float64 {
	l1, a1, b1 := a.seen(by).lab()
	l2, a2, b2 := b.seen(by).lab()
	return math.Sqrt((l1-l2)*(l1-l2) + (a1-a2)*(a1-a2) + (b1-b2)*(b1-b2))
}

// contrast is that of WCAG.
func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// apart is the distance from which colours alone can mean different things.
const apart = 15

// palettes returns the colours of the page by theme and name.
func palettes(t *testing.T) map[string]map[string]rgb {
	light, dark, ok := strings.Cut(pageTemplate, "@media (prefers-color-scheme: dark)")
	if !ok {
		t.Fatal("the page has no dark theme")
	}
	all := map[string]map[string]rgb{}
	for theme, text := range map[string]string{"light": light, "dark": dark} {
		_, block, _ := strings.Cut(text, ":root {")
		block, _, _ = strings.Cut(block, "}")
		all[theme] = map[string]rgb{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(block, -1) {
			all[theme][m[1]] = parseColour(t, m[2])
		}
	}
	return all
}

// look is what distinguishes a bar: its colour, or the pattern on it.
type look struct{ fill, pattern string }

// looks returns those of the bars in report.js by class, and the dashes of lines.
func looks(t *testing.T) (bars map[string]look, dashes map[string]string) {
	block := func(begin, end string) string {
		_, rest, ok := strings.Cut(pageScript, begin)
		text, _, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("report.js has no %s", begin)
		}
		return text
	}
	patterns := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+): \["`).FindAllStringSubmatch(block("const tiles = {", "\n};"), -1) {
		patterns[m[1]] = true
	}
	bars, dashes = map[string]look{}, map[string]string{}
	for _, m := range regexp.MustCompile(`"([a-z ]+)": \["([a-z-]+)"`).FindAllStringSubmatch(block("const paints = {", "\n};"), -1) {
		bars[m[1]] = look{fill: m[2]}
		if patterns[m[2]] {
			bars[m[1]] = look{pattern: m[2]}
		}
	}
	for i := range nodeColours {
		bars[fmt.Sprintf("node n%d", i)] = look{fill: fmt.Sprintf("n%d", i)}
	}
	for _, m := range regexp.MustCompile(`"(\w+)": \["\w+", (\[[^\]]+\])\]`).FindAllStringSubmatch(block("const dashes = {", "};"), -1) {
		dashes[m[1]] = m[2]
	}
	return bars, dashes
}

// Bars that can be in one lane differ in their pattern, or in a colour that looks different to
// people who do not distinguish red from green; lines differ in their dashes. Texts on the colours
// of nodes can be read, and the bars can be seen.
func TestPalette(t *testing.T) {
	bars, dashes := looks(t)
	if len(bars) < 20 || len(dashes) != 2 || dashes["injected"] == dashes["healed"] {
		t.Errorf("%d classes of bars, dashes of lines %v", len(bars), dashes)
	}
	nodes := []string{"node other"}
	for i := range nodeColours {
		nodes = append(nodes, fmt.Sprintf("node n%d", i))
	}
	lanes := [][]string{
		append(nodes, "gone", "bad", "partial"), // of leaders, endpoints, leases, components
		{"up", "down"},
		{"fault", "fault unproven"},
		{"span", "span open", "span culprit"},
		{"span", "span open", "span open culprit"},
	}
	for theme, colours := range palettes(t) {
		for _, lane := range lanes {
			for i, one := range lane {
				for _, other := range lane[i+1:] {
					a, b := bars[one], bars[other]
					if a == (look{}) || b == (look{}) {
						t.Fatalf("report.js paints neither %q nor %q", one, other)
					}
					if a.pattern != b.pattern {
						continue
					}
					for sight, by := range sights {
						if d := distance(colours[a.fill], colours[b.fill], by); a.pattern != "" || d < apart {
							t.Errorf("%s, %s: %q and %q differ by %.0f, want %d or another pattern", theme, sight, one, other, d, apart)
						}
					}
				}
			}
		}
		white := rgb{1, 1, 1}
		for i := range nodeColours {
			c := colours[fmt.Sprintf("n%d", i)]
			if on, in := contrast(c, white), contrast(c, colours["rail"]); on < 4 || in < 2 {
				t.Errorf("%s: the colour of node %d has contrast %.1f with its text and %.1f with its lane, want 4 and 2", theme, i, on, in)
			}
		}
		for _, name := range []string{"up", "down"} {
			if d := distance(colours[name], colours["rail"], sights["protanopia"]); d < apart {
				t.Errorf("%s: %s differs from an empty lane by %.0f", theme, name, d)
			}
		}
	}
	// What this finds: available and failed in the dark once looked like this.
	if d := distance(parseColour(t, "#2c6b43"), parseColour(t, "#f0524d"), sights["protanopia"]); d > 8 {
		t.Errorf("colours that look alike differ by %.0f", d)
	}
}
