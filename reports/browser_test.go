package reports

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var screenshots = flag.String("screenshots", "", "directory to write screenshots of the report to")

// browser returns a headless Chromium, or skips the test without one.
func browser(t *testing.T) string {
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed: apt-get install chromium-headless-shell")
	return ""
}

// browse opens a page with arguments of Chromium's, and returns what it prints and what it logs.
func browse(t *testing.T, page string, args ...string) (out, log string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser(t), append(args, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=5000", "file://"+page)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return stdout.String(), stderr.String()
}

// console are the lines of a log that come from the page: errors, and what its policy refused,
// such as a request to the network.
func console(log string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// drive acts as a user of the page, and writes down what is to be seen after each step.
const drive = `<script>
addEventListener("load", () => {
  const seen = {}, rows = () => [...document.querySelectorAll("form.filter + .card tr.row")].filter(r => r.offsetParent !== null).map(r => r.id).join(" ");
  const input = document.querySelector(".filter input"), chip = v => document.querySelector("button[data-verdict='" + v + "']");
  const type = text => { input.value = text; input.dispatchEvent(new Event("input")); };
  seen.start = rows();
  type("ep-003"); seen.search = rows() + " " + document.querySelector(".shown").textContent;
  type("no such thing"); seen.nothing = rows();
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "/"})); seen.focused = String(document.activeElement === input);
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"})); seen.cleared = rows();
  chip("pass").click(); seen.withoutPass = rows();
  chip("pass").click(); seen.withPass = rows();
  const svg = document.querySelector("svg.timeline"), box = svg.getBoundingClientRect();
  svg.dispatchEvent(new MouseEvent("mousemove", {clientX: box.left + box.width / 2, clientY: box.top + 20}));
  seen.cursor = svg.querySelector(".cursor").getAttribute("visibility") + " " + svg.querySelector(".cursor text").textContent;
  const mouse = (type, share) => svg.dispatchEvent(new MouseEvent(type, {bubbles: true, clientX: box.left + box.width * (214 + 950 * share) / 1180, clientY: box.top + 20}));
  const end = +svg.dataset.end, fault = svg.querySelector("g.fault rect"), width = +fault.getAttribute("width"), at = fault.getAttribute("x");
  const range = () => (svg.dataset.from / end).toFixed(2) + " to " + (svg.dataset.to / end).toFixed(2);
  mouse("mousedown", .25); mouse("mousemove", .5); mouse("mouseup", .5);
  seen.zoomed = range() + ", ticks " + [...svg.querySelectorAll("text.tick")].filter(e => e.getAttribute("visibility") !== "hidden").length;
  svg.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"})); seen.right = range();
  svg.dispatchEvent(new KeyboardEvent("keydown", {key: "-"})); seen.out = range();
  svg.dispatchEvent(new MouseEvent("dblclick")); seen.reset = range() + " " + (fault.getAttribute("x") === at && +fault.getAttribute("width") === width);
  seen.wide = String(document.documentElement.scrollWidth <= innerWidth);
  seen.images = String(document.images.length);
  document.body.innerHTML = "<pre id=seen>" + Object.entries(seen).map(([k, v]) => k + ": " + v).join("\n") + "</pre>";
});
</script>`

// The report in a browser: it filters, points, fits any width, logs no error and asks the
// network for nothing.
func TestReportInBrowser(t *testing.T) {
	browser(t)
	dir := t.TempDir()
	if err := Write(dir, fixtureRun(), fixtureResults(), fixtureRecords(), fixtureTitles()); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, HTMLFile)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	driven := filepath.Join(dir, "driven.html")
	if err := os.WriteFile(driven, bytes.Replace(text, []byte("</body>"), []byte(drive+"</body>"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{390, 768, 1280, 1920} {
		out, log := browse(t, driven, fmt.Sprintf("--window-size=%d,900", width), "--dump-dom")
		if lines := console(log); len(lines) > 0 {
			t.Errorf("%d pixels wide: the console has %q", width, lines)
		}
		seen := map[string]string{}
		if m := regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`).FindStringSubmatch(out); m != nil {
			for line := range strings.Lines(html.UnescapeString(m[1])) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				seen[name] = value
			}
		}
		all := len(strings.Fields(seen["start"]))
		for name, ok := range map[string]bool{
			"start":       all == len(New(fixtureRun(), fixtureResults(), nil).Requirements),
			"search":      strings.HasPrefix(seen["search"], "HA-EP-003 1 of "),
			"nothing":     seen["nothing"] == "",
			"focused":     seen["focused"] == "true",
			"cleared":     seen["cleared"] == seen["start"],
			"withoutPass": len(strings.Fields(seen["withoutPass"])) < all && !strings.Contains(seen["withoutPass"], "HA-EP-003"),
			"withPass":    seen["withPass"] == seen["start"],
			"cursor":      regexp.MustCompile(`^visible \d+\.\d\ds$`).MatchString(seen["cursor"]),
			"zoomed":      regexp.MustCompile(`^0\.25 to 0\.50, ticks ([89]|1[0-9]|2[0-9])$`).MatchString(seen["zoomed"]),
			"right":       seen["right"] == "0.31 to 0.56",
			"out":         seen["out"] == "0.19 to 0.69",
			"reset":       seen["reset"] == "0.00 to 1.00 true",
			"wide":        seen["wide"] == "true",
			"images":      seen["images"] == "0",
		} {
			if !ok {
				t.Errorf("%d pixels wide: %s is %q of %q", width, name, seen[name], seen["start"])
			}
		}
	}
	if *screenshots == "" {
		return
	}
	for name, args := range map[string][]string{
		"wide": {"--window-size=1280,1100"}, "phone": {"--window-size=390,1100"},
		"dark": {"--window-size=1280,1100", "--blink-settings=preferredColorScheme=0"},
	} {
		file, err := filepath.Abs(filepath.Join(*screenshots, "report-"+name+".png"))
		if err != nil {
			t.Fatal(err)
		}
		browse(t, page, append(args, "--screenshot="+file)...)
	}
}
